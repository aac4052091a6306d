"""The terms of a race in words, as on the command line, and the race from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradus.comparison.contestants import RATES, choice_of
from gradus.comparison.race import Asked, Screen, budget_of_race, raced
from gradus.comparison.terms import experiment_of
from gradus.policies.registry import LANGUAGE_MODEL

BUDGET, PROBLEMS = "1h", 100


def asked_of(
    recipes: Sequence[str] = (),
    family: str | None = None,
    *,
    rates: str = RATES,
    tries: Sequence[str] = (),
    budget: str = BUDGET,
    problems: int | None = None,
    said: Callable[[str], None] | None = None,
    **terms: Any,
) -> Asked:
    """The race of words as on the command line; `terms` are those of `gradus.comparison.terms.experiment_of`, a ground among them."""
    choice, whole = choice_of(recipes, family, rates, tries), budget_of_race(budget)
    experiment = experiment_of([choice.recipes[0].recipe], problems=problems, said=said, **terms)
    own = experiment.problems if problems is not None or experiment.ground is not None else PROBLEMS
    task = experiment.task or LANGUAGE_MODEL.task
    return Asked(replace(experiment, arms=choice.recipes, problems=own, task=task), choice, whole)


def race_recipes(
    *recipes: str,
    run: Path | str,
    family: str | None = None,
    processes: int = 0,
    screen: Screen | None = None,
    said: Callable[[str], None] | None = None,
    **terms: Any,
) -> dict[str, Any]:
    """Finds the best recipe for a task and a model by a race in the folder `run`, and returns the document of the race; see `gradus race --help`.

    Args: recipes: as on the command line; none: those of `family`, else all; processes, screen, said: as for `raced`; terms: budget, rates, tries, task,
    model, seeds, measure, problems, samples, profile, device, reward, ground, task_options and fields (of every recipe, as text), as for `asked_of`.
    """
    return raced(asked_of(recipes, family, said=said, **terms), Path(run), processes=processes, screen=screen, said=said)
