"""Chooses the groups, and the answers within each group, that are used in the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.types import Group, Key, Trajectory
from gradus.types.parts import Selection
from gradus.types.pieces import continues
from gradus.types.ranges import check_ranges

Ranks = Literal["all", "best", "best_and_random", "best_and_worst"]


def without_failures(groups: Sequence[Group]) -> list[Group]:
    """Removes trajectories with a failed reward, and then empty groups. So the statistics of a group count only its remaining trajectories."""
    kept = (g.but(trajectories=tuple(t for t in g.trajectories if t.failed is None)) for g in groups)
    return [g for g in kept if g.trajectories]


def learned(group: Group) -> tuple[Trajectory, ...]:
    """Returns the trajectories of a group that an update may use (`trained` True)."""
    return tuple(t for t in group.trajectories if t.trained)


@dataclass(frozen=True)
class Everything:
    """Keeps all groups."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        return list(groups), []


@dataclass(frozen=True)
class MeanReward:
    """Keeps groups whose mean reward is within [low, high]."""

    low: float = 0.0
    high: float = 1.0

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if self.low <= g.rewards.mean() <= self.high]
        return kept, [g for g in groups if g not in kept]


@dataclass(frozen=True)
class Informative:
    """Keeps groups with unequal rewards, because in a group with equal rewards every advantage is zero."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if g.rewards.max() > g.rewards.min()]
        return kept, [g for g in groups if g not in kept]


@dataclass(frozen=True)
class Mixed:
    """Keeps groups that have both right and wrong answers (the accuracy is above 0 and below 1). The size of the rewards has no effect."""

    asks_right: ClassVar[str] = "Informative"  # the part to use instead if no answer is marked as right

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if 0.0 < (g.accuracy or 0.0) < 1.0]
        return kept, [g for g in groups if g not in kept]


@dataclass(frozen=True)
class OwnAnswers:
    """Applies `selection` to the groups with answers of the policy, and keeps all other groups, such as groups of given answers."""

    selection: Selection = Mixed()

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        own = [g for g in groups if any(t.source == "policy" for t in g.trajectories)]
        kept, dropped = self.selection.keep(own, key)
        return [*kept, *(g for g in groups if g not in own)], dropped


@dataclass(frozen=True)
class FinishedAnswers:
    """Keeps only answers that no later step continues. Use this selection with rollouts that return unfinished answers, such as `Windowed`. Drops groups
    without such an answer.
    """

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        whole = [g.but(trajectories=tuple(t for t in g.trajectories if not continues(t))) for g in groups]
        return [w for w in whole if w.trajectories], [g for g, w in zip(groups, whole, strict=True) if not w.trajectories]


@dataclass(frozen=True)
class BestAndWorst:
    """Keeps the best and the worst trajectory of each group, in that order. If trajectories have equal rewards, the earliest trajectory is taken.

    Drops groups with equal rewards.
    """

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
    """Keeps the `count` best trajectories of each group, if their reward is above `above`. If trajectories have equal rewards, the earlier trajectory is taken."""

    count: int = 1
    above: float | None = None  # lower bound on the reward; None: no bound

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


@dataclass(frozen=True)
class KeptByRank:
    """Ranks the answers of each group by reward, and keeps the ranks that `rule` names. If rewards are equal, the earlier answer has the better rank.

    Reference: Shen and Zhang, Policy Filtration in RLHF, arXiv:2409.06957, section 4.
    """

    rule: Ranks = "best_and_random"

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """Returns the groups with the kept answers, best first. Groups without an answer to train on are dropped."""
        if self.rule == "all":
            return list(groups), []
        ranked = [sorted(learned(g), key=lambda t: -t.value) for g in groups]
        kept = [g.but(trajectories=of_rank(r, self.rule, key.fold("rank", g.key))) for g, r in zip(groups, ranked, strict=True) if r]
        return kept, [g for g, r in zip(groups, ranked, strict=True) if not r]


def of_rank(ranked: Sequence[Trajectory], rule: Ranks, key: Key) -> tuple[Trajectory, ...]:
    """Returns the answers that a rule keeps. `ranked`: at least one answer, best first. An answer that is both the best and the worst is kept once."""
    if len(ranked) == 1 or rule == "best":
        return (ranked[0],)
    other = ranked[-1] if rule == "best_and_worst" else key.choice(ranked[1:])
    return ranked[0], other


def balanced(right: Sequence[bool], count: int) -> list[int]:
    """Returns the indices of `count` answers, in ascending order: the first right answers and the first wrong answers, half of each kind.

    If there are too few of one kind, the other kind fills the rest. If there are fewer than `count` answers, all are chosen.

    >>> balanced([False, False, False, True], 2)
    [0, 3]
    """
    rights, wrongs = ([i for i, verdict in enumerate(right) if verdict is kind] for kind in (True, False))
    least = min(len(wrongs), count - min(count // 2, len(rights)))
    return sorted([*rights[: count - least], *wrongs[:least]])


@dataclass(frozen=True)
class Balanced:
    """Keeps `count` answers of each group: the first right and the first wrong answers, half of each kind if there are enough.

    Reference: Xiong et al., Reinforce-Ada, arXiv:2510.04996v1, algorithm 1.
    """

    count: int = 4
    asks_right: ClassVar[str] = "Everything"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = list[Group](), list[Group]()
        for group in groups:
            answers = learned(group)
            chosen = tuple(answers[i] for i in balanced([t.right for t in answers], self.count))
            if chosen:
                kept.append(group.but(trajectories=chosen))
            else:
                dropped.append(group)
        return kept, dropped


@dataclass(frozen=True)
class Accepted:
    """Keeps the right trajectories of each group. The trajectories are weighted so that all groups have the same total weight, and the mean weight is 1.

    Drops groups without a right trajectory that an update may use.
    """

    asks_right: ClassVar[str] = "Best"  # the part to use instead if no answer is marked as right

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        chosen = [tuple(t for t in learned(g) if t.right) for g in groups]
        count, number = sum(map(len, chosen)), sum(map(bool, chosen))
        kept = [
            g.but(trajectories=tuple(t.but(weight=t.weight * count / (number * len(row))) for t in row))
            for g, row in zip(groups, chosen, strict=True)
            if row
        ]
        return kept, [g for g, row in zip(groups, chosen, strict=True) if not row]


@dataclass(frozen=True)
class BalancedGroups:
    """If most answers of a group are below the group's mean reward, drops such answers at random until they are half of the group. Keeps all groups."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        return [self._balanced(group, key.fold("balance", group.key)) for group in groups], []

    def _balanced(self, group: Group, key: Key) -> Group:
        rewards = group.rewards
        wrong = np.flatnonzero(
            (rewards < rewards.mean()) & (rewards < rewards.max())
        )  # because of rounding, the mean of equal rewards may differ from these rewards
        surplus = 2 * len(wrong) - len(group.trajectories)
        if surplus <= 0:
            return group
        gone = set(wrong[key.permutation(len(wrong))[:surplus]].tolist())
        return group.but(trajectories=tuple(t for i, t in enumerate(group.trajectories) if i not in gone))
