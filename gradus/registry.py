"""Names to recipes and tasks, imported on use. A recipe is the object `key` in `papers/<family>/<key>.py`; other packages offer theirs
through the entry points `gradus.recipes` and `gradus.tasks`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from pathlib import Path
from typing import Any

from gradus.types import UserError, unknown
from gradus.types.user_code import load_object

PAPERS = Path(__file__).parent / "papers"

TASKS: dict[str, str] = {
    "arithmetic": "gradus.tasks.arithmetic:arithmetic",
    "running_sum": "gradus.tasks.arithmetic:running_sum",
    "countdown": "gradus.tasks.countdown:countdown",
    "string_ops": "gradus.tasks.string_ops:string_ops",
    "knights_knaves": "gradus.tasks.knights_knaves:knights_knaves",
    "sorting": "gradus.tasks.sorting:sorting",
    "graphs": "gradus.tasks.graphs:graphs",
    "planning": "gradus.tasks.planning:planning",
    "sudoku": "gradus.tasks.sudoku:sudoku",
    "zebra": "gradus.tasks.zebra:zebra",
    "logic": "gradus.tasks.logic:logic",
    "sat": "gradus.tasks.sat:sat",
    "multiple_choice": "gradus.tasks.multiple_choice:multiple_choice",
    "classification": "gradus.tasks.classification:classification",
    "instructions": "gradus.tasks.instructions:instructions",
    "keychain": "gradus.tasks.keychain:keychain",
    "translation": "gradus.tasks.translation:translation",
    "proofs": "gradus.tasks.proofs:proofs",
    "gsm8k": "gradus.tasks.gsm8k:gsm8k",
    "code": "gradus.tasks.code:code",
    "python_tool": "gradus.tasks.python_tool:python_tool",
    "frozen_lake": "gradus.tasks.frozen_lake:frozen_lake",
    "twenty_questions": "gradus.tasks.twenty_questions:twenty_questions",
    "search_qa": "gradus.tasks.search_qa:search_qa",
    "flow_2d": "gradus.tasks.flow_2d:flow_2d",
}


@functools.cache
def recipe_modules() -> dict[str, str]:
    """key -> "module:name" of every recipe, built in or offered by another package. Raises UserError where two have one key."""
    found: dict[str, str] = {}
    for path in sorted(PAPERS.glob("*/*.py")):
        if path.stem.startswith("_"):
            continue
        found[path.stem] = f"gradus.papers.{path.parent.name}.{path.stem}:{path.stem}"
    return _with_entry_points(found, "gradus.recipes", "recipe")


@functools.cache
def task_modules() -> dict[str, str]:
    """name -> "module:maker" of every task."""
    return _with_entry_points(TASKS, "gradus.tasks", "task")


def _with_entry_points(known: dict[str, str], group: str, kind: str) -> dict[str, str]:
    found = dict(known)
    for entry in importlib.metadata.entry_points(group=group):
        if entry.name in found:
            raise UserError(
                f'the package offering {kind} "{entry.name}" ({entry.value}) takes a name that is in use ({found[entry.name]}); remove one'
            )
        found[entry.name] = entry.value
    return found


def recipe(name: str) -> Any:
    """The recipe of a key, or of `file.py:name`. Raises UserError for an unknown one, naming the nearest."""
    if ".py" in name:
        return _user_recipe(name)
    modules = recipe_modules()
    if name not in modules:
        raise unknown("recipe", name, modules, "List them with: gradus papers")
    module, _, attribute = modules[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _user_recipe(name: str) -> Any:
    from gradus.recipe import Recipe

    found = load_object(name, "recipe")
    if not isinstance(found, Recipe):
        raise UserError(f"{name} is of type {type(found).__name__}, not a Recipe; write it as RECIPE.derive(key, about, ...)")
    return found


def task_maker(name: str) -> Any:
    """The function that makes a named task. Raises UserError for an unknown one, naming the nearest."""
    modules = task_modules()
    if name not in modules:
        raise unknown("task", name, modules, "Or give a file of problems, file.py:task, or a mixture arithmetic:3,countdown:1")
    module, _, attribute = modules[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
