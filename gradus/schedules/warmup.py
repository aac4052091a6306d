"""Uses a different update in the first steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gradus.types.moments import Event, Moment
from gradus.types.parts import Update
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Warmup:
    """In the first `steps` steps, uses `update` in place of the recipe's own update. Later steps use the unchanged recipe.

    If `update` is a wrapper without an inner update, such as `OnlyPlayers(update=None)`, `update` wraps the recipe's own update.
    """

    steps: int  # number of steps with `update`; 0: none
    update: Update | None = None  # None: the recipe's own update

    def __post_init__(self) -> None:
        check_ranges(self, steps="[0, inf)")

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        return (("update", self._around(recipe)),) if self.update is not None and self.steps else ()

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        if self.update is None or now.step >= self.steps:
            return recipe, ()
        return recipe.but(update=self._around(recipe)), ()

    def _around(self, recipe: Any) -> Any:
        around: Any = self.update
        return around if getattr(around, "update", around) is not None else replace(around, update=recipe.update)
