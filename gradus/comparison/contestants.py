"""The contestants of a race: every recipe that fits the task and the model, each with a few settings.

The misfits are the other recipes, each with the reason why it does not fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gradus import api
from gradus.comparison.experiment import Arm, Experiment, Fields, arm_of
from gradus.players.rates import with_rate
from gradus.policies.loading import check_folder
from gradus.recipe import index, registry
from gradus.recipe.compatibility import check_fit, check_problems
from gradus.recipe.core import Recipe
from gradus.training.course import staged
from gradus.training.launch import judgeable
from gradus.training.plan import Plan, load_task
from gradus.types import UserError, unknown
from gradus.types.parts import Task

RATES = "1/3,1,3"
RATE = "learning_rate"


@dataclass(frozen=True)
class Choice:
    """The candidates of a race: recipes, factors of their learning rates, and further fields with the values to try."""

    recipes: tuple[Arm, ...]
    rates: tuple[Fraction, ...]
    tries: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Entrants:
    """The contestants, and (recipe, reason) for every recipe that does not fit."""

    contestants: tuple[Arm, ...]
    misfits: tuple[tuple[str, str], ...]


def choice_of(recipes: Sequence[str], family: str | None = None, rates: str = RATES, tries: Sequence[str] = ()) -> Choice:
    """Reads the candidates from words: the recipes as in `gradus compare`; without recipes, the recipes of a family; without a family, all recipes.

    Raises UserError for unreadable words.
    Args: rates: factors, separated by commas; tries: texts such as "group=8,16".
    """
    if recipes and family is not None:
        raise UserError(f"--family {family} and the recipes {', '.join(recipes)} both name the contestants; give only one of them")
    rows = index.read()["recipes"]
    if family is not None and family not in {row["family"] for row in rows}:
        raise unknown("family", family, sorted({row["family"] for row in rows}))
    arms = tuple(map(arm_of, recipes)) or tuple(Arm(row["key"], row["key"]) for row in rows if family in (None, row["family"]))
    return Choice(arms, factors_of(rates), tuple(map(try_of, tries)))


def factors_of(text: str) -> tuple[Fraction, ...]:
    """Reads the factors from a text such as "1/3,1,3". Raises UserError for any other text.

    >>> factors_of("1/3,1")
    (Fraction(1, 3), Fraction(1, 1))
    """
    try:
        found = tuple(Fraction(part.strip()) for part in text.split(","))
    except (ValueError, ZeroDivisionError):
        found = ()
    if not found or min(found) <= 0 or len(set(found)) < len(found):
        raise UserError(
            f'--rates is "{text}"; write different factors above 0, separated by commas, such as {RATES}; write 1 to use only the rate that the '
            'rule gives'
        )
    return found


def try_of(text: str) -> tuple[str, tuple[str, ...]]:
    """Reads a field and its values from a text such as "group=8,16". Raises UserError for any other text."""
    name, _, values = text.partition("=")
    found = tuple(part.strip() for part in values.split(","))
    if not name.strip() or not all(found) or len(set(found)) < len(found):
        raise UserError(f'--try is "{text}"; write a field and different values for this field, as in group=8,16')
    return name.strip().removeprefix("--"), found


def entrants_of(experiment: Experiment, choice: Choice, said: Callable[[str], None] | None = None) -> Entrants:
    """Finds the contestants and the misfits.

    The first check needs no model. If a recipe passes this check, it is then built once with its players. Raises UserError if fewer than two recipes fit, if
    a recipe is unknown, if the task or the model's folder has a fault, or if no contestant has a tried field.
    """
    for arm in choice.recipes:
        registry.recipe(arm.recipe)
    task = load_task(experiment.task, dict(experiment.task_options))
    check_problems(task)
    if experiment.model not in (None, "tiny"):
        check_folder(str(experiment.model))
    contestants: list[Arm] = []
    misfits: list[tuple[str, str]] = []
    taken = set[str]()
    for number, arm in enumerate(choice.recipes, start=1):
        if said is not None and number % 10 == 0:
            said(f"checked {number} of {len(choice.recipes)} recipes")
        try:
            planned = experiment.plan(arm, 0)
            check(planned, task)
        except UserError as error:
            misfits.append((arm.name, str(error).removeprefix(f"{arm.name}: ")))
            continue
        own, tried = settings(arm, planned, experiment, choice)
        contestants += own
        taken |= tried
    if lacking := next((name for name, _ in choice.tries if contestants and name not in taken), None):
        raise UserError(
            f"--try names the field {lacking}, but no contestant accepts this field with these values; list the fields with: gradus show "
            f"{contestants[0].recipe}"
        )
    if len(contestants) < 2:
        why = "".join(f". {name}: {reason}" for name, reason in misfits[:2])
        raise UserError(
            f"a race needs two contestants or more, but the {len(choice.recipes)} named recipes give only {len(contestants)}; name more recipes that fit the "
            f"task and the model{', or give more --rates' * len(contestants)}{why}"
        )
    return Entrants(tuple(contestants), tuple(misfits))


def check(planned: Plan, task: Task) -> None:
    """Raises UserError if the recipe does not fit its task and model; the message names the fault."""
    recipe = planned.recipe
    if not staged(recipe):
        check_fit(recipe, task if recipe.environment is None else replace(task, environment=recipe.environment))
        judgeable(recipe, task)
    api.start(planned, task=task)


def settings(arm: Arm, planned: Plan, experiment: Experiment, choice: Choice) -> tuple[list[Arm], set[str]]:
    """Returns one arm per combination of rates (the recipe's own first) and tried values, and the names of the tried fields that the recipe has."""
    axes = [[*rates(arm, planned, choice.rates)]]
    tried = set[str]()
    for name, values in choice.tries:
        try:
            for value in values:
                experiment.plan(replace(arm, fields=(*arm.fields, (name, value))), 0)
        except UserError:
            continue
        axes.append([((name, value),) for value in values])
        tried.add(name)
    found = [with_fields(arm, tuple(itertools.chain(*each))) for each in itertools.product(*axes)]
    return found, tried


def with_fields(arm: Arm, fields: Fields) -> Arm:
    """The arm with further fields. The name of the arm shows these fields."""
    return Arm(" ".join([arm.name, *(f"{name}={value}" for name, value in fields)]), arm.recipe, (*arm.fields, *fields))


def rates(arm: Arm, planned: Plan, factors: Sequence[Fraction]) -> list[Fields]:
    """The fields that set each learning rate.

    The first entry has no field, so the recipe keeps its own rate. If the policy has no learning rate, or if the arm sets the rate, there is no other entry.
    """
    path, rate = rate_of(planned.recipe, planned.model)
    if path is None or path in dict(arm.fields):
        return [()]
    order = sorted(factors, key=lambda factor: factor != 1)
    return [() if factor == 1 else ((path, f"{rate * float(factor):.2g}"),) for factor in order]


def rate_of(recipe: Recipe, model: str | None) -> tuple[str | None, float]:
    """The path and the value of the policy's learning rate.

    (None, 0.0) if the policy has no learning rate, or if the stages of the recipe have their own rates.
    """
    if staged(recipe) or not recipe.objective:
        return None, 0.0
    own = recipe.players["policy"].optimizer if "policy" in recipe.players else None
    if (rate := getattr(own or recipe.optimizer, "lr", None)) is not None:
        return ("players.policy.optimizer.lr" if own is not None else "optimizer.lr"), float(rate)
    return RATE, float(with_rate(recipe, model).setting.learning_rate or 0.0)


def stored(entrants: Entrants) -> dict[str, Any]:
    """The contestants and misfits as plain values."""
    arms = [{"name": a.name, "recipe": a.recipe, "fields": [list(pair) for pair in a.fields]} for a in entrants.contestants]
    return {"contestants": arms, "misfits": [{"recipe": name, "lacks": reason} for name, reason in entrants.misfits]}


def read(document: Mapping[str, Any]) -> Entrants:
    """The inverse of `stored`."""
    arms = tuple(Arm(a["name"], a["recipe"], tuple((str(n), str(v)) for n, v in a["fields"])) for a in document["contestants"])
    return Entrants(arms, tuple((m["recipe"], m["lacks"]) for m in document["misfits"]))
