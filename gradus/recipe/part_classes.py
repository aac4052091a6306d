"""Checks the class of each part of a recipe before a run.

A part must be an instance of a frozen dataclass with a unique name. The methods of a part must accept the arguments of their calls, and its
declarations must have the right type.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from gradus.recipe.core import Recipe
from gradus.recipe.overrides import part_modules
from gradus.types import UserError
from gradus.types.frozen import value_fields
from gradus.types.parts import Credit, Curriculum, Environment, Optimizer, Reward, Rollout, Schedule, Selection, Study, Update
from gradus.types.records import SOURCES
from gradus.types.returned import named, of_user, remembers, shown
from gradus.types.signals import Signal, Want

PROTOCOLS: Mapping[str, tuple[str, type]] = {
    "curriculum": ("choose", Curriculum),
    "rollout": ("run", Rollout),
    "environment": ("start", Environment),
    "reward": ("score", Reward),
    "selection": ("keep", Selection),
    "credit": ("assign", Credit),
    "optimizer": ("build", Optimizer),
    "update": ("apply", Update),
    "schedule": ("at", Schedule),
    "search": ("run", Rollout),
    "study": ("measure", Study),
}
"""Seam -> (the method that the loop calls, the protocol that declares its signature)."""
AWAITED = ("choose", "run", "keep", "assign", "score", "learn")
"""Methods that may also be coroutines: their callers await them if necessary."""


def check_classes(recipe: Recipe) -> None:
    """Raises UserError for the first fault: a class in place of a part, a mutable part, a wrong declaration, or two parts with the same name."""
    known: dict[str, type] = {}
    for where, value in everything(recipe, ""):
        if isinstance(value, type):
            raise UserError(f"`{where}` is the class {named(value)} itself; give an instance of it: {value.__name__}()")
        if where in PROTOCOLS and of_user(value) and not is_dataclass(value) and hasattr(value, PROTOCOLS[where][0]):
            raise UserError(f"`{where}` is {named(value)}, which is not a dataclass; write @dataclass(frozen=True) above the class")
        if is_dataclass(value):
            cls: Any = type(value)
            if not cls.__dataclass_params__.frozen:
                remedy = "write @dataclass(frozen=True) above the class (a part keeps its memory in its state)"
                raise UserError(f"`{where}` is {named(value)}, which can change during the run; {remedy}")
            _check_declarations(value, where)
            if of_user(value):
                _check_name(cls, known)


def everything(node: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Gives (path, value) for every value of a recipe at any depth: parts, classes and plain values. A part comes after its contents."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, Mapping):
        inside = node.items()
    elif isinstance(node, tuple):
        inside = enumerate(node)
    elif is_dataclass(node) and not isinstance(node, type):
        inside = ((f.name, getattr(node, f.name)) for f in value_fields(node))
    for name, value in inside:
        yield from everything(value, f"{where}.{name}".lstrip("."))
    if where:
        yield where, node


def _check_declarations(part: Any, where: str) -> None:
    """Raises UserError if `needs`, `wants`, `separable` or `source` of a part has a wrong type or value."""
    for name, kind in (("needs", Signal), ("wants", Want)):
        declared = getattr(part, name, ())
        if callable(declared):
            raise UserError(f"`{where}` is {named(part, name)}, a method, but no code calls it; write @property above the method, or use a tuple in its place")
        several = isinstance(declared, (tuple, list))
        if not several or not all(isinstance(d, kind) for d in declared):
            odd = f"contains {shown(next(d for d in declared if not isinstance(d, kind)))}" if several else f"is {shown(declared)}"
            raise UserError(f"`{where}` is {named(part)}, whose `{name}` {odd}; it must be a tuple of {kind.__name__} objects")
    if not isinstance(separable := getattr(part, "separable", True), bool):
        raise UserError(f"`{where}` is {named(part)}, whose `separable` is {shown(separable)}; it must be True, False, or a @property that returns one of them")
    if hasattr(part, "loss") and (source := getattr(part, "source", "policy")) not in SOURCES:
        raise UserError(f"`{where}` is {named(part)}, which reads trajectories of the source {source!r:.40}; set the source to one of {', '.join(SOURCES)}")


def _check_name(cls: type, known: dict[str, type]) -> None:
    """Raises UserError if a user's class has the same name as a built-in part or as another part of the recipe."""
    if known.setdefault(cls.__name__, cls) is not cls:
        raise UserError(
            f"two parts have the name {cls.__name__}: {named(known[cls.__name__])} and {named(cls)}; rename one of them, because the name "
            "identifies a part"
        )
    if cls.__name__ in part_modules():
        built_in = f"{part_modules()[cls.__name__]}.{cls.__name__}"
        raise UserError(f"{named(cls)} has the name of the built-in part {built_in}; rename your class, because the name identifies a part")


def check_methods(part: Any, where: str, protocol: type, *names: str) -> None:
    """Raises UserError if a method of a user's part cannot be called as the protocol declares. Parts of this package are not checked.

    `names`: the methods to check; empty: all methods of the protocol.
    """
    if not of_user(part):
        return
    methods = names or tuple(n for n, f in vars(protocol).items() if inspect.isfunction(f) and not n.startswith("_"))
    for name in (*methods, *(("learn",) if remembers(part) and hasattr(part, "learn") else ())):
        _check_method(part, name, where, Curriculum if name == "learn" else protocol)


def _check_method(part: Any, name: str, where: str, protocol: type) -> None:
    function, asked = getattr(part, name), getattr(protocol, name)
    due = [p for p in inspect.signature(asked).parameters if p not in ("self", "state")]
    due += ["state"] if remembers(part) or name == "learn" else []
    field, blank, task = where.partition(" ")  # "environment of task NAME", or a path alone
    who = f"`{field}`{blank}{task} is {type(part).__name__}, whose {named(part, name).partition('.')[2]}"
    if not callable(function):
        raise UserError(f"{who} is {shown(function)}; it must be a method: def {name}(self, {', '.join(due)})")
    try:
        inspect.signature(function).bind(*due)
    except TypeError as error:
        raise UserError(f"{who} cannot be called: {error}; it must take ({', '.join(('self', *due))})") from None
    except ValueError:  # a built-in function without a readable signature
        return
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise UserError(f"{who} yields its values one by one; it must return all values together in a list")
    if inspect.iscoroutinefunction(asked) and not inspect.iscoroutinefunction(function):
        raise UserError(f"{who} is not a coroutine; write async def {name}")
    if inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(asked) and name not in AWAITED:
        raise UserError(f"{who} is a coroutine, but no code awaits it; write def {name}")
