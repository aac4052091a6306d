"""REINFORCE: the policy-gradient theorem as it stands, with the batch's mean reward as baseline.

gradient = mean over trajectories of sum_t (R - b) grad log pi(a_t), b = mean reward of the batch; one update a batch, no ratio to clip.

Reference: Williams, Simple statistical gradient-following algorithms for connectionist reinforcement learning, Machine Learning 8, 1992.
Ours: the baseline (the paper leaves it open) and AdamW in place of plain gradient ascent.
"""

from gradus.credit.groups import BatchBaseline
from gradus.curricula.sweep import Sweep
from gradus.objectives.averages import SequenceSum
from gradus.objectives.terms import Policy
from gradus.objectives.trust import Unclipped
from gradus.recipe import Recipe
from gradus.rewards.verified import Verified
from gradus.rollouts.acting import Acting
from gradus.schedules.steady import Steady
from gradus.selection.filters import Everything
from gradus.study.evaluation import HeldOut
from gradus.types import Frozen
from gradus.updates.minibatches import Minibatches
from gradus.updates.optimizers import AdamW

reinforce = Recipe(
    key="reinforce",
    about="The policy gradient as it stands: every token weighed by the trajectory's reward less the batch's mean.",
    curriculum=Sweep(),
    rollout=Acting(),
    reward=Verified(),
    selection=Everything(),
    credit=BatchBaseline(),
    objective=Frozen(policy=Policy(trust=Unclipped(), average=SequenceSum())),
    optimizer=AdamW(),
    update=Minibatches(),
    schedule=Steady(),
    study=HeldOut(),
)
