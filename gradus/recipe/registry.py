"""The registry of recipes and tasks. The registry finds the names in the folders, and imports an object only when it is used.

A recipe is the object `key` of `papers/<family>/<key>.py`. The function `name` of `tasks/<group>/<name>.py` makes a task. Other packages can add
recipes and tasks through the entry points `gradus.recipes` and `gradus.tasks`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import re
from pathlib import Path
from typing import Any

from gradus.runtime.user_code import load_module, load_object
from gradus.types import UserError, unknown

PAPERS = Path(__file__).parent.parent / "papers"
TASKS = Path(__file__).parent.parent / "tasks"
_IN_TURN = re.compile(r"[^,]+:\s*\d+\s*(,[^,]+:\s*\d+\s*)+")


@functools.cache
def recipe_modules() -> dict[str, str]:
    """Key -> "module:name" of every recipe, built-in or from another package. Raises UserError if two recipes have the same key."""
    return _with_entry_points(_found(PAPERS, "recipe"), "gradus.recipes", "recipe")


@functools.cache
def task_modules() -> dict[str, str]:
    """Name -> "module:maker" of every task, built-in or from another package. Raises UserError if two tasks have the same name."""
    return _with_entry_points(_found(TASKS, "task"), "gradus.tasks", "task")


def _found(folder: Path, kind: str) -> dict[str, str]:
    """Name -> "module:name" for the recipes or tasks in the folder's sub-folders. Raises UserError if two files have the same name.

    Every file of `papers` is a recipe. A file of `tasks` is a task if it has a function with the file's name that returns a Task.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*/*.py")):
        name, module = path.stem, f"gradus.{folder.name}.{path.parent.name}.{path.stem}"
        if name.startswith("_") or (kind == "task" and not _makes_a_task(path)):
            continue
        if name in found:
            raise UserError(f'two files have the {kind} "{name}": {found[name].partition(":")[0]} and {module}; rename one of the files')
        found[name] = f"{module}:{name}"
    return found


def _makes_a_task(path: Path) -> bool:
    return re.search(rf"^def {path.stem}\(.*?\) -> Task:$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL) is not None


def _with_entry_points(known: dict[str, str], group: str, kind: str) -> dict[str, str]:
    found = dict(known)
    for entry in importlib.metadata.entry_points(group=group):
        if entry.name in found:
            raise UserError(
                f'two {kind}s have the name "{entry.name}": {found[entry.name]} and {entry.value}; uninstall the package of {entry.value}, or rename its entry'
            )
        found[entry.name] = entry.value
    return found


def recipe(name: str) -> Any:
    """Loads a recipe by its key or from a file, or makes a recipe that trains several recipes one after another.

    Args: name: a key such as "grpo", FILE.py:NAME, or several recipes with their numbers of steps, such as "sft:50,grpo:100".
    Raises: UserError for an unknown key; the message names the nearest known keys.

    >>> recipe("dapo").base
    'grpo'
    """
    if _IN_TURN.fullmatch(name):
        return _in_turn(name)
    if ".py" in name:
        return _user_recipe(name)
    modules = recipe_modules()
    if name not in modules:
        raise no_recipe(name)
    module, _, attribute = modules[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if found.key != name:
        raise UserError(f'the recipe "{name}" ({modules[name]}) has the key "{found.key}"; change one of them, because the name and the key must be equal')
    return found


def no_recipe(name: str) -> UserError:
    """The error if no recipe has this name. The name is unknown, or names a system of the catalogue without a recipe."""
    from gradus.recipe.catalogue import systems

    if name not in systems():
        return unknown("recipe", name, recipe_modules(), "List them with: gradus papers")
    return UserError(f'"{name}" has no recipe yet: it waits for {systems()[name].waits}; see similar recipes: gradus show {name}')


def _in_turn(name: str) -> Any:
    """A recipe that has one stage for each recipe in a name such as `sft:50,grpo:100`. If all these recipes have the same study, the new recipe also has this
    study.
    """
    from gradus.recipe.core import Recipe
    from gradus.schedules.stages import Stage, Stages
    from gradus.types import Frozen
    from gradus.types.moments import Steps

    stages: dict[str, Any] = {}
    for part in name.split(","):
        spec, _, steps = part.rpartition(":")
        made, key = recipe(spec.strip()), spec.strip().rpartition(":")[2]
        stages[key if key not in stages else f"{key}_{len(stages) + 1}"] = Stage(made, Steps(int(steps)))
    first = next(iter(stages.values())).recipe
    return Recipe(
        key="_then_".join(stages),
        about=f"{', then '.join(f'{stage.until.count} steps of {stage.recipe.key}' for stage in stages.values())}.",
        schedule=Stages(Frozen(stages)),
        study=first.study if all(stage.recipe.study == first.study for stage in stages.values()) else None,
    )


def _user_recipe(name: str) -> Any:
    """Loads the recipe `file.py:name`. Raises UserError if the object is no recipe, or if another recipe has the same key."""
    from gradus.recipe.core import Recipe

    found = load_object(name, "recipe")
    if not isinstance(found, Recipe):
        raise UserError(f"{name} is of type {type(found).__name__}, not a Recipe; make a recipe with RECIPE.derive(key, about, ...)")
    check_key(found, name)
    beside = vars(load_module(Path(name.rpartition(":")[0])))
    for other, made in beside.items():
        if isinstance(made, Recipe) and made.key == found.key and not _same(made, found):
            raise UserError(f'{name} has the key "{found.key}", and {other} in the same file has the same key; give each recipe its own key in derive')
    return found


def check_key(made: Any, who: str) -> None:
    """Raises UserError if the recipe has the key of another recipe. `who`: the name of the recipe in the message."""
    if made.key in recipe_modules() and not _same(made, recipe(made.key)):
        where = recipe_modules()[made.key]
        raise UserError(f'{who} has the key "{made.key}", which belongs to another recipe ({where}); derive your recipe with a new key, such as my_{made.key}')


def _same(a: Any, b: Any) -> bool:
    """Whether one recipe was made from the other with `but`. (`but` does not change base, description and family.)"""
    return (a.base, a.about, a.family) == (b.base, b.about, b.family)


def task_maker(name: str) -> Any:
    """The function that makes the task `name`. Raises UserError for an unknown name; the message lists the nearest known names."""
    modules = task_modules()
    if name not in modules:
        raise unknown("task", name, modules, "Or give a file of problems, file.py:task, or a mixture arithmetic:3,countdown:1")
    module, _, attribute = modules[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
