"""RRHF: the policy's own likelihood of the answers to a problem is to rank them as the reward does, and the best of them is imitated.

loss = mean over problems of [ sum_{r_i < r_j} max(0, p_i - p_j) - sum_t log pi(y*_t) ], p = (1 / |y|) sum_t log pi(y_t), y* the answer
with the highest reward, the earliest of equals.  A pair in the right order has no loss and no gradient.

A problem whose answers all have one reward ranks nothing and has no best: it is left out. With rewards of 0 and 1 the pairs are those of a
right and a wrong answer. The likelihood is a sum over tokens, the ranking a difference of means: `--objective.ranking.coefficient` sets
what they weigh against each other.

Reference: Yuan et al., RRHF: Rank Responses to Align Language Models with Human Feedback without tears, arXiv:2304.05302, eq. 1 to 4.
Ours: the answers are the current policy's at every step (the paper samples before training, from several models); leaving out
problems with equal rewards.
"""

from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.ranking import ImitationOfBest, Ranking
from gradus.papers.bases.best_of_n import best_of_n
from gradus.selection.filters import Informative

rrhf = best_of_n.derive(
    "rrhf",
    "Mean log-probabilities are made to rank a group's answers as their rewards do, and the best is imitated.",
    selection=Informative(),
    objective__ranking=Ranking(),
    objective__imitation=ImitationOfBest(average=SequenceSum()),
)
