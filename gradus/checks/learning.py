"""Checks whether a recipe can learn from its groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from gradus.checks.findings import Finding
from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.recipe.compatibility import objectives_of
from gradus.recipe.core import Recipe
from gradus.types.frozen import value_fields

COMPARING = (GroupRelative, LeaveOneOut)
"""The credit rules that give only the advantage 0 to a group with one answer, or with equal rewards."""


def of_learning(recipe: Recipe) -> Iterator[Finding]:
    """Yields a warning if nothing can be learned, because the objective has no term or because a group cannot have two different answers."""
    if recipe.credit is not None and not any(objective for _, objective in objectives_of(recipe)):
        yield Finding("recipe", "warning", "the objective has no term, so no weight moves", "set one, such as --objective.policy PolicyGradient")
    rule = next((type(part).__name__ for part in _parts(recipe.credit) if isinstance(part, COMPARING)), None)
    if rule is None:
        return
    if recipe.setting.group == 1:
        says = f"`group` is 1, so {rule} has no second answer to compare with: advantages are 0 unless the rollout samples more answers"
        yield Finding("recipe", "warning", says, "raise --group")
    elif recipe.setting.temperature == 0:
        says = f"`temperature` is 0, so all answers to a problem are the same, and {rule} compares equal answers: advantages are 0"
        yield Finding("recipe", "warning", says, "raise --temperature")


def _parts(part: Any) -> Iterator[Any]:
    """Yields a part and all parts inside it."""
    if is_dataclass(part):
        yield part
        for field in value_fields(part):
            yield from _parts(getattr(part, field.name))
