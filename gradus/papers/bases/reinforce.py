"""REINFORCE: the plain policy gradient, with the batch's mean reward as baseline.

    loss = -1/N sum_i sum_t (R_i - b) log pi(a_(i,t))
    b = 1/N sum_i R_i

$a_(i,t)$ is token t of trajectory i, $R_i$ its reward, and N the number of trajectories of the batch. Every token has the same advantage $R_i -
b$. A batch is used for one update, so there is no ratio to clip. A batch of equal rewards has no gradient.

Use if: a first run should be simple, or a comparison needs the simplest method. REINFORCE makes one update per batch, and has no critic, no reference
and no groups.
Avoid if: the difficulty of problems varies, because the batch's mean is then a poor baseline (see rloo, grpo). With several updates per batch a ratio
and a clip are needed (see reinforce_plus_plus, ppo).
Reference: Williams, Simple statistical gradient-following algorithms for connectionist reinforcement learning, Machine Learning 8, 1992.
Departures: The baseline is the batch's mean reward; the paper leaves the baseline open. AdamW replaces plain gradient ascent.
"""

from gradus.credit.groups import BatchBaseline
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Unclipped
from gradus.recipe.claim import Claim
from gradus.recipe.core import Recipe
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Everything
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.updates.minibatches import Minibatches
from gradus.updates.optimizers import AdamW

reinforce = Recipe(
    key="reinforce",
    about="The plain policy gradient: every token is weighted by the trajectory's reward minus the batch's mean.",
    curriculum=ShuffledEpochs(),
    rollout=Auto(),
    reward=Verified(),
    selection=Everything(),
    credit=BatchBaseline(),
    objective=Frozen(policy=PolicyGradient(trust=Unclipped(), average=SequenceSum())),
    optimizer=AdamW(),
    update=Minibatches(),
    schedule=ConstantSchedule(),
    study=HeldOut(),
)

claims = (
    Claim(
        says="The mean reward as a baseline lowers the norm of the gradient, its variance at fixed weights: by a fifth at least.",
        source="Williams 1992, the reinforcement baseline, which leaves the expected gradient as it is; the size of the effect and the task are ours",
        against="reinforce --credit RewardToGo",
        measure="grad_norm:mean",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none", "learning_rate": "0"},
        budget="steps=4",
    ),
)
