"""The differences of two recipes as text."""

from __future__ import annotations

from typing import Any

from gradus.recipe.core import changes, get
from gradus.recipe.tree import Node, lines, node
from gradus.types.errors import UserError


def differences(a: Any, b: Any) -> str:
    """For every path whose values differ, a line with both; below it the fields of the old part (-) and of the new one (+)."""
    found = []
    for path, value in changes(a, b).items():
        try:
            old = node(path, get(a, path), short=True)
        except UserError:  # the path is new
            old = Node(path, "none")
        new = node(path, value, short=True)
        found.append(f"  {path:<40} {old.text or 'entries'} -> {new.text or 'entries'}")
        found += [*lines(old.below, "    - ", column=42), *lines(new.below, "    + ", column=42)]
    return "\n".join(found) or "  nothing"
