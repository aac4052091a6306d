"""For each part: its public name, the recipes that set it, and an example in Python that puts it into a recipe."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import re
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

from gradus.types import Frozen
from scripts.reference_pages import places

WIDE = 70  # characters of a value in an example


def found(name: str) -> Any:
    """The object of a dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@functools.cache
def public(name: str) -> str:
    """The shortest name under which the package offers an object: gradus.types.Key for gradus.types.keys.Key."""
    thing, (*parts, attribute) = found(name), name.split(".")
    for length in range(1, len(parts)):
        module = importlib.import_module(".".join(parts[:length]))
        if attribute in getattr(module, "__all__", ()) and getattr(module, attribute, None) is thing:
            return f"{'.'.join(parts[:length])}.{attribute}"
    return name


@functools.cache
def set_by() -> dict[type, dict[str, str]]:
    """For each part the recipes that set it where their base has another, each with the path."""
    from gradus.recipe import index
    from gradus.recipe.registry import recipe

    out: dict[type, dict[str, str]] = {}
    for row in index.read()["recipes"]:
        made = recipe(row["key"])
        base = dict(parts_of(made.parent)) if getattr(made, "parent", None) is not None else {}
        for path, part in parts_of(made):
            if type(base.get(path)) is not type(part):
                out.setdefault(type(part), {}).setdefault(row["key"], path)
    return out


def parts_of(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every part below a node of a recipe, with its path; not those of the recipe's base."""
    if hasattr(node, "__dataclass_fields__"):
        if path:
            yield path, node
        inner = [(name, getattr(node, name, None)) for name in node.__dataclass_fields__ if name not in ("parent", "setting", "claims")]
    elif hasattr(node, "items"):
        inner = list(node.items())
    else:
        return
    for name, value in inner:
        yield from parts_of(value, f"{path}.{name}" if path else str(name))


def home(cls: type) -> str:
    """The place under which the entry of a part stands: the last of those that take it."""
    return [name for name, classes in places().items() if cls in classes.values()][-1]


def example(cls: type) -> str:
    """Python that puts a part into a recipe: into the base of a recipe that sets it, else into one that sets it, else into GRPO."""
    for key, path, value in tried(cls):
        words = call(value)
        if accepted(key, path, value) and len(words) < WIDE:
            imports = sorted({f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]}" for name in names(value)})
            head = "\n".join(["import gradus", *imports])
            return f'{head}\n\nrecipe = gradus.load_recipe("{key}")\nmine = recipe.but({path.replace(".", "__")}={words})'
    return ""


def tried(cls: type) -> Iterator[tuple[str, str, Any]]:
    """Recipes, paths and values for an example, the best first."""
    from gradus.recipe.core import get
    from gradus.recipe.registry import recipe

    for key, path in set_by().get(cls, {}).items():
        made = recipe(key)
        for carrier in filter(None, (made.base, key)):
            yield carrier, path, get(made, path)
    place = home(cls)
    if not re.search("[A-Z]", place) and all(f.default is not MISSING or f.default_factory is not MISSING for f in dataclasses.fields(cls)):
        yield "grpo", place, cls()


def accepted(key: str, path: str, value: Any) -> bool:
    """Whether a built-in recipe takes a value at a path."""
    from gradus.recipe.registry import recipe, recipe_modules
    from gradus.types import UserError

    try:
        return key in recipe_modules() and recipe(key).but(**{path.replace(".", "__"): value}) is not None
    except (UserError, TypeError):
        return False


def call(value: Any) -> str:
    """A part as Python that makes it, without the fields at their defaults."""
    if isinstance(value, tuple):
        return f"({', '.join(map(call, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Frozen):
        return f"Frozen({', '.join(f'{name}={call(one)}' for name, one in value.items())})"
    if isinstance(value, float) and math.isinf(value):
        return f'float("{value}")'
    if not dataclasses.is_dataclass(value):
        return repr(value)
    given = [f"{f.name}={call(getattr(value, f.name))}" for f in dataclasses.fields(value) if f.init and getattr(value, f.name) != default(f)]
    return f"{type(value).__name__}({', '.join(given)})"


def default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def names(value: Any) -> Iterator[str]:
    """The public names of a part and of the parts in it that are written."""
    if isinstance(value, tuple):
        for one in value:
            yield from names(one)
    if isinstance(value, Frozen):
        yield public(f"{Frozen.__module__}.{Frozen.__name__}")
        for one in value.values():
            yield from names(one)
    if dataclasses.is_dataclass(value):
        yield public(f"{type(value).__module__}.{type(value).__name__}")
        for field in dataclasses.fields(value):
            if getattr(value, field.name) != default(field):
                yield from names(getattr(value, field.name))
