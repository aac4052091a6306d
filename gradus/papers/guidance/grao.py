"""GRAO: the policy's answers are weighted by their advantages, the reference answer by its advantage in the same group, and a term pushes them apart.

    J = 1/G sum_i [A_i l(o_i) + beta A_y l(y) + lambda (A_i - A_y) (l(o_i) - l(y))]
    l(x) = 1/|x| sum_t log pi(x_t | q, x_(<t))
    A_x = (R(x) - mean(R)) / (std(R)), quad x in {o_1, ..., o_G, y}

o_i are the policy's answers to the prompt q, y is the reference answer, and R is the reward. The mean and the deviation are over all G + 1 answers. The loss is
-J, averaged over prompts. J is linear in l, so it is a policy gradient with these advantages:

    w(o_i) = A_i + lambda (A_i - A_y)
    w(y) = beta A_y - lambda (1/G sum_i A_i - A_y)

w(y) is above 0 exactly if R(y) exceeds the mean reward of the policy's answers. So the policy imitates y while y is better, and later moves away from it.
With beta = lambda = 0 the loss is REINFORCE with the baseline of the group. beta is 0.5 and lambda is 0.6. A group of 9 has 8 sampled answers and y. There is
one update per batch.

Use if: each prompt has a reference answer of medium quality, and a reward can compare it with the policy's answers.
Avoid if: references are perfect (see sft, luffy), or no reward exists.
Reference: Wang et al., Learning to Align, Aligning to Learn: A Unified Approach for Self-Optimized Alignment, arXiv:2508.07750 (the three terms; beta 0.5,
lambda 0.6). We read only the abstract of the paper and a summary, and found no public code.
Departures: Our own choices are the mean log-probability per token, the statistics over G + 1 answers and the sign of the third term. The sum of the
A_i is not 0, because y is in the statistics: while y is better, each step also makes all answers of the policy a little less likely. A group whose
reference failed has the advantages of GRPO; a reference that is alone in its group has advantage 0. All answers have the same weight, so a prompt
with failed answers counts less. The deviation is the population deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import Scale, group_relative, spread
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import WeightedLikelihood
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.mixed_policy import MixedPolicy
from gradus.types import Group
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def aligned(advantages: np.ndarray, given: np.ndarray, *, beta: float, lam: float) -> np.ndarray:
    """Returns w(o_i) for the policy's answers and w(y) for the given answer, float64 [G + 1]. Args: `advantages` [G + 1]; `given` bool [G + 1]."""
    if given.all():
        return np.zeros(len(advantages))
    if not given.any():
        return advantages
    own, reference = advantages[~given].mean(), advantages[given].mean()
    return np.where(given, beta * advantages - lam * (own - advantages), advantages + lam * (advantages - reference))


@dataclass(frozen=True)
class Aligned:
    """Gives each answer of the policy A + lam (A - A_y), and the reference answer beta A_y - lam (mean A - A_y). A is the reward standardised over
    the whole group."""

    beta: float = 0.5  # weight of the imitation of the reference
    lam: float = 0.6  # weight of the term that pushes the policy's answers and the reference apart
    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, beta="[0, inf)", lam="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(
            groups,
            [
                aligned(
                    group_relative(g.rewards, scale=self.scale), np.array([t.source != "policy" for t in g.trajectories]), beta=self.beta, lam=self.lam
                )
                for g in groups
            ],
        )


LIKELIHOOD = PolicyGradient(ratio=Probability(), trust=WeightedLikelihood(), average=SequenceMean())

grao = grpo.derive(
    "grao",
    "The policy's answers and a reference answer share a group: exploration, imitation by advantage, and a term that pushes them apart.",
    family="guidance",
    rollout=MixedPolicy(),
    credit=Aligned(),
    objective__policy=LIKELIHOOD,
    objective__expert=PolicyGradient(ratio=Probability(), trust=WeightedLikelihood(), average=SequenceMean(), source="expert"),
    objective__kl=None,
    players__reference=None,
    setting__group=9,
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="With beta = lambda = 0 the final weights are those of REINFORCE with the group's mean and deviation, the reference included.",
        source="arXiv:2508.07750, the first term alone",
        against="grpo --objective.kl none --players.reference none --rollout MixedPolicy",
        within=1e-6,
        own={"credit.beta": "0", "credit.lam": "0"},
    ),
    Claim(
        says="Where the policy almost never solves a problem, accuracy after 5 steps is at least 0.1 above that of GRPO with as many answers per group.",
        source="arXiv:2508.07750, main results (above GRPO); the ground and the size of the effect are ours",
        against="grpo --objective.kl none --players.reference none",
        measure="accuracy",
        better_by=0.1,
        ground="weak_to_strong",
        seeds=3,
    ),
)
