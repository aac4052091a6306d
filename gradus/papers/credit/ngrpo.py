"""NGRPO: adds an imaginary perfect answer to the mean and deviation of the group, so a group without a right answer still has a gradient.

    mu = 1/(G + 1) (r_max + sum_j r_j), quad sigma^2 = 1/(G + 1) ((r_max - mu)^2 + sum_j (r_j - mu)^2)
    A_i = (r_i - mu) / sigma
    loss = 1/N sum_i sum_t -min(rho A_i, clip(rho, 1 - epsilon_neg, 1 + epsilon_pos) A_i)
    A_i = -1/(sqrt(G)) if all r_j = 0

Answer i of a group of G has reward $r_i$; $r_max$ is the largest possible reward. The imaginary answer has this reward, and no loss uses it. The last
line gives the advantage in a group without a right answer, for rewards 0 and 1; in grpo this advantage is 0. In a mixed group the imaginary answer
lowers the advantages of all answers, right and wrong. This effect is large if few answers are right. A group whose answers are all right has
advantage 0 and is dropped. A group of one has advantage 0.

rho is the ratio of a token between the trained policy and the sampling policy, and N counts the tokens of the mini-batch. Groups of wrong answers now add
many negative advantages. Therefore the bound is narrow for negative advantages, $epsilon_neg$ = 0.16, and wide for positive advantages, $epsilon_pos$
= 0.24. A batch is cut into four mini-batches; with a single mini-batch no ratio reaches a bound. Metric: clip_share.

Use if: many groups have no right answer, and the model should explore in such groups instead of waiting.
Avoid if: most groups are mixed (see grpo). If the largest reward of the task is not 1, set `--credit.best`.
Reference: Nan et al. (Ant Group), NGRPO: Negative-enhanced Group Relative Policy Optimization, arXiv:2509.18851: advantage calibration and asymmetric
clipping. The released script has the bounds 0.16 and 0.24, one imaginary answer, 8 answers per problem, and 1024 problems per batch in mini-batches
of 256. The script has no KL term and drops groups whose answers are all right.
Departures: The standard deviation is the population deviation, as in the paper's formula. The released code has the deviation of the sample plus 1e-6
(`--credit.scale sample`). So in the released code the advantage in a group of 8 wrong answers is -0.333 instead of -0.354. A group of one gets
advantage 0; in the released code its advantage is its reward. The released configuration adds an entropy bonus with coefficient 0.001 by default;
this recipe has none. The released code samples further batches until a batch is full, and keeps the surplus for the next step. Here dropped groups
are not replaced, unless `--rollout DynamicSampling --rollout.until NotAllRight` is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import Scale, group_relative, spread
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group, Key
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def calibrated(rewards: np.ndarray, *, best: float, virtual: int, scale: Scale) -> np.ndarray:
    """Returns `group_relative` [G] of the rewards [G] after `virtual` rewards of `best` join the group; zeros for a group of one."""
    if len(rewards) < 2:
        return np.zeros(len(rewards))
    return group_relative(np.append(rewards, [best] * virtual), scale=scale)[: len(rewards)]


@dataclass(frozen=True)
class VirtualBest:
    """Standardises the reward within the group after `virtual` imaginary answers with the largest possible reward join the group."""

    best: float = 1.0  # the largest possible reward
    virtual: int = 1  # number of imaginary answers; 0: the advantage is that of GroupRelative
    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, best="(-inf, inf)", virtual="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [calibrated(g.rewards, best=self.best, virtual=self.virtual, scale=self.scale) for g in groups])


@dataclass(frozen=True)
class NotAllRight:
    """Keeps groups with at least one wrong answer. The rewards do not matter."""

    asks_right: ClassVar[str] = "Everything"  # the part to use instead if no answer is marked as right

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if (g.accuracy or 0.0) < 1.0]
        return kept, [g for g in groups if g not in kept]


ngrpo = grpo.derive(
    "ngrpo",
    "An imaginary perfect answer in the group's mean and deviation gives a gradient to groups of wrong answers; the clip of negative advantages is narrower.",
    family="credit",
    credit=VirtualBest(),
    selection=NotAllRight(),
    objective__policy__trust=Clip(low=0.16, high=0.24),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    update__count=4,
)

claims = (
    same_weights(
        says="Without an imaginary answer the final weights are those of the advantage of GRPO.",
        source="arXiv:2509.18851, advantage calibration; the limit is ours",
        against="ngrpo --credit GroupRelative",
        own={"credit.virtual": "0"},
    ),
    Claim(
        says="If most groups have no right answer, a step trains on at least 1.3 times the tokens that have a gradient in GRPO.",
        source="arXiv:2509.18851, abstract (homogeneous errors become a learning signal); the ground and the factor are ours",
        against="ngrpo --credit GroupRelative --selection Mixed",
        measure="tokens/train:mean",
        at_least=1.3,
        ground="sparse",
    ),
    Claim(
        says="If most groups have no right answer, the entropy of the policy after 30 steps is at least a tenth above that with GRPO's advantage.",
        source="arXiv:2509.18851, abstract (exploration pressure of the calibration); the ground, the rate and the size of the effect are ours",
        against="ngrpo --credit GroupRelative",
        measure="entropy:last",
        at_least=1.1,
        ground="sparse",
        fields={"learning_rate": "3e-4"},
        budget="steps=30",
    ),
    Claim(
        says="If most groups have no right answer, held-out accuracy after 30 steps is at least 0.02 above that with GRPO's advantage.",
        source="arXiv:2509.18851, main results (MATH-500, AMC23, AIME2025); the ground, the rate and the size of the effect are ours",
        against="ngrpo --credit GroupRelative",
        measure="accuracy",
        better_by=0.02,
        ground="sparse",
        fields={"learning_rate": "3e-4"},
        budget="steps=30",
    ),
)
