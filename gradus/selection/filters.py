"""Which groups enter the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.types import Group, Key, Trajectory


def without_failures(groups: Sequence[Group]) -> list[Group]:
    """The groups less the trajectories whose reward failed; a group left empty goes. The statistics of a group are those of the k that remain."""
    kept = (g.but(trajectories=tuple(t for t in g.trajectories if t.failed is None)) for g in groups)
    return [g for g in kept if g.trajectories]


def learned(group: Group) -> tuple[Trajectory, ...]:
    """The trajectories that may be trained on: those that were sampled for a value only are never picked out of a group."""
    return tuple(t for t in group.trajectories if t.trained)


@dataclass(frozen=True)
class Everything:
    """Keeps all groups."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        return list(groups), []


@dataclass(frozen=True)
class MeanReward:
    """Keeps groups whose mean reward lies within [low, high]."""

    low: float = 0.0
    high: float = 1.0

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if self.low <= g.rewards.mean() <= self.high]
        return kept, [g for g in groups if g not in kept]


@dataclass(frozen=True)
class Informative:
    """Keeps groups whose rewards differ: the others have advantage zero throughout."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if g.rewards.max() > g.rewards.min()]
        return kept, [g for g in groups if g not in kept]


@dataclass(frozen=True)
class Mixed:
    """Keeps groups that have a right and a wrong answer: accuracy neither 0 nor 1, whatever else their rewards hold."""

    asks_right: ClassVar[str] = "Informative"  # what to take where no answer is marked as right

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if 0.0 < (g.accuracy or 0.0) < 1.0]
        return kept, [g for g in groups if g not in kept]


@dataclass(frozen=True)
class BestAndWorst:
    """Keeps of each group its best and its worst trajectory, in that order (the earliest of equals); groups without a difference go."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = [], []
        for group in groups:
            best = max(learned(group), key=lambda t: t.value, default=None)
            worst = min(learned(group), key=lambda t: t.value, default=None)
            if best is not None and worst is not None and best.value > worst.value:
                kept.append(group.but(trajectories=(best, worst)))
            else:
                dropped.append(group)
        return kept, dropped


@dataclass(frozen=True)
class Best:
    """Keeps of each group its `count` best trajectories (the earlier one where rewards are equal), and only those above `above`."""

    count: int = 1
    above: float | None = None  # None: no floor

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = [], []
        for group in groups:
            ranked = sorted(learned(group), key=lambda t: -t.value)
            best = tuple(t for t in ranked[: self.count] if self.above is None or t.value > self.above)
            if best:
                kept.append(group.but(trajectories=best))
            else:
                dropped.append(group)
        return kept, dropped
