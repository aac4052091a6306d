"""DART-GUI: environments, sampling and training never wait for each other, and the data are fitted to the difficulty of each task.

    A_(i,t) = (R_i - mean(R)) / (std(R)), with mean and std over all steps of the group's episodes
    m_(i,t) = 1 if H_(i,t) >= the 20 % quantile of H over the steps of the group, else 0
    w = min((pi_old(a)) / (pi_rollout(a)), 1)
    loss = -1/(sum m) sum m w min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A) + 0.1 KL

A step of an episode is one sample: the goal, the last two turns, the screen, and the answer of the agent. All tokens of a step have the advantage
$A_(i,t)$. In mean and std, an episode counts once for each of its steps. $H_(i,t)$ is the mean entropy of the tokens of step t. The sums run over the
tokens of the batch. The policy $pi_rollout$ sampled the token. It may be older than the policy $pi_old$ at the start of the update, and the factor w corrects
for this; w has no gradient and only lowers the weight. The ratio rho compares with $pi_old$.

Data: A task begins with 8 episodes. While the success rate of a task is above 0.6, the task gets one episode less at each visit, but at least 2. The limit of
turns for the episodes of a task is the length of its longest success so far, but at most 30. If all episodes of a task fail, an earlier success of the task
replaces one of them (experience pool), with the log-probabilities of the policy that sampled it.

System: Workers sample episodes without a pause, one at a time. Each worker has its own copy of the weights, and renews this copy before each episode.
A group is released when all its episodes are finished, so a slow episode does not delay other groups. The update runs at the same time, and trains on
the groups that were complete first. An episode that is more than one step old is sampled again.

Use if: episodes have many turns, environments are slow and of unequal speed, some tasks are always solved, and others never.
Avoid if: episodes have one turn, or answers take equally long (see grpo, and `--system none`). If tasks never come again, the adaptation of the data
has no effect.
Reference: Li et al. (Beijing Institute of Technology, BIGAI, DataCanvas), Efficient Multi-turn RL for GUI Agents via Decoupled Training and Adaptive Data
Curation, arXiv:2509.23866. The paper's numbers: 8 episodes, success rate 0.6, the upper 80 % of the steps by entropy, w at most 1, clip 0.2 and 0.28, KL
coefficient 0.1, 30 steps per episode, learning rate 1e-6.
Departures: The released script (Computer-use-agents/dart-gui, run_trainer_debug_w_rollout_stepwise_train_pt) has other settings than the paper: clip
0.1 and 0.28, rate 1e-7, one ratio per step (GSPO), the mean over steps of the means over their tokens, and no choice of steps by entropy. The script
divides by the sample deviation plus 1e-6. The script leaves out a group with only successes, and a group with only failures and no earlier success;
here such a group has the KL term. The released sampler (Computer-use-agents/dart_rollouter) gives a task int(9/r - 7) episodes if its success rate r
is above the threshold: 8 for 0.6, and 2 for 1. The released sampler shows the last five screens; the two turns of history are our choices. The paper
trains a vision-language model on desktops; here any policy plays any environment, and `screens` is a small device that shows text, pictures or
arrays. Our own choices are the least number of episodes (2), the decrease of this number per visit (1), the weight of an earlier visit in the success
rate (0.5) and the size of the pool (4). The pool holds successes of the run itself; the paper collects them beforehand, and only for hard tasks.
Workers are threads of one process, and the data manager is the run itself. The KL term leaves out the episodes of the pool. Small models need a
higher learning rate than 1e-6; the rate comes from the setting.
"""

from gradus.credit.step_samples import HighEntropySteps
from gradus.curricula.paced import Paced
from gradus.objectives.aggregation import Joint, TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.terms import PolicyGradient, TruncatedImportance
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.selection.success_pool import SuccessPool
from gradus.types import Frozen
from gradus.types.systems import Streaming

STEPS = Joint(TokenMean("weighted"))
TERM = PolicyGradient(trust=Clip(0.2, 0.28), weight=TruncatedImportance(1.0), average=STEPS)

dart_gui = grpo.derive(
    "dart_gui",
    "Workers sample without a pause; number and length of episodes, trained steps and replayed successes follow from the difficulty of a task.",
    family="systems",
    system=Streaming(staleness=1, workers=8, unit="answer"),
    curriculum=Paced(),
    rollout=Episodes(max_turns=30, history=2),
    reward=EnvironmentReturn(),
    selection=SuccessPool(),
    credit=HighEntropySteps(top=0.8),
    objective=Frozen(policy=TERM, pool=PolicyGradient(trust=TERM.trust, weight=TERM.weight, average=STEPS, source="replay"), kl=KL(0.1, average=STEPS)),
)

DEVICE = {"level": "1", "show": "array"}
SMALL = {
    "players.policy.model": "Fresh",
    "prompts": "6",
    "group": "8",
    "warmup": "0",
    "study": "none",
    "learning_rate": "3e-3",
    "update.epochs": "4",
}
TASKS = {"curriculum.pool": "12"}  # tasks that come again every two steps

claims = (
    same_weights(
        says="Without the system, the choice of data and the truncated weight, the final weights are those of GRPO on steps with the same clip and KL term.",
        source="arXiv:2509.23866, without its parts",
        against=(
            "grpo --rollout Episodes --rollout.max_turns 30 --rollout.history 2 --reward EnvironmentReturn --credit StepRelative "
            "--objective.policy.average TokenMean --objective.policy.trust.high 0.28 --objective.kl.coefficient 0.1 --objective.kl.average TokenMean"
        ),
        own={
            "system": "none",
            "curriculum": "ShuffledEpochs",
            "selection": "Everything",
            "credit.top": "1",
            "objective.policy.weight": "none",
        },
        task="frozen_lake",
    ),
    Claim(
        says="With taps that take a random time, eight steps take at most 0.67 of the time of a run whose rollouts and updates take turns.",
        source="arXiv:2509.23866, abstract (1.9 times the throughput of training); the bound, the task and the seconds of a tap are ours",
        against="dart_gui --system none",
        measure="seconds",
        at_most=0.67,
        task="screens",
        options={**DEVICE, "delay": "0.15"},
        fields={**SMALL, "prompts": "4", "group": "4", "curriculum.most": "4"},
        own={"system.workers": "8"},
        budget="steps=8",
    ),
    Claim(
        says="If tasks become easy, the last of 24 steps plays at most 0.9 of the episodes that a fixed number per task needs.",
        source="arXiv:2509.23866, section on dynamic rollouts; the bound and the task are ours",
        against="dart_gui --curriculum.least 8",
        measure="rollouts:last",
        at_most=0.9,
        task="screens",
        options=DEVICE,
        fields={**SMALL, **TASKS, "system": "none"},
        budget="steps=24",
    ),
    Claim(
        says="Pool, entropy threshold and pacing raise the mean accuracy of 24 steps by at least 0.03 on tasks that random taps solve in 4 of 100 tries.",
        source="arXiv:2509.23866, ablation of the data curation; the size of the effect and the task are ours",
        against="dart_gui --curriculum.least 8 --selection Everything --credit.top 1",
        measure="accuracy:mean",
        better_by=0.03,
        task="screens",
        options={"level": "2", "show": "array"},
        fields={**SMALL, **TASKS, "system": "none"},
        budget="steps=24",
    ),
    Claim(
        says="With 32 workers, one for each episode that may be in flight, the same eight steps take at most 0.67 of the time.",
        source="as the claim with 8 workers, which play 8 episodes at a time",
        against="dart_gui --system none",
        measure="seconds",
        at_most=0.67,
        task="screens",
        options={**DEVICE, "delay": "0.15"},
        fields={**SMALL, "prompts": "4", "group": "4", "curriculum.most": "4"},
        own={"system.workers": "32"},
        budget="steps=8",
    ),
    Claim(
        says="If 8 episodes are played at a time, 8 workers that play single episodes take at most 0.9 of the time of 2 workers that play groups of 4.",
        source="arXiv:2509.23866, section on rollout-wise sampling; the bound and the task are ours",
        against="dart_gui --system.unit group --system.workers 2",
        measure="seconds",
        at_most=0.9,
        task="screens",
        options={**DEVICE, "delay": "0.15"},
        fields={**SMALL, "prompts": "4", "group": "4", "curriculum.most": "4"},
        own={"system.workers": "8"},
        budget="steps=8",
    ),
)
