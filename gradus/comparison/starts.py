"""The terms of a proving ground, and its start models. Each start model is made once and kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradus import api
from gradus.comparison.experiment import Elsewhere, arm_of
from gradus.comparison.ground import Ground, Start
from gradus.lab.folder import RunFolder, is_run
from gradus.recipe.overrides import override_all
from gradus.runtime.cache import cache_folder
from gradus.training.budget import budget_of
from gradus.training.plan import Plan, plan, task_of
from gradus.types import Key, UserError

PROBLEMS = 8  # the folder name of a start model depends on the text of its first problems, at most this number


def terms_of(ground: Ground, said: Callable[[str], None] | None = None) -> dict[str, Any]:
    """The fields of an `Experiment` on a ground.

    Makes the start model and the judge of the ground if they do not exist yet. Before that, `said` is called with a sentence about this work.
    """
    terms: dict[str, Any] = {
        "ground": ground.name,
        "task": ground.task,
        "task_options": tuple(ground.options.items()),
        "fields": tuple(ground.fields.items()),
        "budget": budget_of(ground.budget),
        "measure": ground.measures[0],
        "shows": ground.measures[1:],
        "others": tuple(elsewhere_of(text) for text in ground.others),
        "problems": ground.problems,
        "samples": ground.samples,
    }
    if ground.start is not None:
        terms["model"] = str(made(ground.start, said))
    if ground.judge is not None:
        terms["reward"] = (str(made(ground.judge, said)),)
        terms["fields"] = (("study.reward", "Verified"), *terms["fields"])
    return terms


def elsewhere_of(text: str) -> Elsewhere:
    """A further task of the examination: TASK or NAME=TASK, each with or without options.

    >>> elsewhere_of("deep=string_ops --level 5")
    Elsewhere(name='deep', task='string_ops', options=(('level', '5'),))
    """
    arm = arm_of(text)
    return Elsewhere(arm.name, arm.recipe, arm.fields)


def plan_of(start: Start, model: str | None) -> Plan:
    """The plan that trains a start model. `model`: the folder of the model to begin with; None: the built-in model."""
    made = plan(start.recipe, start.task, model=model, steps=start.steps, seed=start.seed, task_options=start.options)
    fields = {"study": "none", "save_every": "0", **start.fields}
    return replace(made, recipe=override_all(made.recipe, list(fields.items())))


def shown(planned: Plan) -> list[str]:
    """The first training problems of a plan, with their worked solutions, as text."""
    task = task_of(planned)
    return [f"{p.text or p.question} {p.answer!r} {p.meta.get('solution', '')}" for p in task.source.draw(list(range(PROBLEMS)), task.level, Key(0))]


def made(start: Start, said: Callable[[str], None] | None = None) -> Path:
    """The folder of a start model. If the model does not exist, trains it or continues its training.

    The name of the folder depends on the plan and on the task's first problems, and not on the version of the code. So the model stays valid if other code changes.
    """
    model = None if start.start is None else str(made(start.start, said))
    planned = plan_of(start, model)
    hashed = hashlib.sha256(json.dumps([planned.stored(), shown(planned)], sort_keys=True, default=str).encode()).hexdigest()[:12]
    folder = cache_folder("starts") / f"{re.sub(r'[^A-Za-z0-9_]+', '_', f'{start.recipe}_{start.task}')}-{hashed}"
    if not (is_run(folder) and RunFolder.open(folder).done() >= start.steps):
        if said is not None:
            said(f"making a start model, kept in {folder}: {start}")
        if is_run(folder):
            api.resume(folder)
        else:
            api.launch(planned, folder)
    found = RunFolder.open(folder).model("final")
    if found is None:
        raise UserError(f"{folder} contains no final model; delete the folder, and Gradus makes the start model again")
    return found
