"""RLinf-VLA: PPO for policies that act in chunks of tokens, with one value per action of a chunk; the simulator and the policy work in a pipeline.

    R_(k,c) = sum of the rewards of action c of chunk k
    A_(k,c) = sum_(j >= 0) (gamma lambda)^j delta_(j) over the actions that follow, across chunks
    rho_(k,c,m) = (pi(a_(k,c,m))) / (pi_old(a_(k,c,m)))
    loss = mean over tokens of -min(rho A_(k,c), clip(rho, 1 - 0.2, 1 + 0.28) A_(k,c))

In turn k the policy sees the scene once and gives a chunk of C = 4 actions; each action has M tokens $a_(k,c,m)$, one per number. The environment executes the
actions one after another. The critic gives C values per scene, and $delta$ is the error of these values from one action to the next. gamma is 0.99, and lambda
is 0.95. The advantages are whitened over all actions of the batch. All tokens of an action have its advantage. Actions that the environment did not execute,
because the episode was over, have no loss, but count in the mean. Lanes continue to play while the policy learns: if an episode ends, the next episode begins
immediately (partial reset).

The levels of advantage and probability are fields. `--credit.level chunk` gives one advantage per chunk, from the sum of its rewards; then the critic
needs one value (`--players.critic.model.each_step false`). `--objective.policy.ratio JointRatio` takes the probability of a whole chunk, the product over
its tokens, and `--objective.policy.ratio.of step` takes the probability of one action. The level of the probability may be finer than the level of the
advantage, but not coarser.

The episodes are played in two sub-batches: while the simulator steps one half, the policy samples for the other half (hybrid placement).
`--rollout.parts 1` lets simulator and policy take turns (collocated placement); the trajectories are the same. `--system Ahead` gives rollout and update
their own threads (disaggregated placement). The group-relative form is rlinf_vla_grpo.

Use if: a policy gives several actions at a time, rewards are sparse, and the simulator and the policy take about equally long.
Avoid if: the simulator computes in the same thread as the policy, because a pipeline then saves nothing (`--rollout.parts 1`), or the policy gives one action
at a time (see ppo).
Reference: Zang et al. (Tsinghua University, Infinigence AI), RLinf-VLA: A Unified and Efficient Framework for VLA+RL Training, arXiv:2510.06710. The
numbers come from the released scripts (RLinf/RLinf, maniskill_ppo_openvlaoft): clip 0.2 and 0.28, value clip 0.2, gamma 0.99, lambda 0.95,
action-level rewards and values, token-level probabilities, no KL term, no entropy bonus, rate 1e-4 (LoRA) and 3e-3 for the value head. Two
sub-batches are as in maniskill_ppo_openvla.
Departures: The policy is a small network without language, which starts with random weights; the paper starts from a fine-tuned vision-language-action
model. The network gives all tokens of a chunk in one pass, as OpenVLA-OFT does. A number has 8 bins; in the paper it has 256. The critic is a
separate network; in the paper it is a head on the policy's trunk. The value error is squared (a Huber loss with bound 10 in the released code). The
released code keeps the loss constant above ratio 3 if A < 0, and adds gamma times the value of the last scene to the reward of every finished
episode; here only an episode that was cut off gets this value. The learning rate of the policy comes from the setting. The norm of the gradient is at
most 1, there is no weight decay, and each batch has four passes; in the released code these numbers are 10, 0.01 and one. Devices are threads of one
process. For pictures: `--task.show image --players.policy.model.kind cnn --players.critic.model.kind cnn`.
"""

from gradus.credit.chunks import ChunkGAE
from gradus.objectives.terms import ValueLoss
from gradus.objectives.trust import Clip
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.lanes import Lanes
from gradus.rollouts.pipelined import Pipelined
from gradus.types import Frozen
from gradus.types.players import Fresh, Player
from gradus.updates.optimizers import AdamW

rlinf_vla = ppo.derive(
    "rlinf_vla",
    "Chunks of tokenised actions get one value and one advantage per action, and the simulator and the policy work in a pipeline.",
    family="systems",
    players__policy=Player(Fresh(bins=8)),
    players__critic=Player(
        Fresh(outputs="value", each_step=True), objective=Frozen(value=ValueLoss(0.2)), learns_from="policy", optimizer=AdamW(lr=3e-3)
    ),
    players__reference=None,
    rollout=Pipelined(Lanes(length=12), parts=2),
    reward=EnvironmentReturn(),
    credit=ChunkGAE(gamma=0.99, lam=0.95, level="action"),
    objective__policy__trust=Clip(0.2, 0.28),
)

SMALL = {"prompts": "16", "group": "2", "warmup": "0", "study": "none", "learning_rate": "1e-3"}

claims = (
    Claim(
        says=(
            "If simulator and policy need equal times per episode, a rollout in two sub-batches takes at most 0.65 of the time in one, with equal trajectories."
        ),
        source="arXiv:2510.06710, abstract (1.61 to 1.88 times the speed of training); the bound and the delays, which stand for two devices, are ours",
        against="rlinf_vla --rollout.parts 1",
        measure="seconds of a rollout",
        at_most=0.65,
        task="reacher",
        budget="steps=1",
        script="benchmarks.pipelining",
    ),
    Claim(
        says="Twenty-five steps raise the share of targets that are touched by at least 0.2 above the start.",
        source="arXiv:2510.06710, abstract (gains of 20 to 85 points over the start); start, task and number of steps are ours",
        against="rlinf_vla --learning_rate 0",
        measure="accuracy",
        better_by=0.2,
        task="reacher",
        fields={name: value for name, value in SMALL.items() if name != "learning_rate"},
        own={"learning_rate": "1e-3"},
        budget="steps=25",
    ),
    Claim(
        says="Values and advantages for each action of a chunk give an accuracy at least 0.05 above one value and one advantage per chunk.",
        source="arXiv:2510.06710, section on PPO (values per action are better than values per chunk); the size of the effect and the task are ours",
        against="rlinf_vla --credit.level chunk --players.critic.model.each_step false",
        measure="accuracy",
        better_by=0.05,
        task="reacher",
        options={"level": "2"},
        fields=SMALL,
        budget="steps=25",
    ),
    same_weights(
        says="The placements collocated and hybrid give equal final weights.",
        source="the definition of the pipeline: it changes the order of the work, not its result",
        against="rlinf_vla --rollout.parts 1",
        task="reacher",
    ),
)
