"""SEC: a bandit chooses the kind of problem to train on; its reward is the mean absolute advantage that the kind gave last.

Kinds c = 1..C (level, type of problem, or both), values Q_0(c) = 0. Each step:

    p(c) = exp(Q(c) / tau) / sum_c' exp(Q(c') / tau);   every problem of the batch: a kind from p, then a problem of that kind;
    r(c) = mean over the kind's rollouts of |A|;         Q(c) <- alpha r(c) + (1 - alpha) Q(c) for the kinds that were drawn.

With rewards 0 or 1 and A = (R - p) / sqrt(p (1 - p)), the mean |A| of a group is 2 sqrt(p (1 - p)): largest at half right, 0 where all are
right or all are wrong. So the bandit follows the kinds at the edge of what the model can do, and a kind that is not drawn keeps its value.
The rest is GRPO. Metrics: arm/KIND, the chance of each kind.

Reference: Chen et al., Self-Evolving Curriculum for LLM Reasoning, arXiv:2505.14970: the categories as arms, |A| as their reward, TD(0) and
softmax; GRPO, RLOO or PPO below it. The value uses token-level |A|; under GRPO all tokens of an answer share one. Alpha is 0.5 in the released code
(a fork of verl), tau 1 for Countdown, 0.4 for mathematics, 0.2 for levels times types of puzzles; GRPO with 8 answers to each of 256 problems, four
updates per batch and no KL: `sec.but(objective__kl=None, players__reference=None, update__count=4)`. There an arm that was not drawn counts as one
with reward 0, so that its value falls, and each arm is read in random order without repetition until it runs out. Ours: GRPO as it stands, KL and
one update included; a group that is dropped before the update counts with 0; problems within a kind come in a keyed order without repetition.
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
