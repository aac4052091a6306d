"""Another update while training begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gradus.types.parts import Update
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Warmup:
    """For the first `steps` steps the update is `update` in place of the recipe's own; then the recipe is as it is.

    Where `update` is one that goes round another and has none (`OnlyPlayers(update=None)`), it goes round the recipe's own.
    """

    steps: int = 50  # 0: never
    update: Update | None = None  # None: the recipe's own

    def __post_init__(self) -> None:
        check_ranges(self, steps="[0, inf)")

    def at(self, step: int, recipe: Any) -> Any:
        if self.update is None or step >= self.steps:
            return recipe
        around: Any = self.update
        inside = getattr(around, "update", around)
        return recipe.but(update=around if inside is not None else replace(around, update=recipe.update))
