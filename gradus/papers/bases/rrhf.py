"""RRHF: the policy learns to give answers with a higher reward a higher likelihood, and imitates the best answer to each problem.

    loss = mean over problems of [sum_(r_i < r_j) max(0, p_i - p_j) - sum_t log pi(y_t^best)]
    p_i = 1/|y_i| sum_t log pi(y_(i,t))

The answers $y_i$ to a problem have rewards $r_i$; $p_i$ is the mean log-probability of an answer. $y^best$ is the answer with the highest reward;
if several answers have this reward, $y^best$ is the earliest of them. A pair in the right order has no loss and no gradient.

A problem whose answers have equal rewards has no pairs and no best answer. Such a problem is left out. If rewards are 0 or 1, every pair has a right
and a wrong answer. The imitation term is a sum over tokens, but the ranking term is a difference of means. `--objective.ranking.coefficient` sets the
relative weight of the two terms.

Use if: rewards rank several answers to a problem, and training should need only one model, without critic, reference and ratio.
Avoid if: the policy should stay close to the start model (see dpo), or the size of the rewards should count (see grpo, rloo).
Reference: Yuan et al., RRHF: Rank Responses to Align Language Models with Human Feedback without tears, arXiv:2304.05302, eq. 1 to 4.
Departures: The current policy samples the answers at every step (the paper samples before training, from several models). Problems with equal rewards
are left out.
"""

from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.ranking import ImitationOfBest, Ranking
from gradus.papers.bases.best_of_n import best_of_n
from gradus.recipe.claim import Claim
from gradus.selection.filters import Informative

rrhf = best_of_n.derive(
    "rrhf",
    "Mean log-probabilities learn to rank a group's answers as their rewards do, and the best answer is imitated.",
    selection=Informative(),
    objective__ranking=Ranking(),
    objective__imitation=ImitationOfBest(average=SequenceSum()),
)

claims = (
    Claim(
        says="It needs one model in place of PPO's four: a step handles less than a third of PPO's tokens.",
        source="arXiv:2304.05302, abstract (1 to 2 models in training, PPO 4); the factor is ours",
        against="ppo",
        measure="tokens",
        at_most=0.33,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=2",
    ),
)
