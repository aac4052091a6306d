"""`gradus explain`: the origin of a field's value, its meaning, and the allowed values."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from gradus.cli.explain_sampling import LIMITED, with_task
from gradus.cli.explain_schedule import moved
from gradus.cli.origins import Explanation, Origin
from gradus.cli.source_lines import comment_of, place_of_change, place_of_field, shown
from gradus.recipe import registry
from gradus.recipe.core import Recipe, get, own, parent_of
from gradus.recipe.overrides import annotation, check_first, choices, declared, full_path, parts_like, read
from gradus.runtime.user_code import load_object
from gradus.tasks.data.split_rule import RULE
from gradus.types import UserError, unknown
from gradus.types.frozen import value_fields
from gradus.types.ranges import declared_range

_ABSENT = object()
SEAMS: Mapping[str, str] = {
    "players": "all models with weights, by name: the policy, its reference, a critic",
    "curriculum": "the choice of the next problems, and the number of answers per problem",
    "rollout": "how answers are sampled",
    "environment": "the environment in which the policy acts over many turns; none: the environment of the task",
    "reward": "the score of an answer",
    "selection": "the groups of answers that training uses",
    "credit": "the advantage of every token",
    "objective": "the terms of the loss, by name",
    "optimizer": "the optimiser of every player that does not set one",
    "update": "the passes and mini-batches of a step's update",
    "schedule": "the values that change over training",
    "search": "how the trained policy answers at test time; none: with one sample",
    "system": "nothing reads it in this version",
    "study": "the evaluation on held-out problems during training",
    "setting": "the numbers that set the size of the run and do not belong to the method",
    "requires": "the fields that every problem must have",
}
"""The meaning of each field of a recipe."""


def asked(
    field: str,
    recipe_or_run: str,
    given: Sequence[tuple[str, str]],
    task: str | None,
    task_options: Mapping[str, str],
    trust: bool = False,
    **options: Any,
) -> Explanation:
    """The answer of `gradus explain`: for an option of a task, a field of a run, an option of `gradus train`, or a field of a recipe."""
    from gradus.lab.folder import is_run

    if field.startswith("task."):
        return explain_task_option(field, task or "arithmetic", task_options)
    if is_run(Path(recipe_or_run)):
        return explain_run(recipe_or_run, field, trust=trust)
    recipe = registry.recipe(recipe_or_run)
    stages = stages_of(recipe_or_run, given, **options)
    found = explain_option(field, recipe) or explain(field, recipe, stages)
    return found if found.path not in LIMITED else _limited(found, recipe, stages, task, task_options)


def _limited(
    found: Explanation,
    recipe: Recipe,
    stages: Sequence[tuple[str, str, Recipe]],
    task: str | None,
    task_options: Mapping[str, str],
    rule: int = RULE,
) -> Explanation:
    """The explanation of max_tokens or temperature with the task's own limit."""
    from gradus.recipe.compatibility import kind_of
    from gradus.training.plan import Plan, task_of

    final = stages[-1][2] if stages else recipe
    plan = Plan(final, task or kind_of(final).task, task_options=tuple(task_options.items()), split=rule)
    return with_task(found, explain("setting.default_tokens", recipe, stages), final, task_of(plan), str(plan.task), task_options)


def explain(path: str, recipe: Recipe, stages: Sequence[tuple[str, str, Recipe]] = ()) -> Explanation:
    """Explains the field at a dotted path (for a field of the setting, the name alone is enough).

    Args: `recipe`: the recipe of the registry. `stages`: the later changes to this recipe (by a profile, by options, by a run's file), in order, each as
    (source, file and line, changed recipe). Raises: UserError if no recipe among them has the path; the message names the nearest path.
    """
    final = stages[-1][2] if stages else recipe
    path = full_path(final, path)
    check_first(final, path, "field", [name.lstrip("-") for name in train_options()])
    links = chain(recipe)
    origins = _changes(path, links, stages)
    try:
        value = get(own(final, path), path)
    except UserError:
        if not origins:
            raise
        return Explanation(path, None, tuple(link.key for link in links), tuple(origins), _gone(final, path, links), "", "")
    parent, name = parent_of(own(final, path), path)
    holder = get(own(final, path), parent) if parent else final
    default = _default(holder, name)
    told = [o for o in origins if o.place or default is None or o.value != default.value]
    return Explanation(
        path=path,
        value=value,
        chain=tuple(link.key for link in links),
        origins=tuple([default, *told] if default is not None else told),
        meaning=meaning(holder, name, value),
        kind=_kind(holder, name),
        allowed=_allowed(holder, name, value),
        fields=tuple((f.name, getattr(value, f.name)) for f in value_fields(value)) if _is_part(value) else (),
        moved=moved(final, path),
    )


def chain(recipe: Recipe) -> list[Recipe]:
    """The recipe and its bases, the first base first. A base that is not in the registry ends the chain."""
    found = [recipe]
    while (base := found[0].base) is not None and base in registry.recipe_modules() and base not in [link.key for link in found]:
        found.insert(0, registry.recipe(base))
    return found


def _gone(final: Recipe, path: str, links: Sequence[Recipe]) -> str:
    """A sentence for a path of earlier recipes that the last recipe lacks. The sentence names the missing part, and the option for setting this part
    again."""
    missing = next(p for p in _above(path) if _at(final, p) is _ABSENT)
    part = next((p for link in reversed(links) if (p := _at(link, missing)) is not _ABSENT), None)
    return f"recipe {final.key} has no {missing}; --{missing} {type(part).__name__ if _is_part(part) else part} would set one"


def _above(path: str) -> list[str]:
    """All prefixes of a path, the shortest first, the path itself last."""
    parts = path.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _default(holder: Any, name: str) -> Origin | None:
    """The field's default in its class; None if it has no default."""
    if not is_dataclass(holder) or isinstance(holder, Recipe):
        return None
    field = next(f for f in value_fields(holder) if f.name == name)
    made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    return None if made is dataclasses.MISSING else Origin(f"default of {type(holder).__name__}", made, place_of_field(type(holder), name))


def _changes(path: str, links: Sequence[Recipe], stages: Sequence[tuple[str, str, Recipe]]) -> list[Origin]:
    """Every recipe of the chain and every later stage that changed the value of the field.

    If a part of another class replaced the part with the field, the changes before this replacement are left out.
    """
    before = _ABSENT
    found: list[Origin] = []
    held: type = object
    steps = [(link.key, place_of_change(link.key, path), link) for link in links] + list(stages)
    for source, place, link in steps:
        value, holder = _at(link, path), type(_holder_at(link, path)) if "." in path else Recipe
        if value is not _ABSENT and holder is not held:
            before, found, held = _ABSENT, [], holder
        if value is _ABSENT and before is not _ABSENT:
            found.append(Origin(f"{source} (removes it)", None, place))
        elif value is not before and not (type(value) is type(before) and value == before):
            found.append(Origin(source, value, place))
        before = value
    return found


def _at(recipe: Recipe, path: str) -> Any:
    try:
        return get(own(recipe, path), path)
    except UserError:
        return _ABSENT


def _holder_at(recipe: Recipe, path: str) -> Any:
    try:
        mine = own(recipe, path)
        return get(mine, parent_of(mine, path)[0])
    except UserError:
        return _ABSENT


def meaning(holder: Any, name: str, value: Any) -> str:
    """The meaning of a field: its comment. Without a comment: the sentences of the class's docstring that name the field. If no sentence names the field: the
    first line of the docstring of the value (if the value is a part) or of the class.
    """
    if isinstance(holder, Recipe) and name in SEAMS:
        return SEAMS[name]
    if is_dataclass(holder) and (comment := comment_of(type(holder), name)):
        return comment
    doc = inspect.getdoc(holder) or "" if is_dataclass(holder) else ""
    if named := _sentences(doc, name):
        return named
    if _is_part(value):
        return (inspect.getdoc(value) or type(value).__name__).partition("\n")[0]
    return doc.partition("\n")[0]


def _sentences(doc: str, name: str) -> str:
    """The sentences of a docstring that contain a name."""
    return " ".join(s for s in re.split(r"(?<=\.)\s+", " ".join(doc.split())) if re.search(rf"\b{re.escape(name)}\b", s))


def _is_part(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _kind(holder: Any, name: str) -> str:
    """The declared type as in the source; "a part" for an entry of a mapping and for a part of the recipe."""
    written = next((f.type for f in value_fields(holder) if f.name == name), "Any") if is_dataclass(holder) else "Any"
    return "a part" if written == "Any" else str(getattr(written, "__name__", written))


def _allowed(holder: Any, name: str, value: Any) -> str:
    """The allowed values of the field; '' if its type allows every value."""
    declared = annotation(holder, name) if is_dataclass(holder) else Any
    options = choices(declared)
    literals = [v for c in options if typing.get_origin(c) is typing.Literal for v in typing.get_args(c)]
    if literals:
        return ", ".join(map(str, literals))
    if is_dataclass(holder) and (interval := declared_range(type(holder), name)):
        return interval
    if bool in options:
        return "true, false"
    alike = [value] if _is_part(value) else [c for c in options if isinstance(c, type) and getattr(c, "_is_protocol", False)]
    return ", ".join(parts_like(*alike)) if alike else ""


def stages_of(
    recipe: str,
    given: Sequence[tuple[str, str]],
    *,
    model: str | None = None,
    reward: str | Sequence[str] | None = None,
    profile: str | None = None,
    steps: int | None = None,
) -> list[tuple[str, str, Recipe]]:
    """The changes of a recipe by the options of `gradus train`, one after the other."""
    from gradus.players.rates import reason, with_rate
    from gradus.recipe.overrides import override_all
    from gradus.training.plan import plan

    start = registry.recipe(recipe)
    scaled = plan(recipe, model=model, profile=profile).recipe
    judged = plan(recipe, model=model, profile=profile, reward=reward).recipe
    planned = plan(recipe, model=model, profile=profile, reward=reward, steps=steps).recipe
    typed = " ".join(f"--{name} {text}" for name, text in given)
    named = f"--profile {profile}" if profile is not None else "profile small, because --model names a model of your own"
    final = override_all(planned, given)
    stages = [(named, scaled), (_rewards_typed(reward), judged), (f"--steps {steps}", planned), (typed, final)]
    with suppress(UserError):  # if the model cannot be read, there is no number; the later loading of the model reports the fault
        stages.append((f"by rule: {reason(final, model)}", with_rate(final, model)))
    before, found = start, []
    for source, after in stages:
        if after != before:
            found.append((source, "", after))
        before = after
    return found


def _rewards_typed(reward: str | Sequence[str] | None) -> str:
    return " ".join(f"--reward {text}" for text in ([reward] if isinstance(reward, str) else reward or []))


def explain_run(folder: str | Path, path: str, *, trust: bool = False) -> Explanation:
    """Explains the value of a field in a run: the changes by the run's command, and then the changes in the run's stored recipe.

    `trust`: whether to read the run even if another user made it and it executes Python.
    """
    from gradus.lab.folder import RECIPE, RunFolder
    from gradus.lab.trust import python_of
    from gradus.training.plan import plan_of

    opened = RunFolder.open(folder)
    planned = plan_of(opened, trust=trust)
    stored = planned.recipe
    words = opened.provenance().get("command", [])
    if python_of({"command": words}) and not python_of(opened.recipe()) and not trust:
        words = []  # the command names Python files, but the check of trust has covered only the Python files of the recipe
    found = _typed(words[1:]) if len(words) > 2 and words[1] == "train" else None
    if found is None or found[0].key != stored.key:
        known = stored.key in registry.recipe_modules()
        found = (registry.recipe(stored.key) if known else stored), []
    stages = [*found[1], ("the run's file", str(opened.path / RECIPE), stored)]
    answer = explain(path, found[0], stages)
    if answer.path not in LIMITED:
        return answer
    return _limited(answer, found[0], stages, str(planned.task), dict(planned.task_options), planned.split)


def _typed(words: Sequence[str]) -> tuple[Recipe, list[tuple[str, str, Recipe]]] | None:
    """The recipe and the stages of a typed command; None if this version does not accept the command."""
    from gradus.cli.parser import build_parser, split_fields

    parser, commands = build_parser()
    try:
        known, given = split_fields(words, commands["train"])
        options = parser.parse_args(known)
        given = [(name, text) for name, text in given if not name.startswith("task.")]
        how = {name: getattr(options, name) for name in ("model", "reward", "profile", "steps")}
        return registry.recipe(options.recipe), stages_of(options.recipe, given, **how)
    except UserError:
        return None


@functools.cache
def train_options() -> dict[str, Any]:
    """The options of `gradus train` by name, with dashes."""
    from gradus.cli.parser import build_parser

    return {name: a for a in build_parser()[1]["train"]._actions if a.dest != "help" for name in a.option_strings}


def explain_option(name: str, recipe: Recipe) -> Explanation | None:
    """Explains an option of `gradus train`; None if there is no such option, or if the name is a field of the recipe."""
    if hasattr(recipe, name) or hasattr(recipe.setting, name):
        return None
    action = train_options().get(f"--{name}")
    if action is None:
        return None
    kind = getattr(action.type, "__name__", "text")
    origins = (Origin("default of gradus train", action.default),)
    return Explanation(f"--{name}", action.default, (), origins, action.help or "see: gradus train --help", kind, "")


def explain_task_option(path: str, task: str, given: Mapping[str, str]) -> Explanation:
    """Explains an option of a task, such as `task.level`. Raises UserError if the task does not have the option, or if the option has no default."""
    from gradus.tasks.data.loaders import load_task_file, options_of
    from gradus.training.plan import TASKS, load_task

    name = path.removeprefix("task.")
    known = options_of(task, TASKS)
    taken = {n: p for n, p in known.items() if p.default is not p.empty}
    maker = TASKS.get(task) or (load_object(task, "task") if ".py:" in task else load_task_file)
    maker = maker.func if isinstance(maker, functools.partial) else maker  # of a task of a package
    place = f"{shown(str(inspect.getsourcefile(maker)))}:{inspect.getsourcelines(maker)[1]}" if known else ""
    if name in taken:
        doc, default = inspect.getdoc(maker) or "", taken[name].default
        origins = [Origin(f"default of task {task}", default, place)]
        if name in given:
            origins.append(Origin(f"--{path} {given[name]}", read(given[name], *declared(taken[name]), path)))
        about, kind = _sentences(doc, name) or doc.partition("\n")[0], inspect.formatannotation(taken[name].annotation)
        return Explanation(path, origins[-1].value, (), tuple(origins), about, kind, "")
    made = load_task(task)
    try:
        before, after = get(made, name), get(load_task(task, given), name)
    except UserError:
        raise unknown("option", f"--{path}", [f"--task.{n}" for n in taken], f"These are the options of task {task}") from None
    parent, _, last = name.rpartition(".")
    holder = get(made, parent) if parent else made
    origins = [Origin(f"set by task {task}", before, place)] + ([Origin(f"--{path} {given[name]}", after)] if name in given else [])
    return Explanation(path, after, (), tuple(origins), meaning(holder, last, before), _kind(holder, last), "")
