"""THOR: whole episodes learn from the right answer, and failed tool calls are written again and learn from whether the new call runs.

    y = (r_1, a_1, o_1, r_2, a_2, o_2, ..., r_n), quad R_"ep" = 1{right}
    p_t = (r_1, a_1, o_1, ..., r_t without its last L tokens) quad "for a failed call" a_t
    y' ~ pi(. | p_t), quad R_"call" = 1{"the call of" y' "runs"}
    A_i = (R_i - mean(R)) / (std(R)) quad "in each group of episodes, and in each group of continuations"
    loss = mean over tokens of [l_t(A)] + alpha NLL, quad NLL = -mean over tokens with R = 1 of log pi
    l_t(A) = -min(rho_t A, clip(rho_t, 1 - 0.2, 1 + 0.28) A) "if" A >= 0, quad "else" min(-3 A, max(-rho_t A, -clip(rho_t, 1 - 0.2, 1 + 0.28) A))

$r_t$ is a thought, $a_t$ a program, and $o_t$ its inserted output, which has no loss. An episode has at most 5 calls. A right answer alone is a rare reward in
long answers, but an executed program is an immediate one. So for a failed call the policy goes back to before the call, and also drops the last L = 100 tokens
of the thought. From there it writes the rest of the thought and one program, 16 times. Only these new tokens are trained. Groups with equal rewards are
dropped at both levels. alpha is 0.01, and there is no KL term.

The search `RepairedCalls` makes the same move at test time: a failed call and its error are dropped, and the policy continues from before the call, at most
4 times. The cold start learns demonstrations with programs.

Use if: answers contain tool calls that may fail, and a call that runs is usually nearer to the right answer.
Avoid if: calls rarely fail, because then there are no groups of continuations, or if calls that run without an effect are easy to write.
Reference: Chang et al., THOR: Tool-Integrated Hierarchical Optimization via RL for Mathematical Reasoning, arXiv:2509.13761, sections on hierarchical RL and
on self-correction. L, alpha, 16, the clip, the ceiling 3, the 5 calls, the single mean over the tokens of both levels, and the limit of one group of
continuations per question are as in the released script (JingMog/THOR). The paper adds a separate mean of each level.
Departures: TIRGen, which turns text steps into programs, is left out; demonstrations of the task stand for its data. The cut stays within the thought before
the call; the released code cuts the last 100 tokens of the whole answer. The released code stops an episode at its first failed call, gives such an episode no
loss, and also leaves out short answers, answers without a box, and groups of which less than half is left; here episodes continue after a failed call and
learn. If no call failed, the released code writes a call that ran again; here the step has no continuations. The released code samples until a round has
enough groups with unequal rewards; here a step has only the other groups. The rule for NLL is the reward 1; in the released code it is A > 0. The deviation is
that of the population, without an epsilon; the released code takes that of the sample plus 1e-6. The script takes 5120 questions and 40 updates per round;
here there are 128 questions and 4 updates. The 4 repairs are our choice.
"""

from gradus.environments.tools import Tools
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.failed_calls import RetriedCalls
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Informative
from gradus.tools.forms import FencedCalls
from gradus.tools.python import Python
from gradus.types import Frozen
from gradus.types.moments import Steps

PROGRAMS = Tools(tools=Frozen(python=Python()), form=FencedCalls(), calls=5, limit=6)

thor = grpo.derive(
    "thor",
    "Episodes learn from the right answer; failed calls are written again, and learn from whether the new call runs.",
    family="agents",
    environment=PROGRAMS,
    rollout=RetriedCalls(play=Episodes(max_turns=6)),
    reward=EnvironmentReturn(),
    selection=Informative(),
    objective__policy__trust=DualClip(0.2, 0.28, 3.0),
    objective__policy__average=TokenMean(),
    objective__imitation=ImitateRight(0.01),
    objective__kl=None,
    players__reference=None,
    update__count=4,
    setting__prompts=128,
    setting__group=16,
    schedule=Stages(Frozen(sft=Stage(sft, Steps(150), changes=Frozen(environment=PROGRAMS)), rl=Stage(until=Steps(200)))),
)

_SLIPS = {"level": "1", "instruction": "false"}
_SMALL = {"prompts": "4", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "schedule": "ConstantSchedule", "update.count": "2"}

claims = (
    same_weights(
        says="Without tools and NLL, and with a ceiling that no ratio reaches, the final weights are those of GRPO on mixed groups with the clip 0.2 and 0.28.",
        source="arXiv:2509.13761, the objective without its additions; task and sizes are ours",
        against=(
            "grpo --objective.kl=none --players.reference=none --selection Informative --update.count 4 --objective.policy.average TokenMean "
            "--objective.policy.trust Clip(low=0.2,high=0.28)"
        ),
        own={
            "environment": "none", "rollout": "Auto", "reward": "Verified", "objective.imitation": "none", "objective.policy.trust.ceiling": "1e6",
            "schedule": "ConstantSchedule",
        },
    ),
    Claim(
        says="From a start that mistypes half of its first programs, the mean share of calls that run in 16 steps is at least 0.1 above episodes alone.",
        source=(
            "arXiv:2509.13761, figure on the pass rate of code with and without the step level; the row's 10 points of the area under the curve; the start, the "
            "task and the sizes are ours. The programs of this task have no thought before them, so a continuation writes the whole action. The continuations "
            "cost extra tokens"
        ),
        against="thor --rollout.most 0",
        measure="ran:mean",
        better_by=0.1,
        task="python_tool",
        options=_SLIPS,
        fields={**_SMALL, "study": "none"},
        budget="steps=16",
        script="benchmarks.warmed thor",
        seeds=3,
    ),
    Claim(
        says="With the same start and at most two turns, repaired calls raise held-out accuracy before training by at least 0.1.",
        source="arXiv:2509.13761, table on self-correction; the row's calls that fail at random are here the start's own typing errors; sizes are ours",
        against="thor --search none",
        measure="held_out/accuracy:first",
        better_by=0.1,
        task="python_tool",
        options=_SLIPS,
        fields={**_SMALL, "environment.limit": "2", "study.problems": "64", "study.greedy": "false"},
        own={"search": "RepairedCalls"},
        budget="steps=2",
        script="benchmarks.warmed thor-repair",
        seeds=3,
    ),
)
