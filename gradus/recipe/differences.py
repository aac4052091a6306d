"""The differences between two recipes, as a tree of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.recipe.core import changes, first_of, get
from gradus.recipe.tree import INDENT, Node, node
from gradus.runtime.tables import Ink, outline
from gradus.types.errors import UserError

ABSENT = "-"
"""The text that stands for a value if the part does not have the field."""


@dataclass(frozen=True)
class Change:
    """A row of the tree: the name of a field, and its value in both recipes.

    The value of a part is the name of its class. A row that only groups the rows below it has the value "". A group with only one row is merged
    with this row, and a dot joins the two names.
    """

    depth: int
    name: str
    old: str = ""
    new: str = ""


def differences(a: Any, b: Any) -> tuple[Change, ...]:
    """Finds the fields that differ, as a tree.

    The tree also has the parts that contain these fields, and the fields of replaced parts. The result is () if the recipes are equal.
    """
    grown: dict[str, Any] = {}
    for path, value in changes(a, b).items():
        at, (*above, last) = grown, _names(a, b, path)
        for name in above:
            at = at.setdefault(name, {})
        at[last] = (_at(a, path), node(last, value, short=True))
    return tuple(_rows(grown, 0))


def _names(a: Any, b: Any, path: str) -> list[str]:
    """Splits a path into its names. The name of a mapping's entry may contain dots."""
    names: list[str] = []
    roots = [a, b]
    while path:
        name, rest = min((first_of(root, path) for root in roots), key=lambda found: len(found[1]))
        roots = [child for root in roots if (child := _child(root, name)) is not None]
        names.append(name)
        path = rest
    return names


def _child(root: Any, name: str) -> Any:
    try:
        return get(root, name)
    except UserError:
        return None


def _at(recipe: Any, path: str) -> Node:
    """The old value at a path; "none" if the path is new."""
    try:
        return node("", get(recipe, path), short=True)
    except UserError:
        return Node("", "none")


def _rows(grown: Mapping[str, Any], depth: int) -> Iterator[Change]:
    for name, below in grown.items():
        while isinstance(below, dict) and len(below) == 1:  # one line for a branch without a fork
            ((inner, below),) = below.items()
            name = f"{name}.{inner}"
        if isinstance(below, dict):
            yield Change(depth, name)
            yield from _rows(below, depth + 1)
        else:
            old, new = below
            yield from _both(name, old, new, depth)


def _both(name: str, old: Node | None, new: Node | None, depth: int) -> Iterator[Change]:
    """Gives the row of a value. If the value is a part, also gives the rows of the fields of both parts."""
    texts = [ABSENT if one is None else one.text for one in (old, new)]
    if depth and set(texts) == {ABSENT, "none"}:
        return  # a field without a value in a part that only one recipe has
    yield Change(depth, name, *texts)
    inside = [{child.name: child for child in one.below} if one is not None else {} for one in (old, new)]
    for child in dict.fromkeys([*inside[0], *inside[1]]):
        yield from _both(child, inside[0].get(child), inside[1].get(child), depth + 1)


def _plain(text: str, style: str) -> str:
    return text


def told(found: Sequence[Change], old: str = "", new: str = "", *, room: int | None = None, ink: Ink = _plain) -> str:
    """The changes in three columns: field, old value, new value.

    `old` and `new` are the titles of the last two columns; without them, the columns have no titles.
    """
    if not found:
        return "nothing"
    head = ("", old, new) if old or new else None
    rows = [(INDENT * change.depth + change.name, change.old, change.new) for change in found]
    return outline(rows, head, {1: "quiet"}, room=room, ink=ink)
