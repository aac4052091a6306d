"""Pairs from groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradus.selection.filters import learned
from gradus.types import Group, Key


@dataclass(frozen=True)
class Consecutive:
    """Cuts each group into pairs of consecutive trajectories (an odd last one is left out). Drops pairs with equal rewards.

    The trajectories of a group are drawn independently, so a pair holds two random answers, not the extremes.
    """

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        pairs = [
            g.but(key=f"{g.key}/pair/{i}", trajectories=pair)
            for g in groups
            for i, pair in enumerate(zip(learned(g)[::2], learned(g)[1::2], strict=False))
        ]
        kept = [p for p in pairs if p.trajectories[0].value != p.trajectories[1].value]
        return kept, [p for p in pairs if p not in kept]
