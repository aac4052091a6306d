"""Draws problems in an order that depends only on the run's key. Each pass over a finite source has a new order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradus.types import Key, Problem, Request
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn


@dataclass(frozen=True)
class ShuffledEpochs:
    """Requests the next problems of the source, with `group` samples of each problem (None: the setting's group).

    A finite source is shuffled again after every pass.
    """

    group: int | None = None

    def __post_init__(self) -> None:
        check_ranges(self, group="[1, inf)")

    def start(self) -> dict[str, int]:
        return {"drawn": 0}

    def choose(self, source: Source, count: int, world: World, state: dict[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns `count` requests. The state is the number of problems that were drawn since the run began."""
        first = state["drawn"]
        order = sweep_order(source.size, range(first, first + count), world.seed)
        return [Request(p, count=self.group or world.group) for p in problems_at(source, order, world)], {"drawn": first + count}


@dataclass(frozen=True)
class Once:
    """Requests one sample per problem, in the order of `ShuffledEpochs`.

    A step has prompts * group problems, so it has the usual number of samples.
    """

    def start(self) -> dict[str, int]:
        return {"drawn": 0}

    def choose(self, source: Source, count: int, world: World, state: dict[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns `count * world.group` requests for one sample each. The state has the same form as in `ShuffledEpochs`."""
        return ShuffledEpochs(group=1).choose(source, count * world.group, world, state)


def problems_at(source: Source, places: Sequence[int], world: World, level: float | None = None) -> list[Problem]:
    """Returns the problems of a run at these indices of the source. `level`: the level of generated problems; None: the level of the task."""
    problems = source.draw(places, world.task.level if level is None else level, world.seed.fold("problems"))
    check_drawn(source, problems, places)
    return list(problems)


def sweep_order(size: int | None, positions: range, key: Key) -> list[int]:
    """Returns the indices at these positions of the endless sequence of passes. Every pass is a permutation of 0..size-1, which a key draws. If `size` is
    None, the indices are the positions.
    """
    if size is None:
        return list(positions)
    passes = {p: key.fold("pass", p).permutation(size) for p in {i // size for i in positions}}
    return [int(passes[i // size][i % size]) for i in positions]
