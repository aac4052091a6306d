"""The terms of a race in the words of the command line, and the function that starts a race from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradus.comparison.contestants import RATES, choice_of
from gradus.comparison.measures import Measure
from gradus.comparison.race import Asked, Race, Screen, budget_of_race, enter, lay_out, opened, try_out
from gradus.comparison.race_result import announced, concluded
from gradus.comparison.rungs import Outcome, hold
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
    """Makes the race from the words of the command line.

    `terms`: the terms of `gradus.comparison.terms.experiment_of`; they may name a ground.
    """
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
    """Finds the best recipe for a task and a model by a race in the folder `run`; see `gradus race --help`. Returns its document.

    Args: `recipes`: keys, as on the command line (none: the recipes of `family`, else all). `run`: the folder to make, or to continue. `family`: a family of
    recipes. `processes`: the number of parallel runs (0: as for `raced`). `screen`: shows the race. `said`: a function that gets sentences about its
    progress. `terms`: as for `asked_of`: budget, rates, tries, task, model, seeds, measure, problems, samples, profile, device, reward, ground, task_options,
    and fields (of every recipe, as text).
    """
    return raced(asked_of(recipes, family, said=said, **terms), Path(run), processes=processes, screen=screen, said=said)


def raced(
    asked: Asked, folder: Path, *, processes: int = 0, screen: Screen | None = None, said: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Runs or continues the race. Returns the document of race.json. For a finished race, nothing runs again.

    Args: `processes`: the number of parallel runs (0: on the CPU one per core, on another device one). `said`: a function that gets sentences about the
    progress of the race.
    Raises: UserError, before the first run, if no recipe fits the terms.
    """
    race = Race(asked, folder, opened(asked, folder), processes, screen, said or (lambda _: None))
    if "says" in race.document:
        return race.document
    enter(race)
    try_out(race)
    lay_out(race)
    for line in announced(race.document):
        race.said(line)
    names = [arm.name for arm in race.experiment.arms]
    outcome: Outcome = hold(names, race.rungs, race.scores, Measure(asked.experiment.measure).sign)
    race.prune(outcome.left)
    race.document |= concluded(race.document, outcome, race.experiment, race.folder, race.results)
    race.save()
    return race.document
