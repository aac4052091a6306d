"""SEC: a bandit chooses the kind of problem to train on. The bandit's reward for a kind is the mean absolute advantage at the last draw of this kind.

    p(c) = (exp(1/tau Q(c))) / (sum_k exp(1/tau Q(k)))
    r(c) = mean over rollouts of |A|
    Q(c) becomes alpha r(c) + (1 - alpha) Q(c)
    A = (R - q) / sqrt(q (1 - q)), quad mean of |A| = 2 sqrt(q (1 - q))

c is a kind of problem (level, type of problem, or both), Q(c) its value, 0 at the start, and tau the temperature of the softmax. For every place in
the batch a kind is drawn from p, then a problem of that kind. r(c) is the mean over the kind's rollouts. The values of the drawn kinds are then
updated.

The last line is for rewards R of 0 or 1, in a group with a share q of right answers. The mean |A| is largest if half of the answers are right, and 0
if all answers are right or all are wrong. So the bandit prefers the kinds at the edge of the model's ability. A kind that is not drawn keeps its
value. Apart from this, the method is GRPO. Metrics: arm/KIND, the probability of each kind.

Use if: problems have kinds or levels of very different difficulty, and the best mixture is unknown or changes during training.
Avoid if: problems have one kind, or kinds do not differ in difficulty (see grpo). To drop single groups without a gradient, see dapo.
Reference: Chen et al., Self-Evolving Curriculum for LLM Reasoning, arXiv:2505.14970. The categories are arms, |A| is their reward, with TD(0) and
softmax; the policy learns by GRPO, RLOO or PPO. The value uses the |A| of tokens; with GRPO all tokens of an answer have the same |A|. Alpha is 0.5
in the released code (a fork of verl). In the released code tau is 1 for Countdown, 0.4 for mathematics, and 0.2 for levels times types of puzzles.
GRPO has 8 answers to each of 256 problems, four updates per batch and no KL: `sec.but(objective__kl=None, players__reference=None, update__count=4)`.
Departures: KL and one update per batch are as in grpo. A group that is dropped before the update counts with |A| = 0. Problems within a kind come in a random
order, without repetition. In the released code an arm that was not drawn counts as if its reward were 0, so its value falls.
"""

from gradus.curricula.bandit import Bandit
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim

sec = grpo.derive(
    "sec",
    "A bandit draws the kinds of problems on which the mean absolute advantage was largest.",
    family="data",
    curriculum=Bandit(alpha=0.5, tau=1.0),
)

claims = (
    Claim(
        says=(
            "On four levels of countdown the share of groups with a gradient is at least 0.08 higher than if the levels are drawn evenly (a fifth "
            "of a share near 0.4)."
        ),
        source="arXiv:2505.14970; the size of the effect is ours",
        against="sec --curriculum.alpha=0",
        measure="informative:mean",
        better_by=0.08,
        task="countdown",
        fields={"curriculum.arms": "countdown/1,countdown/2,countdown/3,countdown/4"},
        budget="steps=40",
        seeds=3,
    ),
)
