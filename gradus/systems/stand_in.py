"""Describes the sizes of an environment as plain values. So another process can make the same fresh networks without the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from gradus.players.build import first_turn
from gradus.recipe.serialise import from_json, to_json
from gradus.types import Key
from gradus.types.parts import Task, Turn
from gradus.types.spaces import Space


def sizes_of(task: Task) -> dict[str, Any]:
    """Returns the types and shapes of the arrays in the first observation of the task's environment, and the space of actions of this environment."""
    (problem,) = task.source.draw([0], task.level, Key())
    shown = first_turn(task.environment, problem).observation
    arrays = {name: np.asarray(array) for name, array in shown.items()} if isinstance(shown, Mapping) else {}
    return {"arrays": {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}, "acts": to_json(task.acting)}


@dataclass(frozen=True)
class StandIn:
    """An object that replaces a source and an environment.

    The problems of this source are None. The first observation has the sizes from `sizes_of` and contains only zeros.
    """

    arrays: Mapping[str, Sequence[Any]]
    acts: Space

    @classmethod
    def of(cls, sizes: Mapping[str, Any]) -> StandIn:
        return cls(sizes["arrays"], from_json(sizes["acts"]))

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Any]:
        return [None] * len(indices)

    def start(self, problem: Any, key: Key, world: Any) -> Any:
        return SimpleNamespace(first=Turn({name: np.zeros(shape, np.dtype(dtype)) for name, (dtype, shape) in self.arrays.items()}))
