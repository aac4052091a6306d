"""Describes the recipe of a run for its model card: formulas, citation, and tables of the changed fields.

The stored recipe is compared as data and never executed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from gradus.lab.page_text import tree
from gradus.recipe import registry
from gradus.recipe.citation import gradus_bibtex, paper_bibtex
from gradus.recipe.docstring import sections
from gradus.recipe.reference import reference_of
from gradus.recipe.serialise import to_json

_NAMES = ("key", "base", "parent", "about", "family", "requires")
_MOST = 60  # rows of a table


def formulas(key: str) -> list[str]:
    """Returns the displayed formulas of a recipe's docstring, in AsciiMath. The result is empty if the library has no recipe `key`."""
    module = registry.recipe_modules().get(key, "").partition(":")[0]
    return list(sections(inspect.getdoc(importlib.import_module(module)) or "").formulas) if module else []


def citation(key: str) -> str:
    """Returns the BibTeX entry of the recipe's paper (if the library has the recipe), followed by the entry of Gradus."""
    paper = reference_of(key)[1] if key in registry.recipe_modules() else None
    return "\n\n".join([*([paper_bibtex(key, paper)] if paper is not None else []), gradus_bibtex()])


def recipe_tables(stored: Mapping[str, Any]) -> Iterator[str]:
    """Gives at most two tables: the changes of the method to its base recipe, and the changes of the run to the method.

    `stored`: the recipe of the run as data.
    """
    key, base, known = str(stored.get("key")), str(stored.get("base") or ""), registry.recipe_modules()
    published = to_json(registry.recipe(key)) if key in known else None
    if published is not None and base in known:
        yield from _table(f"`{key}` changes `{base}`:", base, key, to_json(registry.recipe(base)), published, setting=False)
    if published is not None:
        yield from _table(f"This run changes `{key}`:", key, "this run", published, stored)
    elif base in known:
        yield from _table(f"This run changes `{base}`:", base, "this run", to_json(registry.recipe(base)), stored)


def _table(head: str, old: str, new: str, a: Mapping[str, Any], b: Mapping[str, Any], *, setting: bool = True) -> Iterator[str]:
    """Yields the sentence `head` and a table of the fields that differ. If no field differs, yields nothing."""
    rows = [row for row in field_changes(a, b) if setting or not row[0].startswith("setting.")]
    if not rows:
        return
    cells = [f"| `{path}` | {_cell(before)} | {_cell(after)} |" for path, before, after in rows[:_MOST]]
    more = [f"| {len(rows) - _MOST} further fields | | |"] if len(rows) > _MOST else []
    yield head
    yield "\n".join([f"| field | {old} | {new} |", "| --- | --- | --- |", *cells, *more])


def field_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (path, old text, new text) for every different field of two recipes, which are given as plain data.

    The text is "" if a recipe lacks the field.

    If the new recipe lacks a part, or has a part of another class, the fields that only the old part has are left out.
    """
    old, new = dict(paths(a)), dict(paths(b))
    changed = [path for path in dict.fromkeys([*new, *old]) if old.get(path, "") != new.get(path, "")]
    gone = {path for path in changed if path not in new and any(path.startswith(f"{above}.") for above in changed)}
    return [(path, old.get(path, ""), new.get(path, "")) for path in changed if path not in gone]


def paths(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Returns (dotted path, text) for every value of a recipe that is given as plain data, without the fields in `_NAMES`."""
    where: list[str] = []
    for depth, name, text in tree({name: value for name, value in document.items() if name not in _NAMES}):
        where[depth:] = [name]
        yield ".".join(where), text.strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;") or "—"
