"""The index of recipes and tasks. With the index, `gradus papers` and `gradus tasks` need not import recipes and tasks. `make index` rewrites it.

Every family of recipes and every group of tasks has its own file, with one row per line, so that two branches can add rows without a conflict.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any

NAME = "index.jsonl"
FOLDERS = {"recipes": Path(__file__).parent.parent / "papers", "tasks": Path(__file__).parent.parent / "tasks"}
TESTS = Path(__file__).parent.parent.parent / "tests" / "papers"
NAMED = {"recipes": "key", "tasks": "name"}


def read() -> dict[str, list[dict[str, Any]]]:
    """{"recipes": [...], "tasks": [...]}, each sorted by name. For recipes and tasks of other packages, only the name and the module are known."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind, folder in FOLDERS.items():
        rows = [json.loads(line) for file in sorted(folder.glob(f"*/{NAME}")) for line in file.read_text(encoding="utf-8").splitlines()]
        offered = importlib.metadata.entry_points(group=f"gradus.{kind}")
        rows += [{NAMED[kind]: entry.name, "about": f"offered by {entry.value}", "family": "other"} for entry in offered]
        found[kind] = sorted(rows, key=lambda row: str(row[NAMED[kind]]))
    return found


def build() -> dict[Path, str]:
    """Makes the text of every index file. Imports all recipes and tasks of this package."""
    from gradus.recipe import registry

    files: dict[Path, list[dict[str, Any]]] = {}
    for key, place in sorted(registry.recipe_modules().items()):
        if place.startswith("gradus."):
            files.setdefault(_file("recipes", place), []).append(recipe_row(registry.recipe(key)) | {"tests": tests_of(place)} | claims_of(place))
    for name, place in sorted(registry.task_modules().items()):
        if place.startswith("gradus."):
            files.setdefault(_file("tasks", place), []).append({"name": name, "about": summary(registry.task_maker(name))})
    return {path: "".join(json.dumps(row) + "\n" for row in rows) for path, rows in files.items()}


def _file(kind: str, place: str) -> Path:
    """The index file of the sub-folder in which `gradus.FOLDER.SUBFOLDER.FILE:NAME` is."""
    return FOLDERS[kind] / place.split(".")[2] / NAME


def recipe_row(recipe: Any) -> dict[str, Any]:
    names = ("key", "base", "family", "about")
    return {**{name: getattr(recipe, name) for name in names}, "requires": sorted(recipe.requires)}


def tests_of(place: str) -> int:
    """The number of test functions in the test file of a recipe's module; 0 if there is no such file."""
    folder, name = place.partition(":")[0].split(".")[-2:]
    path = TESTS / folder / f"test_{name}.py"
    if not path.is_file():
        return 0
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_") for node in tree)


def claims_of(place: str) -> dict[str, Any]:
    """{"claims": the claims of a recipe's file as plain values}; {} without claims."""
    found = getattr(importlib.import_module(place.partition(":")[0]), "claims", ())
    return {"claims": [claim.stored() for claim in found]} if found else {}


def summary(maker: Any) -> str:
    """The field `about` of a task. If the task needs options, the result is the first line of its maker's docstring."""
    from gradus.types import UserError

    try:
        return str(maker().about)
    except (TypeError, UserError):
        return (maker.__doc__ or "").strip().partition("\n")[0]


if __name__ == "__main__":
    for path, text in build().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
