"""Makes pairs from the trajectories of a group. There are three kinds of pairs: two consecutive samples, two samples that a list of criteria ranks, or a
right and a wrong sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Protocol

from gradus.selection.filters import learned
from gradus.types import Frozen, Group, Key, Trajectory, UserError
from gradus.types.parts import Task
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Consecutive:
    """Cuts each group into pairs of consecutive trajectories. If the number of trajectories is odd, the last trajectory is left out. Drops pairs with equal rewards.

    The trajectories of a group are drawn independently, so a pair has two random answers, not the best and the worst answer.
    """

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        pairs = [
            g.but(key=f"{g.key}/pair/{i}", trajectories=pair)
            for g in groups
            for i, pair in enumerate(zip(learned(g)[::2], learned(g)[1::2], strict=False))
        ]
        kept = [p for p in pairs if p.trajectories[0].value != p.trajectories[1].value]
        return kept, [p for p in pairs if p not in kept]


class Criterion(Protocol):
    """One reason to prefer a trajectory."""

    def level(self, trajectory: Trajectory) -> float:
        """Returns the quality of a trajectory by this criterion. A higher number is better."""
        ...

    def decides(self, better: Trajectory, other: Trajectory) -> bool | None:
        """Whether `better` is preferred. The level of `better` is at least that of `other`.

        If the result is False, the next criterion decides. If the result is None, the two trajectories do not form a pair.
        """
        ...


@dataclass(frozen=True)
class Right:
    """Prefers a right answer to a wrong one (`Trajectory.right`). Two wrong answers do not form a pair."""

    def level(self, trajectory: Trajectory) -> float:
        return float(trajectory.right)

    def decides(self, better: Trajectory, other: Trajectory) -> bool | None:
        return None if not better.right else not other.right


@dataclass(frozen=True)
class Higher:
    """Prefers the higher reward (for example a judge's score of a report), if the difference of the rewards is above `margin`."""

    margin: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, margin="[0, inf)")

    def level(self, trajectory: Trajectory) -> float:
        return trajectory.value

    def decides(self, better: Trajectory, other: Trajectory) -> bool | None:
        return better.value - other.value > self.margin


@dataclass(frozen=True)
class Fewer:
    """Prefers the lower value of a number in `links`: `turns` (one more than the tool calls), `errands` of sub-agents, or `invalid` actions."""

    of: str = "turns"

    def check_task(self, task: Task) -> None:
        """Raises UserError for a task whose answers have no turns."""
        if task.environment is None:
            raise UserError(
                f"the selection compares trajectories by Fewer({self.of}), but task {task.name} has no environment, so there are no turns to count; "
                "use a task of many turns, or leave the criterion out"
            )

    def level(self, trajectory: Trajectory) -> float:
        number = trajectory.links.get(self.of, 0)
        if "turns" not in trajectory.links or not isinstance(number, int | float):
            raise UserError(
                f"the selection compares trajectories by Fewer({self.of}), but trajectory {trajectory.id} has no number {self.of} in its links; take a task with "
                "an environment, or leave the criterion out"
            )
        return -float(number)

    def decides(self, better: Trajectory, other: Trajectory) -> bool | None:
        return self.level(better) > self.level(other)


@dataclass(frozen=True)
class Shorter:
    """Prefers the shorter trajectory if the number of actions of the longer one is above `times` the number of the shorter one. Only tokens that the player
    chose count.
    """

    times: float = 1.5

    def __post_init__(self) -> None:
        check_ranges(self, times="[1, inf)")

    def level(self, trajectory: Trajectory) -> float:
        return -float(trajectory.actions)

    def decides(self, better: Trajectory, other: Trajectory) -> bool | None:
        return other.actions > self.times * better.actions


@dataclass(frozen=True)
class RankedPairs:
    """Makes all pairs of trajectories of a group in which one trajectory is preferred. The preferred trajectory is the first of its pair.

    The criteria of `by` are tried in order, and the first criterion that prefers a trajectory decides. A trajectory may be in several pairs. Each pair contains
    copies of its two trajectories. The name of a copy contains the trajectory and the pair. The link `preferred` of a copy tells whether the copy is
    the preferred trajectory. So objectives can compare answers with equal rewards. Groups without a pair are dropped.
    """

    by: tuple[Criterion, ...] = (Right(),)
    most: int | None = None  # largest number of pairs per group; pairs of earlier trajectories come first; None: all pairs

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")
        if not self.by:
            raise UserError(
                "RankedPairs: `by` is empty, so no trajectory is preferred; give at least one criterion, such as Right, Fewer or Shorter"
            )

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = list[Group](), list[Group]()
        for group in groups:
            pairs = ranked(learned(group), self.by)[: self.most]
            kept += [
                group.but(key=f"{group.key}/pair/{i}", trajectories=(copied(a, i, True), copied(b, i, False)))
                for i, (a, b) in enumerate(pairs)
            ]
            if not pairs:
                dropped.append(group)
        return kept, dropped


def ranked(trajectories: Sequence[Trajectory], by: Sequence[Criterion]) -> list[tuple[Trajectory, Trajectory]]:
    """Returns the pairs (better, worse) that the criteria rank, in the order of the trajectories."""
    pairs = []
    for one, two in combinations(trajectories, 2):
        for criterion in by:
            better, other = (one, two) if criterion.level(one) >= criterion.level(two) else (two, one)
            decided = criterion.decides(better, other)
            if decided is None:
                break
            if decided:
                pairs.append((better, other))
                break
    return pairs


def copied(trajectory: Trajectory, pair: int, preferred: bool) -> Trajectory:
    """Returns a copy of a trajectory, for one pair."""
    return trajectory.but(id=f"{trajectory.id}/pair/{pair}", links=Frozen({**trajectory.links, "preferred": preferred}))


@dataclass(frozen=True)
class RightWrongPair:
    """Makes one pair of a right and a wrong trajectory per group, with the right one first. Drops groups that lack right or wrong trajectories.

    `pairs` is the rule. "random" draws a pair. "balanced" takes the pair with the least difference of lengths. "longest" takes the longest right and the shortest
    wrong trajectory, and "shortest" the shortest right and the longest wrong trajectory. If pairs are equal by this rule, the first is taken.
    """

    pairs: Literal["random", "balanced", "longest", "shortest"] = "random"

    def __post_init__(self) -> None:
        if self.pairs not in ("random", "balanced", "longest", "shortest"):
            raise UserError(f'RightWrongPair.pairs is "{self.pairs}"; it must be "random", "balanced", "longest" or "shortest"')

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = list[Group](), list[Group]()
        for group in groups:
            found = ranked(learned(group), (Right(),))
            if not found:
                dropped.append(group)
                continue
            surplus = [right.actions - wrong.actions for right, wrong in found]
            scores = {"balanced": [abs(s) for s in surplus], "longest": [-s for s in surplus], "shortest": surplus}.get(self.pairs)
            chosen = key.fold("pair", group.key).choice(range(len(found))) if scores is None else scores.index(min(scores))
            kept.append(group.but(trajectories=found[chosen]))
        return kept, dropped
