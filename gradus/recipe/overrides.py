"""Sets fields from text: `--objective.policy.trust.high 5e-4` sets a number, `--objective.policy.trust DualClip` replaces a part."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from gradus.recipe.core import PROFILES, Recipe, describe, get, own, put
from gradus.rewards.functions import reward_from
from gradus.runtime.user_code import load_object
from gradus.types import Frozen, UserError, unknown
from gradus.types.frozen import value_fields

SEAMS = (
    "curricula",
    "environments",
    "tools",
    "rollouts",
    "rewards",
    "selection",
    "credit",
    "objectives",
    "updates",
    "schedules",
    "search",
    "study",
    "types",
)


ELSEWHERE = {
    "lr": "learning_rate",
    "batch_size": "prompts",
    "per_device_train_batch_size": "prompts",
    "num_generations": "group",
    "group_size": "group",
    "max_completion_length": "max_tokens",
    "max_new_tokens": "max_tokens",
    "warmup_steps": "warmup",
    "num_iterations": "update.epochs",
    "max_grad_norm": "optimizer.clip",
    "max_steps": "steps",
    "output_dir": "run",
    "beta": "objective.kl.coefficient",
    "kl_coef": "objective.kl.coefficient",
    "kl_loss_coef": "objective.kl.coefficient",
    "epsilon": "objective.policy.trust.low",
    "epsilon_high": "objective.policy.trust.high",
    "clip_ratio": "objective.policy.trust.low",
    "cliprange": "objective.policy.trust.low",
    "clip_ratio_low": "objective.policy.trust.low",
    "clip_ratio_high": "objective.policy.trust.high",
    "bf16": "precision bfloat16",
}
"""Field name in other libraries -> field name in Gradus."""


def override_all(recipe: Recipe, given: Sequence[tuple[str, str]], more: Sequence[str] = ()) -> Recipe:
    """Sets the field at each path of the recipe from its text, in order.

    If a value causes an error, the function tries this value again after the other values, because some fields fit only together.
    Raises UserError if a field is given twice. `more`: names of other options, which the error can suggest for a misspelt path.
    """
    waiting = list(given)
    whole = [full_path(recipe, path) for path, _ in waiting]
    if twice := next((path for path in whole if whole.count(path) > 1), None):
        words = " and ".join(f"--{path} {text}" for path, text in waiting if full_path(recipe, path) == twice)
        raise UserError(f"{words} set the same field; give only one of them")
    while waiting:
        refused: list[tuple[str, str]] = []
        first: UserError | None = None
        for path, text in waiting:
            try:
                recipe = override(recipe, path, text, more)
            except UserError as error:
                refused.append((path, text))
                first = first or error
        if len(refused) == len(waiting) and first is not None:
            raise first
        waiting = refused
    return recipe


def override(recipe: Recipe, path: str, text: str, more: Sequence[str] = ()) -> Recipe:
    """Sets the field at a dotted path of the recipe to a value that is read from text.

    Raises UserError for an unknown field or part, or a wrong type.
    """
    if path == "setting" and text in PROFILES:
        return recipe.but(setting=PROFILES[text])
    path = full_path(recipe, path)
    check_first(recipe, path, more=more)
    recipe = own(recipe, path)
    parent, _, name = path.rpartition(".")
    holder = get(recipe, parent) if parent else recipe
    if isinstance(holder, Mapping) and isinstance(holder.get(name), float):  # numbers by name, such as weights
        value = read(text, float, holder[name], path)
    elif isinstance(holder, Mapping):
        _check_part(path, text, holder.get(name))
        value = _part(path, text, *holder.values())
    else:
        get(recipe, path)  # raises if the field is unknown
        value = read(text, annotation(holder, name), getattr(holder, name), path)
    try:
        return put(recipe, path, value)
    except (TypeError, ValueError) as error:
        raise UserError(f"--{path} {text}: {error}") from None


def full_path(recipe: Recipe, path: str) -> str:
    """The full path of a field. A user may leave out the prefix `setting.`, as in --learning_rate, --prompts, --guard.spike."""
    names = {f.name for f in value_fields(recipe)}
    first = path.partition(".")[0]
    if first not in names and first in {f.name for f in value_fields(recipe.setting)}:
        return f"setting.{path}"
    return path


def check_first(recipe: Recipe, path: str, kind: str = "option", more: Sequence[str] = ()) -> None:
    """Raises UserError if a path does not begin with a field of the recipe. The error suggests similar names.

    `kind`: "option" if the user wrote the name with dashes, "field" if without; `more`: other names that the error can suggest.
    """
    known = {f.name for f in value_fields(recipe)}
    if path.partition(".")[0] in known:
        return
    dashes, remedy = "--" if kind == "option" else "", f"List the fields with: gradus show {recipe.key}"
    if path in ELSEWHERE:
        raise UserError(f'unknown {kind} "{dashes}{path}"; use {dashes}{ELSEWHERE[path]} instead')
    if inner := [full for full, _ in describe(recipe) if full.endswith(f".{path}")][:3]:
        raise UserError(
            f'unknown {kind} "{dashes}{path}"; write the full path: {" or ".join(f"{dashes}{full}" for full in inner)}. {remedy}'
        )
    names = sorted({*known, *more, *(f.name for f in value_fields(recipe.setting))})
    raise unknown(kind, f"{dashes}{path}", [f"{dashes}{n}" for n in names], remedy)


def annotation(holder: Any, name: str) -> Any:
    """The declared type of a field as an object; Any if it cannot be found."""
    owner = next((c for c in type(holder).__mro__ if name in inspect.get_annotations(c)), None)
    if owner is None:
        return Any
    alone = types.SimpleNamespace(__annotations__={name: inspect.get_annotations(owner)[name]})  # the names in other annotations may be missing
    try:
        return typing.get_type_hints(alone, vars(sys.modules[owner.__module__]))[name]
    except Exception:
        return Any


def declared(parameter: inspect.Parameter) -> tuple[Any, Any]:
    """The (type, default) of a function's parameter, for `read`. A parameter without a declared type has the type Any and the default ""."""
    silent = parameter.annotation is parameter.empty or isinstance(parameter.annotation, str)
    return Any if silent else parameter.annotation, "" if parameter.default is parameter.empty else parameter.default


def read(text: str, declared: Any, current: Any, path: str) -> Any:
    """Reads text as a value of the declared type: None, bool, int, float, text, a choice, a tuple, or a part that the text names."""
    options = choices(declared)
    lowered = text.strip().lower()
    if lowered == "none" and (type(None) in options or declared is Any):
        return None
    literals = [v for c in options if typing.get_origin(c) is typing.Literal for v in typing.get_args(c)]
    if literals:
        for value in literals:
            if str(value) == text:
                return value
        raise unknown("value", text, map(str, literals), f"For --{path}")
    if text.partition("(")[0] in [c.__name__ for c in options if isinstance(c, type) and is_dataclass(c)]:
        return _part(path, text)
    if isinstance(current, frozenset):
        return frozenset(word.strip() for word in text.split(",") if word.strip())
    scalars = [c for c in options if c in (bool, int, float, str)]
    if not scalars and not is_dataclass(current) and isinstance(current, (bool, int, float, str)):
        scalars = [type(current)]
    for kind in (bool, int, float):
        if kind in scalars and (value := _scalar(kind, lowered)) is not None:
            return value
    if str in scalars:
        return text
    if scalars:
        wanted = " or ".join({bool: "true or false", int: "a whole number", float: "a number"}[k] for k in scalars)
        raise UserError(f'--{path} is "{text}"; it must be {wanted}{" or none" if type(None) in options else ""}')
    if any(typing.get_origin(c) is tuple for c in options) or isinstance(current, tuple):
        of_text = any(typing.get_origin(c) is tuple and str in typing.get_args(c) for c in options)
        return _several(text, path, of_text)
    held = next((typing.get_args(c)[0] for c in options if typing.get_origin(c) is Frozen), None)
    if held in (str, float, int) or (held is Any and not any(map(is_dataclass, dict(current or {}).values()))):
        return _mapping(text, held, path)
    return _part(path, text, current if current is not None else next((c for c in options if isinstance(c, type)), None))


def _several(text: str, path: str, of_text: bool) -> tuple[Any, ...]:
    """Comma-separated values as Python literals. Text needs quotes only if it contains a comma, a quote or a \\n."""
    try:
        values = tuple(ast.literal_eval(text if text.startswith(("(", "[")) else f"({text},)"))
    except (ValueError, SyntaxError, TypeError):
        if not of_text:
            raise UserError(f'--{path} is "{text}"; write values separated by commas') from None
        values = ()
    return values if not of_text or (values and all(isinstance(v, str) for v in values)) else tuple(filter(None, text.split(",")))


def _mapping(text: str, of: Any, path: str) -> Frozen[Any]:
    """Values of the type `of` by name, from a JSON object."""
    known: dict[Any, tuple[str, tuple[type, ...]]] = {str: ("texts", (str,)), float: ("numbers", (int, float)), int: ("whole numbers", (int,))}
    what, kinds = known.get(of, ("numbers and texts", (int, float, str)))
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, kinds) for value in found.values()):
        example = '"name": "text"' if of is str else '"name": 1'
        raise UserError(f"--{path} is '{text}'; it must be a JSON object of {what} by name, such as '{{{example}}}'")
    return Frozen(found)


def choices(declared: Any) -> tuple[Any, ...]:
    """The types that a field's value may have: the members of a union, or the declared type itself."""
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        return typing.get_args(declared)
    return (declared,)


def _scalar(kind: type, text: str) -> Any:
    if kind is bool:
        return {"true": True, "false": False, "yes": True, "no": False}.get(text)
    try:
        return kind(text)
    except ValueError:
        return None


def _part(path: str, text: str, *alike: Any) -> Any:
    """Makes a part from `Clip`, `Clip(low=0.1)` or `file.py:Class`.

    Fields that the text does not name have their defaults. `alike`: parts that fit at this path, for the error.
    """
    if text.strip().lower() == "none":
        return None
    if ".py:" in text:
        found = load_object(text, "part")
        if inspect.isfunction(found) and path.rpartition(".")[2] == "reward":
            return reward_from(f"{Path(text.rpartition(':')[0]).resolve()}:{found.__name__}")
        try:
            return found() if isinstance(found, type) else found
        except TypeError as error:
            raise UserError(f"--{path} {text}: {error}; give every field of the class a default, or name an object that the file makes") from None
    name, _, arguments = text.strip().partition("(")
    _check_part(path, text, next(iter(alike), None))
    modules = part_modules()
    if name not in modules:
        known = parts_like(*alike)
        shared = [part for part in known if not modules[part].startswith("gradus.papers.")]
        raise unknown("part", name, known or modules, f"For --{path}; or give file.py:Class", shared)
    return _made(getattr(importlib.import_module(modules[name]), name), arguments, f"--{path} {text}")


def _check_part(path: str, text: str, current: Any) -> None:
    """Raises UserError if the text is a number where a part is needed. The error names the fields of the current part."""
    if _scalar(float, text) is None:
        return
    inside = [f"--{path}.{f.name}" for f in value_fields(current)] if is_dataclass(current) else []
    remedy = f"set one of its fields: {', '.join(inside)}" if inside else "give the name of the part's class"
    raise UserError(f'--{path} is "{text}", but its value must be a part; {remedy}')


def _made(cls: type, arguments: str, given: str) -> Any:
    """Makes a part of the class `cls` with arguments as text, such as `low=0.1, high=0.2)`. `given`: the user's text, for the error."""
    try:
        call = ast.parse(f"f({arguments}" if arguments else "f()", mode="eval").body
        assert isinstance(call, ast.Call)
        values = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
    except (SyntaxError, ValueError):
        form = f"{cls.__name__}(field=value)"
        raise UserError(f"{given}: write the part as {cls.__name__} or {form}, with numbers, text in quotes or None") from None
    known = [f.name for f in value_fields(cls)]
    if call.args:
        raise UserError(f"{given}: write every value with its name, for example {cls.__name__}({', '.join(f'{k}=...' for k in known)})")
    for name in values:
        if name not in known:
            raise unknown("field", name, known, f"In {given}")
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise UserError(f"{given}: {error}") from None


def part_modules() -> dict[str, str]:
    """Class name -> module, for every part in the folders `SEAMS` and `papers`. Nothing is imported."""
    return {name: module for name, (module, _) in _parts().items()}


def parts_like(*examples: Any) -> list[str]:
    """The names of all parts that share a method with one of the examples (parts or protocols), and may therefore replace this example."""
    classes = [e if isinstance(e, type) else type(e) for e in examples]
    named = {name for c in classes for name, _ in inspect.getmembers(c, inspect.isfunction) if not name.startswith("_")}
    wanted = named - {"start", "learn"}  # methods of every stateful part
    return sorted(name for name, (_, methods) in _parts().items() if methods & wanted)


@functools.cache
def _parts() -> dict[str, tuple[str, frozenset[str]]]:
    """Class name -> (module, names of methods), read from the source."""
    root = Path(__file__).parent.parent
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for seam in (*SEAMS, "papers"):
        for path in sorted((root / seam).rglob("*.py")):
            module = ".".join(("gradus", *path.relative_to(root).with_suffix("").parts))
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
                    methods = (m.name for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef))
                    found.setdefault(node.name, (module, frozenset(methods)))
    return found
