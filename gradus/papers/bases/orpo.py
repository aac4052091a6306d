"""ORPO: fine-tunes on the better answer and adds a small penalty on the odds of the worse one, in one stage and without a reference.

    loss = mean over pairs of [-m_w - lambda log sigmoid(o_w - o_l)]
    m = 1/|y| sum_t log pi(y_t), quad o = m - log(1 - exp(m))
    grad [-log sigmoid(o_w - o_l)] = -d ((grad m_w) / (1 - p_w) - (grad m_l) / (1 - p_l))
    d = sigmoid(o_l - o_w), quad p = exp(m)

$y_w$ is the better answer of a pair and $y_l$ the worse one. The symbol m is the mean log-probability of an answer with |y| tokens $y_t$, p its
likelihood per token, and o its log-odds; lambda is 0.1. The first term teaches the policy the better answer. The second term only makes the worse
answer less likely; the effect of this term is small if the worse answer is already unlikely. The odds of an answer with p = 1 are infinite, so m is
clamped to at most -1e-7. The pairs are as in the base, dpo: given pairs, or the best and the worst answer of a group that the current policy
samples. The policy imitates the best answer of a group. If a step has given and sampled pairs, the means of both kinds are added.

Use if: given pairs exist, and memory or time allows neither a reference model nor a separate stage of supervised fine-tuning.
Avoid if: the policy should stay close to the start model (see dpo, which has a reference), or the better answers should not be imitated (see simpo).
Reference: Hong et al., ORPO: Monolithic Preference Optimization without Reference Model, arXiv:2403.07691, eq. 3 to 7. The paper has lambda 0.1 for
its Mistral model.
Departures: The paper has given pairs and several epochs over them. The likelihood is the likelihood of the answer alone, as in the formula, and every
better answer has the same weight. The released code and TRL 1.16 also imitate the tokens of the prompt, and average over all tokens of the batch.
Here `--objective.imitation_given.average TokenMean` averages over the tokens of all answers. Here the end token counts in the likelihood and in the
odds. In the released code the end token is the padding token, so the likelihood leaves the end token out. The odds then count one padding token after the end
token.
"""

from gradus.objectives.preference import Preference
from gradus.objectives.ranking import ImitationOfBest
from gradus.objectives.scores import LogOdds
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim

orpo = dpo.derive(
    "orpo",
    "Likelihood of the better answer plus a logistic loss on the odds of the pair, without a reference.",
    objective__imitation_sampled=ImitationOfBest(),
    objective__imitation_given=ImitationOfBest(source="expert"),
    objective__sampled=Preference(beta=1.0, score=LogOdds(), coefficient=0.1),
    objective__given=Preference(beta=1.0, score=LogOdds(), coefficient=0.1, source="expert"),
    players__reference=None,
)

claims = (
    Claim(
        says="Without a reference model a step handles at most 0.8 times the tokens of DPO.",
        source="arXiv:2403.07691, efficiency without a reference model; the factor is ours",
        against="dpo",
        measure="tokens",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=3",
    ),
)
