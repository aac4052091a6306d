"""Evaluation of a model or a run on a task, from Python: what `gradus eval` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradus.api import check_seed, load_task, plan_of, start
from gradus.lab import checkpoints
from gradus.lab.folder import RunFolder, is_run
from gradus.overrides import override_all
from gradus.policies.build import build_players
from gradus.recipe import Recipe
from gradus.rewards.combine import check_reward
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.functions import Function
from gradus.rollouts.acting import Acting
from gradus.run import Run
from gradus.study.exam import Exam, examine, verdict_of
from gradus.types import Key, UserError
from gradus.types.parts import Task


def evaluate(
    model_or_run: str | Path | None = None,
    task: str | Task | None = None,
    *,
    pass_at: Sequence[int] = (1,),
    samples: int = 0,
    problems: int = 256,
    reward: str | Any | None = None,
    seed: int = 0,
    device: str | None = None,
    task_options: Mapping[str, str] | None = None,
    overrides: Sequence[tuple[str, str]] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Exam:
    """pass@k, majority vote, greedy accuracy, reward and length on held-out problems, with intervals.

    Args: model_or_run: a model's folder, a run's (its final model, else its best, else its newest), or None for the built-in model;
    task: None: the run's own; samples: a problem, 0 for the largest of `pass_at`; reward: file.py:function; None: for a run on its own
    task the one of its evaluations while training, else the task's verifier;
    device: None: the run's own, cpu for a model; overrides: fields of the recipe, as on the command line.
    """
    check_seed(seed)
    path = Path(str(model_or_run)) if model_or_run not in (None, "tiny") else None
    options = dict(task_options or {})
    own = False
    if path is not None and is_run(path):
        run, own = _of_run(path, task, options, overrides, device)
    else:
        if path is not None and not path.exists():
            raise UserError(f'there is no folder "{path}"; give the folder of a model, or of a run (the one that was named with --run)')
        if task is None:
            raise UserError("a model is evaluated on a task: name one with --task (gradus tasks lists them)")
        made = task if isinstance(task, Task) else load_task(task, options)
        run = _of_model(path, made, overrides, device or "cpu")
    run.seed = seed
    judge = Function(path=reward) if isinstance(reward, str) else reward or verdict_of(run, own=own)
    if judge is None:
        raise UserError(f"task {run.task.name} has no answers to tell right from wrong; give a reward with --reward FILE.py:NAME")
    check_reward(judge, run.task)
    return asyncio.run(_examined(run, judge, ks=pass_at, samples=samples, problems=problems, progress=progress))


async def _examined(run: Run, judge: Any, **how: Any) -> Exam:
    try:
        return await examine(run, reward=judge, **how)
    finally:
        if hasattr(judge, "close"):
            await judge.close()


def _of_run(
    path: Path, task: str | Task | None, options: Mapping[str, str], overrides: Sequence[tuple[str, str]], device: str | None
) -> tuple[Run, bool]:
    """A run as it stood at the checkpoint of its model, weights and what its parts remember; and whether the task is its own."""
    folder = RunFolder.open(path)
    planned = plan_of(folder)
    own = task is None or (isinstance(task, str) and replace(planned, task=task).stored()["task"] == planned.task)
    if isinstance(task, str):
        planned = replace(planned, task=task, task_options=tuple(options.items()))
    elif options:
        planned = replace(planned, task_options=(*planned.task_options, *options.items()))
    planned = replace(planned, recipe=override_all(planned.recipe, overrides), device=device or planned.device)
    run = start(planned, task=task if isinstance(task, Task) else None)
    model = folder.model("final") or folder.model("best")
    found = checkpoints.at(model.parent) if model is not None else folder.latest()[0]
    if found is None:
        raise UserError(f"run {path} has no whole checkpoint, so it holds no model; go on with it: gradus resume {path}")
    run.restore(found)
    return run, own


def _of_model(path: Path | None, task: Task, overrides: Sequence[tuple[str, str]], device: str) -> Run:
    recipe = Recipe(key="evaluation", policy=task.policy, rollout=Acting(), reward=EnvironmentReturn() if task.environment else None)
    recipe = override_all(recipe, overrides)
    return Run(recipe, task, build_players(recipe, path, task, Key(0), device))
