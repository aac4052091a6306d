"""Another update while training begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class FirstSteps:
    """For the first `steps` steps the update is `update` in place of the recipe's own; then the recipe is as it is."""

    steps: int = 50  # 0: never
    update: Any = None  # None: the recipe's own

    def __post_init__(self) -> None:
        check_ranges(self, steps="[0, inf)")

    def at(self, step: int, recipe: Any) -> Any:
        return recipe.but(update=self.update) if self.update is not None and step < self.steps else recipe
