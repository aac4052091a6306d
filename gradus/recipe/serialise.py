"""Converts a recipe to JSON and back. JSON names a part by its class path, and a user's code by file, name and hash. A run stores this form."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from gradus.recipe.old_paths import part_today, path_today
from gradus.runtime.user_code import load_object
from gradus.types import Frozen, UserError
from gradus.types.frozen import value_fields
from gradus.types.returned import named


def to_json(value: Any) -> Any:
    """Converts a recipe or a part to JSON. Raises UserError for a value that has no such form (a lambda, an open file)."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    if isinstance(value, (frozenset, set)):
        return {"set": sorted(to_json(v) for v in value)}
    if isinstance(value, Mapping):
        return {"map": {k: to_json(v) for k, v in value.items()}}
    if is_dataclass(value) and not isinstance(value, type):
        return {"part": _class_path(type(value)), **{f.name: to_json(getattr(value, f.name)) for f in value_fields(value) if f.init}}
    if callable(value) and getattr(value, "__qualname__", "<").isidentifier():
        return {"function": _class_path(value)}
    raise UserError(
        f"a {named(value)} cannot be stored in a recipe; use numbers, text, parts (frozen dataclasses) or functions of a module or file"
    )


def from_json(data: Any) -> Any:
    """The inverse of `to_json`. Lists become tuples. Raises UserError if user code is missing or has changed."""
    if isinstance(data, list):
        return tuple(from_json(v) for v in data)
    if not isinstance(data, dict):
        return data
    if "set" in data:
        return frozenset(from_json(v) for v in data["set"])
    if "map" in data:
        return Frozen({k: from_json(v) for k, v in data["map"].items()})
    if "function" in data:
        return _own(_load(data["function"]), data["function"], "function")
    stored = part_today(data) if isinstance(data["part"], str) else data
    part = _own(_load(stored["part"]), stored["part"], "part")
    values = {k: from_json(v) for k, v in stored.items() if k != "part"}
    try:
        return part(**values)
    except TypeError as error:
        raise UserError(
            f"the recipe has a {part.__name__} that this version of Gradus does not accept: {error}; use the version that wrote the recipe"
        ) from None


def _class_path(item: Any) -> Any:
    module = importlib.import_module(item.__module__) if not item.__module__.startswith("_user_") else None
    if module is not None:
        return f"{item.__module__}:{item.__qualname__}"
    import sys

    file = Path(str(sys.modules[item.__module__].__file__))
    return {"file": str(file), "name": item.__qualname__, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def _load(path: Any) -> Any:
    if isinstance(path, dict):
        file = Path(path["file"])
        if not file.exists():
            raise UserError(f"the recipe uses {path['name']} from {file}, which no longer exists; restore this file")
        if hashlib.sha256(file.read_bytes()).hexdigest() != path["sha256"]:
            raise UserError(
                f"the recipe uses {path['name']} from {file}, which has changed since the run began; restore the old text of the file, or start a new run"
            )
        return load_object(f"{file}:{path['name']}", "part")
    module, _, name = path_today(path).partition(":")
    if not module.startswith("gradus.") and module.split(".")[0] not in _offering_packages():
        raise UserError(f'the recipe names "{path}", but no installed package offers this part to Gradus; install the package of this part')
    try:
        found: Any = importlib.import_module(module)
        for attribute in name.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError):
        raise UserError(f'the recipe uses "{path}", which this version of Gradus does not have; use the version that wrote the recipe') from None
    return found


def _own(found: Any, path: Any, kind: str) -> Any:
    """Returns `found`.

    Raises UserError unless the module of `path` itself defines `found`, as a part (dataclass) or function. A stored recipe can therefore not call an object
    that this module only imports.
    """
    fits = is_dataclass(found) and isinstance(found, type) if kind == "part" else callable(found)
    at_home = isinstance(path, dict) or f"{getattr(found, '__module__', '')}:{getattr(found, '__qualname__', '')}" == path_today(path)
    if not fits or not at_home:
        shown = path["name"] if isinstance(path, dict) else path
        raise UserError(
            f'the recipe names "{shown}", but its module or file has no {kind} of this name; use the version of Gradus that wrote the recipe, or correct the recipe'
        )
    return found


def _offering_packages() -> set[str]:
    import importlib.metadata

    groups = ("gradus.recipes", "gradus.tasks", "gradus.rewards")
    return {e.value.partition(":")[0].split(".")[0] for g in groups for e in importlib.metadata.entry_points(group=g)}
