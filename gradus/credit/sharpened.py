"""Larger advantages for right answers that are unlikely under the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.types import Group, Trajectory
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import LogProbs, Signal


def sharpened(advantages: np.ndarray, likelihoods: np.ndarray, right: np.ndarray, *, weight: float, most: float) -> np.ndarray:
    """Returns A + min(max(weight (1 - eta), 0), most A) for right answers with A > 0, and A for all other answers, float64 [G].

    eta = exp(s - mean s). Args: `likelihoods` s [G], the mean log-probability of each answer's tokens, in nats.
    """
    eta = np.exp(likelihoods - likelihoods.mean())
    extra = np.minimum(np.maximum(weight * (1 - eta), 0.0), most * advantages)
    return np.where(right & (advantages > 0), advantages + extra, advantages)


@dataclass(frozen=True)
class Sharpened:
    """Raises the positive advantages of right answers that are less likely under the policy than the average answer of the group.

    Reference: Bamba et al., XRPO, arXiv:2510.06672.
    """

    rule: Credit = GroupRelative()
    weight: float = 2.5  # lambda_n; 0: nothing is added
    most: float = 0.5  # kappa, the largest addition as a share of the advantage
    asks_right: ClassVar[str] = "GroupRelative"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", most="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, LogProbs())

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(g, row, signals[LogProbs()]) for g, row in zip(groups, assigned(self.rule, groups, signals), strict=True)]

    def _group(self, group: Group, row: Sequence[Credited], logprobs: Mapping[str, np.ndarray]) -> list[Credited]:
        first = np.array([float(c.advantages[0]) if len(c.advantages) else 0.0 for c in row])
        means = np.array([mean_of(logprobs[t.id], t) for t in group.trajectories])
        right = np.array([t.right for t in group.trajectories])
        extra = sharpened(first, means, right, weight=self.weight, most=self.most) - first
        return [replace(c, advantages=c.advantages + e) for c, e in zip(row, extra, strict=True)]


def mean_of(row: np.ndarray, trajectory: Trajectory) -> float:
    """Returns the mean of `row`, which has one number per action of the trajectory; 0 for a trajectory without an action."""
    return float(np.asarray(row, np.float64).mean()) if trajectory.actions else 0.0
