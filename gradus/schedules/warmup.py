"""A different update for the first steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gradus.types.moments import Event, Moment
from gradus.types.parts import Update
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Warmup:
    """Uses `update` in place of the recipe's own update for the first `steps` steps, then the unchanged recipe.

    If `update` wraps another update and has none (`OnlyPlayers(update=None)`), it wraps the recipe's own.
    """

    steps: int = 50  # 0: never
    update: Update | None = None  # None: the recipe's own

    def __post_init__(self) -> None:
        check_ranges(self, steps="[0, inf)")

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        if self.update is None or now.step >= self.steps:
            return recipe, ()
        around: Any = self.update
        inside = getattr(around, "update", around)
        return recipe.but(update=around if inside is not None else replace(around, update=recipe.update)), ()
