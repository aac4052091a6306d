"""Lookups in the source: file and line of a recipe's change and of a class's field, and the comment of a field."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path

from gradus.recipe import registry


def place_of_change(recipe: str, path: str) -> str:
    """file:line of the keyword in a recipe's file that sets the path, a field below the path, or the part that contains the path. Returns '' if there is no
    such keyword.
    """
    if ".py:" in recipe:
        file, _, name = recipe.rpartition(":")
    elif recipe in registry.recipe_modules():
        module, _, name = registry.recipe_modules()[recipe].partition(":")
        file = str(inspect.getsourcefile(importlib.import_module(module)))
    else:
        return ""
    words = _keywords(file, Path(file).stat().st_mtime_ns, name)
    near = [(len(w), line) for w, line in words if path == w or path.startswith(f"{w}.") or w.startswith(f"{path}.")]
    return f"{shown(file)}:{max(near)[1]}" if near else ""


@functools.cache
def _keywords(file: str, modified: int, name: str) -> list[tuple[str, int]]:
    """(path, line) of every keyword in the calls that make the object `name`. `modified`: the time of the file's last change; if it differs, the file is read
    again.
    """
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    made = [n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and _names(n, name)]
    calls = (n for n in ast.walk(made[-1]) if isinstance(n, ast.Call)) if made else ()
    return [(k.arg.replace("__", "."), k.value.lineno) for call in calls for k in call.keywords if k.arg]


def _names(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)


def shown(file: str | Path) -> str:
    """The path of a file as users see it: gradus/... for a file of the package, and unchanged for other files."""
    path, root = Path(file).resolve(), Path(__file__).resolve().parent.parent.parent
    return str(path.relative_to(root)) if path.is_relative_to(root / "gradus") else str(file)


def place_of_field(cls: type, name: str) -> str:
    """file:line of a field in its class, or in the base class that declares it; '' if there is no source."""
    found = _declaration(cls, name)
    return "" if found is None else f"{shown(found[0])}:{found[1]}"


def _declaration(cls: type, name: str) -> tuple[str, int, str] | None:
    """File, line and source text of a field's declaration."""
    for owner in cls.__mro__:
        if name not in inspect.get_annotations(owner):
            continue
        source = _source(owner)
        if source is None:
            return None
        file, start, lines = source
        at = next((i for i, line in enumerate(lines) if re.match(rf"    {re.escape(name)}\s*:", line)), None)
        return None if at is None else (file, start + at, lines[at])
    return None


@functools.cache
def _source(cls: type) -> tuple[str, int, list[str]] | None:
    """File, first line and lines of a class; None if its source is not there."""
    try:
        lines, start = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return None
    return None if file is None else (file, start, lines)


def comment_of(cls: type, name: str) -> str:
    """The comment after a field in the source of its class; '' if there is none."""
    found = _declaration(cls, name)
    comment = re.search(r"\s#\s(.*)$", found[2]) if found else None
    return comment[1].strip() if comment else ""
