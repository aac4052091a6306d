"""The equal terms of a comparison, its arms (the compared recipes), and its runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.recipe.overrides import override_all
from gradus.training.budget import Budget
from gradus.training.plan import Plan, plan
from gradus.types import UserError
from gradus.types.ranges import check_ranges

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Arm:
    """A recipe (a key, or file.py:name), its own fields, and the name that tables show."""

    name: str
    recipe: str
    fields: Fields = ()


@dataclass(frozen=True)
class Elsewhere:
    """A further task for the examination at the end of every run. `name`: the NAME of its measure, accuracy@NAME."""

    name: str
    task: str
    options: Fields = ()


@dataclass(frozen=True)
class Experiment:
    """The arms, and the terms that are equal for all arms: task, model, profile, fields, seeds, budget, and the examination at the end."""

    arms: tuple[Arm, ...]
    task: str | None = None
    task_options: Fields = ()
    model: str | None = None
    profile: str | None = None
    fields: Fields = ()  # fields that are set in every recipe
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: Budget = Budget("steps", 20)
    measure: str = "accuracy"
    problems: int = 200  # held-out problems of the examination
    samples: int = 4  # answers per problem of the examination
    device: str = "cpu"
    reward: tuple[str, ...] = ()  # rewards that replace every arm's own reward in training; if there are several, they are added
    shows: tuple[str, ...] = ()  # further measures, as columns
    others: tuple[Elsewhere, ...] = ()
    ground: str | None = None  # the proving ground that gave the terms

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", samples="[1, inf)")
        if not self.arms:
            raise UserError("a comparison needs at least one recipe; list the recipes with: gradus papers")
        named = {"arm": [arm.name for arm in self.arms], "seed": list(map(str, self.seeds)), "further task": [other.name for other in self.others]}
        for what, values in named.items():
            if (twice := next((v for v in values if values.count(v) > 1), None)) is not None:
                raise UserError(f"the {what} {twice} is given twice; give each {what} once")
        if not self.seeds:
            raise UserError("a comparison needs at least one seed; give --seeds 3, or the seeds separated by commas")

    def plan(self, arm: Arm, seed: int) -> Plan:
        """The plan of a run of one arm. Raises UserError, with the arm's name, if a recipe lacks a field."""
        how: dict[str, Any] = {name: getattr(self, name) for name in ("model", "profile", "device", "budget")} | {"seed": seed, "reward": list(self.reward) or None}
        made = plan(arm.recipe, self.task, task_options=dict(self.task_options), **how)
        try:
            return replace(made, recipe=override_all(made.recipe, self.fields_of(arm)))
        except UserError as error:
            raise UserError(f"{arm.name}: {error}") from None

    def fields_of(self, arm: Arm) -> Fields:
        """The fields of all recipes and the fields of the arm. If both set a field, the arm's value counts."""
        own = dict(arm.fields)
        return (*((name, value) for name, value in self.fields if name not in own), *arm.fields)

    def stored(self) -> dict[str, Any]:
        """The experiment as plain values."""
        budget = [self.budget.unit, self.budget.amount, self.budget.points]
        plain = {name: getattr(self, name) for name in _PLAIN}
        pairs = {name: [list(pair) for pair in getattr(self, name)] for name in ("task_options", "fields")}
        others = [{"name": o.name, "task": o.task, "options": [list(pair) for pair in o.options]} for o in self.others]
        arms = [{"name": a.name, "recipe": a.recipe, "fields": [list(pair) for pair in a.fields]} for a in self.arms]
        lists = {name: list(getattr(self, name)) for name in ("seeds", "reward", "shows")}
        return {"arms": arms, **plain, **pairs, **lists, "budget": budget, "others": others}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Experiment:
        """The inverse of `stored`. In older forms, the fields after `budget` may be missing, and one reward is stored as text."""
        arms = tuple(Arm(a["name"], a["recipe"], _pairs(a["fields"])) for a in stored["arms"])
        known: dict[str, Any] = {name: stored.get(name) if name == "ground" else stored[name] for name in _PLAIN}
        known |= {name: _pairs(stored[name]) for name in ("task_options", "fields")}
        known["others"] = tuple(Elsewhere(o["name"], o["task"], _pairs(o["options"])) for o in stored.get("others", ()))
        given = stored.get("reward") or ()
        known["reward"] = (given,) if isinstance(given, str) else tuple(given)
        return cls(arms, **known, seeds=tuple(stored["seeds"]), shows=tuple(stored.get("shows", ())), budget=Budget(*stored["budget"]))


_PLAIN = ("task", "model", "profile", "measure", "problems", "samples", "device", "ground")


def _pairs(rows: Sequence[Sequence[str]]) -> Fields:
    return tuple((str(name), str(value)) for name, value in rows)


def arm_of(text: str) -> Arm:
    """The arm that a word of the command line names: a recipe, a recipe with fields (in quotes), or NAME=RECIPE with or without fields.

    >>> arm_of("grpo --learning_rate 3e-4")
    Arm(name='grpo learning_rate=3e-4', recipe='grpo', fields=(('learning_rate', '3e-4'),))
    >>> arm_of("wide=grpo --objective.policy.trust.high 0.3").name
    'wide'
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"the arm {text} cannot be read: {error}; write 'RECIPE --FIELD VALUE'") from None
    if not words:
        raise UserError("an arm is empty; give a recipe's key, or 'RECIPE --FIELD VALUE' in quotes")
    named = re.fullmatch(r"([\w.+-]+)=(.+)", words[0])
    recipe, fields, left = (named[2] if named else words[0]), [], iter(words[1:])
    for word in left:
        name, equals, value = word.partition("=")
        value = value if equals else next(left, "--")
        if not name.startswith("--") or value.startswith("--"):
            raise UserError(f"the arm '{text}' cannot be read at {word}, because a field needs a name with -- and a value; write 'RECIPE --FIELD VALUE'")
        fields.append((name.removeprefix("--"), value))
    shown = " ".join([recipe.rpartition(":")[2], *(f"{name}={value}" for name, value in fields)])
    return Arm(named[1] if named else shown, recipe, tuple(fields))


def seeds_of(text: str) -> tuple[int, ...]:
    """Reads seeds from a text: either the number of seeds (their values are 0, 1, ...), or the seeds separated by commas.

    >>> seeds_of("3"), seeds_of("4,9")
    ((0, 1, 2), (4, 9))
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and numbers[0] < 1):
        raise UserError(f'--seeds is "{text}"; write a number of seeds, such as 3, or the seeds themselves, separated by commas, such as 4,9')
    return tuple(numbers) if "," in text else tuple(range(numbers[0]))


def folder_name(arm: Arm, seed: int) -> str:
    """The name of a run's folder: the arm's name in letters that every file system accepts, and the seed."""
    return f"{re.sub(r'[^A-Za-z0-9.+=-]+', '_', arm.name).strip('_')[:80]}-seed{seed}"
