"""A different update for the first steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Warmup:
    """Uses `update` in place of the recipe's own update for the first `steps` steps, then the unchanged recipe.

    If `update` wraps another update and has none (`OnlyPlayers(update=None)`), it wraps the recipe's own.
    """

    steps: int = 50  # 0: never
    update: Any = None  # None: the recipe's own

    def __post_init__(self) -> None:
        check_ranges(self, steps="[0, inf)")

    def at(self, step: int, recipe: Any) -> Any:
        if self.update is None or step >= self.steps:
            return recipe
        inside = getattr(self.update, "update", self.update)
        return recipe.but(update=self.update if inside is not None else replace(self.update, update=recipe.update))
