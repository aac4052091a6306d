"""Shows parts and values as readable text: as a tree with one line per field, or as one line. The repr of an object is never shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from gradus.recipe.core import Recipe
from gradus.types.frozen import value_fields

INDENT = "  "
_COLUMN = 40  # width of the names with their indents


@dataclass(frozen=True)
class Node:
    """A value with a name: its text, and its fields or entries below the text. If a value has only fields or entries, its text is ''."""

    name: str
    text: str
    below: tuple[Node, ...] = ()


def node(name: str, value: Any, *, short: bool = False) -> Node:
    """Makes the tree of a value. The text of a part is the name of its class. The text of a recipe within another recipe is its key.

    Args: short: leave out a field of a part if the field has its default value and is not a number.
    """
    if isinstance(value, Recipe) and name:  # the recipe of a stage
        return Node(name, value.key)
    if is_dataclass(value) and not isinstance(value, type):
        fields = ((f.name, getattr(value, f.name), f.default) for f in value_fields(value))
        kept = [(key, item) for key, item, default in fields if not short or item != default or type(item) in (int, float)]
        return Node(name, type(value).__name__, tuple(node(key, item, short=short) for key, item in kept))
    if isinstance(value, Mapping) and value:
        return Node(name, "", tuple(node(str(key), item, short=short) for key, item in value.items()))
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) or is_dataclass(item) for item in value):
        return Node(name, "", tuple(node(str(index), item, short=short) for index, item in enumerate(value)))
    return Node(name, plain(value))


def plain(value: Any) -> str:
    """A value without fields, in the form of the command line: none, true, 0.28, or several values with commas between them.

    Any other object becomes the name of its class.
    """
    if value is None or (isinstance(value, (Mapping, list, tuple, set, frozenset)) and not value):
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (set, frozenset)):
        return ", ".join(sorted(map(plain, value)))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain, value))
    if isinstance(value, (int, float, str)):
        return str(value)
    return str(getattr(value, "__name__", None) or type(value).__name__)


def lines(nodes: Sequence[Node], start: str = "", *, column: int = _COLUMN) -> list[str]:
    """One line per node with its name, indented by its depth, and its text. `start`: the beginning of every line."""
    found = []
    for one in nodes:
        found.append(f"{start + one.name:<{column}} {one.text}".rstrip())
        found += lines(one.below, start + INDENT, column=column)
    return found


def rows_of(nodes: Sequence[Node], depth: int = 1) -> list[tuple[str, str]]:
    """(name, text) of each node in the order of the tree. The names are indented by the depth of their nodes."""
    return [row for one in nodes for row in [(INDENT * depth + one.name, one.text), *rows_of(one.below, depth + 1)]]


def brief(value: Any) -> str:
    """A value in one line. A part becomes the name of its class. The numbers of a part, and its other fields that differ from their defaults, follow
    in brackets."""
    return _brief(node("", value, short=True))


def _brief(one: Node) -> str:
    inside = ", ".join(f"{child.name} {_brief(child)}" for child in one.below)
    return one.text + (f" ({inside})" if one.text and inside else inside)
