"""Trains on the same trajectories in several rounds per step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradus.types import Group, Key
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Repeated:
    """Trains on all trajectories `count` times per step.

    Every round computes signals, credit and targets again. Moving averages are updated after every round. So if targets depend on the player's own values,
    they are computed `count` times per step. In contrast, several epochs (`Minibatches.epochs`) fit the same targets several times. If some rounds should not
    update a player, use the update `Delayed`.
    """

    count: int = 16  # rounds per step

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """Keeps all groups and drops none."""
        return list(groups), []

    def rounds(self, kept: Sequence[Group], key: Key) -> Iterator[list[Group]]:
        """Yields the kept groups once per round."""
        return iter([list(kept) for _ in range(self.count)])
