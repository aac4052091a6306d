"""The line of `gradus explain` for a field that the recipe's schedule changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gradus.recipe.core import Recipe
from gradus.recipe.tree import brief
from gradus.schedules.paths import value_at
from gradus.types.moments import Moment


def moved(recipe: Recipe, path: str) -> str:
    """The schedule that changes the field at a dotted path; '' if no schedule changes it.

    The text has the values at the first and the last step, if the schedule gives them without a run.
    """
    mover, ends = _mover(recipe.schedule, recipe, path), _ends(recipe, path)
    differ = len(ends) == 2 and ends[0] != ends[1]
    if mover is None and not differ:
        return ""
    values = f": {brief(ends[0])} at step 0, {brief(ends[1])} at step {recipe.setting.steps - 1}" if differ else ""
    return f"moved by schedule {type(recipe.schedule if mover is None else mover).__name__}{values}"


def _mover(schedule: Any, recipe: Recipe, path: str) -> Any:
    """The schedule (or one of its parts) that declares a change of the path, or of a part that contains the field; None if no schedule declares such a
    change."""
    parts = getattr(schedule, "parts", None)
    if isinstance(parts, Mapping):
        return next((found for part in parts.values() if (found := _mover(part, recipe, path)) is not None), None)
    declared = schedule.sets(recipe) if hasattr(schedule, "sets") else ()
    return schedule if any(path == name or path.startswith(f"{name}.") for name, _ in declared) else None


def _ends(recipe: Recipe, path: str) -> list[Any]:
    """The values at the first and the last step; empty if the schedule needs a state or the metrics of a run."""
    if hasattr(recipe.schedule, "start"):
        return []
    with suppress(Exception):  # without a run, a schedule may raise any error; the check of a run reports real faults
        found = [recipe.schedule.at(Moment(step, recipe.setting.steps), recipe) for step in (0, recipe.setting.steps - 1)]
        return [value_at(turn[0] if isinstance(turn, tuple) else turn, path) for turn in found]
    return []
