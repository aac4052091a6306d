"""SimPO: the reward of an answer is its mean log-probability, so no reference is needed. The better answer should lead by a margin.

    loss = mean over pairs of -log sigmoid(beta (m_w - m_l) - gamma)
    m = 1/|y| sum_t log pi(y_t)
    grad loss = -beta g ((grad log pi(y_w)) / |y_w| - (grad log pi(y_l)) / |y_l|)
    g = sigmoid(gamma - beta (m_w - m_l))

$y_w$ is the better answer of a pair, $y_l$ the worse one, m the mean log-probability of an answer of |y| tokens $y_t$. beta is 2, the margin
gamma is 1. The third line is the gradient of one pair.

Because of the division by length, longer answers get no bonus. The mean log-probability is also the quantity that generation maximises. Only the
learning rate, which the paper calls critical, keeps the policy close to the start model. The pairs are as in the base, dpo: given pairs, or the
best and the worst answer of a group.

Use if: pairs exist, memory allows no reference model, and better answers should not win by their length.
Avoid if: the policy must stay close to the start model, because no term of this loss keeps it there (see dpo, ipo).
Reference: Meng et al., SimPO: Simple Preference Optimization with a Reference-Free Reward, arXiv:2405.14734, eq. 6. The paper's Llama-3 base model
has beta 2 and gamma / beta 0.5. For other models, the first version of the paper has beta 2 and 2.5, and gamma / beta from 0.1 to 0.8. Later models have beta
up to 10.
Departures: None.
"""

from gradus.objectives.preference import Logistic, Preference
from gradus.objectives.scores import MeanLogProb
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim

simpo = dpo.derive(
    "simpo",
    "Pairs are compared by mean log-probability with a target margin, without a reference.",
    objective__sampled=Preference(beta=2.0, score=MeanLogProb(), link=Logistic(margin=1.0)),
    objective__given=Preference(beta=2.0, score=MeanLogProb(), link=Logistic(margin=1.0), source="expert"),
    players__reference=None,
)

claims = (
    Claim(
        says="Without a reference model a step handles at most 0.8 times the tokens of DPO.",
        source="arXiv:2405.14734, efficiency without a reference model; the factor is ours",
        against="dpo",
        measure="tokens",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=3",
    ),
    Claim(
        says="With the mean log-probability as reward, accuracy after 15 steps is at least 0.02 above DPO's.",
        source="arXiv:2405.14734, main results (above DPO); the size of the effect and the task are ours",
        against="dpo",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=15",
        problems=60,
        samples=2,
    ),
)
