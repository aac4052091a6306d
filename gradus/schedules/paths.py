"""Values at a dotted path of a recipe, read and set by schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from gradus.types.ranges import declared_type


def value_at(recipe: Any, path: str) -> Any:
    """The value at a path; None if the recipe does not have the path."""
    node = recipe
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else getattr(node, name, None)
    return node


def fitting(recipe: Any, path: str, value: Any) -> Any:
    """The value as the field at the path takes it: a field of whole numbers takes the nearest one, other fields take the value itself."""
    holder, _, name = path.rpartition(".")
    part = value_at(recipe, holder) if holder else recipe
    whole = is_dataclass(part) and declared_type(type(part), name) in ("int", "int | None")
    return round(value) if whole and isinstance(value, float) else value


def with_value(recipe: Any, path: str, value: Any) -> Any:
    """The recipe with the value at the path; the recipe itself if it has that value."""
    value = fitting(recipe, path, value)
    current = value_at(recipe, path)
    return recipe if type(current) is type(value) and current == value else recipe.but(**{path: value})
