"""A curriculum that adapts the number of problems per step to the number of samples with an advantage other than 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.types import Group, Request
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges


def next_size(size: int, wanted: float, valid: float, *, share: float = 0.1) -> int:
    """Returns the number of problems of the next step: ceil(share * floor(size * wanted / valid) + (1 - share) * size)."""
    due = floor(size * wanted / max(valid, 1.0))
    return ceil(share * due + (1 - share) * size - 1e-9)


@dataclass(frozen=True)
class SizeByUse:
    """Requests the problems of `ShuffledEpochs`. Adapts the number of problems per step so that the wanted number of samples has an advantage other than
    0.
    """

    wanted: float = 30.0  # samples with an advantage, per problem of the setting
    share: float = 0.1
    most: float = 4.0  # the largest number of problems, as a multiple of the number in the setting

    def __post_init__(self) -> None:
        check_ranges(self, wanted="(0, inf)", share="[0, 1]", most="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"inner": ShuffledEpochs().start(), "size": 0, "valid": None}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns the requests, and the new state: the state of `ShuffledEpochs`, the number of problems, and None. Later, `learn` replaces None by the
        number of samples with an advantage.
        """
        size = state["size"] or count
        if state["valid"] is not None:
            size = min(next_size(size, self.wanted * count, state["valid"], share=self.share), int(self.most * count))
        requests, inner = ShuffledEpochs().choose(source, size, world, state["inner"])
        world.note("problems", size)
        return requests, {"inner": inner, "size": size, "valid": None}

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with the number of samples that had an advantage."""
        valid = sum(t.advantages is not None and bool(t.advantages.any()) for g in groups for t in g.trajectories)
        return {**state, "valid": float(valid)}
