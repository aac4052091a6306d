"""One run of a comparison. The run is trained or continued, and then examined on held-out problems. The result is plain data."""

from __future__ import annotations

import asyncio
import copy
import gc
import hashlib
import json
import resource
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradus import api
from gradus.comparison.equal import fingerprints, start_of
from gradus.comparison.experiment import Arm, Elsewhere, Experiment
from gradus.lab import checkpoints
from gradus.lab.folder import is_run
from gradus.rewards.verified import Verified
from gradus.study.evaluate import solved, verdict_of
from gradus.study.held_out import held_out_requests
from gradus.training.budget import Budget, spent
from gradus.training.plan import Plan, load_task
from gradus.training.resume import seconds_of
from gradus.training.run import Run
from gradus.types import Group, Request, UserError


@dataclass(frozen=True)
class Job:
    """A run of one arm with one seed, and its folder. `pause`: the run pauses when it has spent this amount of its budget; None: the run continues to its
    end.
    """

    experiment: Experiment
    arm: Arm
    seed: int
    folder: Path
    pause: float | None = None

    @property
    def plan(self) -> Plan:
        return self.experiment.plan(self.arm, self.seed)


def identity(job: Job, versions: Mapping[str, str]) -> str:
    """A hash of all inputs that determine the result of a run: plan, examination, files, versions of packages, and this source code."""
    planned = job.plan
    stored = planned.stored()
    stored["recipe"] = {name: value for name, value in stored["recipe"].items() if name not in ("about", "family", "key", "base")}
    examined = [job.experiment.problems, job.experiment.samples, job.experiment.stored()["others"]]
    known = [stored, examined, fingerprints(stored, examined, job.arm.recipe), versions]
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:24]


def carry_out(job: Job, view: Any) -> dict[str, Any]:
    """Trains the run, or continues it, and examines its final and its best weights (a paused run: its present weights). Returns the result.

    {"start": hashes of the inputs that all arms share, "curve": [[spent, score]], "rewards": [[spent, held-out reward]], "final", "best",
    and "elsewhere" for each further task: see `marks`, "spent": by unit, "tokens": by purpose, "metrics": {name: {"first", "last", ...}}, "times": {...}}.
    """
    forget_peak()
    began = time.perf_counter()
    pause = None if job.pause is None else Budget(job.experiment.budget.unit, job.pause)
    run = api.resume(job.folder, view=view, pause=pause) if is_run(job.folder) else api.launch(job.plan, job.folder, view=view, pause=pause)
    trained = time.perf_counter()
    assert run.folder is not None
    final = asyncio.run(examined(run, job.experiment))
    elsewhere = {other.name: asyncio.run(examined_on(run, other, job.experiment)) for other in job.experiment.others}
    best, linked = final, run.folder.model("best")
    if job.pause is None and linked is not None and linked != run.folder.model("final") and (found := checkpoints.at(linked.parent)) is not None:
        run.restore(found)
        best = asyncio.run(examined(run, job.experiment))
    rows, timings = run.folder.metrics(), run.folder.timings()
    seconds = seconds_of(timings)
    clock = {"steps": sum(seconds.values()), "train": trained - began, "examine": time.perf_counter() - trained, "memory": peak_memory()}
    return {
        "start": start_of(run, job.plan.model, [request.problem for request in asked_of(run, job.experiment)[0]]),
        "curve": curve(job.experiment.budget.unit, rows, seconds, run.task.unmarked),
        "rewards": curve(job.experiment.budget.unit, rows, seconds, True),
        "final": final,
        "best": best,
        "elsewhere": elsewhere,
        "spent": {unit: spent(unit, rows, seconds) for unit in ("steps", "tokens", "rollouts")},
        "tokens": by_purpose(rows),
        "metrics": {name: readings([r[name] for r in rows if isinstance(r.get(name), (int, float))]) for name in names_of(rows)},
        "times": clock,
    }


def asked_of(run: Run, experiment: Experiment) -> tuple[list[Request], bool]:
    """The requests of the examination, and whether all their problems are new. A problem is new if it was not used to choose the best weights. If there are
    enough problems, the examination uses the problems after those of the evaluations.
    """
    used = getattr(run.recipe.study, "problems", 0)
    size = run.task.held_out.size
    skipped = used if size is None or size >= used + experiment.problems else 0
    asked = held_out_requests(run.task.held_out, skipped + experiment.problems, experiment.samples, run.task.level)[skipped:]
    return asked, skipped > 0 or used == 0


async def examined(run: Run, experiment: Experiment) -> dict[str, Any]:
    """Gets `samples` answers to each held-out problem of `asked_of`. Returns one number per problem."""
    judge = verdict_of(run, own=True)
    world = run.world(run.recipe, "evaluate", judge)
    asked, fresh = asked_of(run, experiment)
    try:
        groups = await solved(run, world, asked)
    finally:
        if hasattr(judge, "close"):
            await judge.close()
    return {"samples": experiment.samples, "fresh": fresh, **cost(world.spent, groups), **marks(groups)}


async def examined_on(run: Run, other: Elsewhere, experiment: Experiment) -> dict[str, Any]:
    """The same examination of the run's weights on another task, with the verdict of that task."""
    task = load_task(other.task, dict(other.options))
    there = copy.copy(run)
    there.task = task
    world = there.world(run.recipe, "evaluate", Verified())
    groups = await solved(there, world, held_out_requests(task.held_out, experiment.problems, experiment.samples, task.level))
    return {"samples": experiment.samples, "fresh": True, **cost(world.spent, groups), **marks(groups)}


def cost(spent: Mapping[str, int], groups: Sequence[Group]) -> dict[str, float]:
    """{"answer_tokens": the tokens per answer of an examination}. Every sampled or scored token counts, even if a search discards its sample."""
    answers = sum(len(g.trajectories) for g in groups)
    return {"answer_tokens": sum(count for name, count in spent.items() if "/" not in name) / max(1, answers)}


def marks(groups: Sequence[Group]) -> dict[str, Any]:
    """{"right", "reward", "length", "distinct": one number per problem; "columns": {name: a value or None per problem}; "failed"}."""
    metas = [g.trajectories[0].problem.meta if g.trajectories else {} for g in groups]
    names = {name for meta in metas for name, value in meta.items() if isinstance(value, str | int | float) and name not in UNGROUPED}
    columns = {name: [None if meta.get(name) is None else str(meta[name]) for meta in metas] for name in sorted(names)}
    return {
        "right": [sum(t.right for t in g.trajectories) for g in groups],
        "reward": [_mean([t.value for t in g.trajectories if t.failed is None]) for g in groups],
        "length": [_mean([t.actions for t in g.trajectories]) for g in groups],
        "distinct": [len({t.completion for t in g.trajectories if t.right}) for g in groups],
        "columns": {name: found for name, found in columns.items() if len(set(found)) <= MOST_GROUPS},
        "failed": sum(t.failed is not None for g in groups for t in g.trajectories),
    }


UNGROUPED, MOST_GROUPS = ("solution",), 20
"""Columns that never group problems, and the largest number of different values of a column that groups problems."""


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def curve(unit: str, rows: Sequence[Mapping[str, Any]], seconds: Mapping[int, float], unmarked: bool) -> list[list[float]]:
    """[amount spent, score] of every evaluation. The score is the held-out accuracy. If the task has no right and wrong answers, the score is the held-out
    reward.
    """
    name = "held_out/reward" if unmarked else "held_out/accuracy"
    return [[spent(unit, rows[:n], seconds), float(row[name])] for n, row in enumerate(rows) if row.get(name) is not None]


def by_purpose(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The tokens of the run by purpose. This includes the tokens of measurements, although they belong to no budget."""
    names = sorted({name for row in rows for name in row if name.startswith("tokens/") and name.count("/") == 1})
    return {name.removeprefix("tokens/"): int(sum(row.get(name) or 0 for row in rows)) for name in names}


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the metrics that are numbers."""
    return sorted({name for row in rows for name, value in row.items() if name != "step" and isinstance(value, (int, float))})


def readings(values: Sequence[float]) -> dict[str, float]:
    """One metric over a run: first, last, mean, max, min, gain (last minus first), drop (the largest fall below the running maximum) and
    variation (deviation of the population / mean; 0 if the mean is 0).

    >>> readings([1.0, 3.0, 2.0])["drop"]
    1.0
    """
    seen = np.asarray(values, dtype=np.float64)
    if not len(seen):
        return {}
    return {
        "first": float(seen[0]),
        "last": float(seen[-1]),
        "mean": float(seen.mean()),
        "max": float(seen.max()),
        "min": float(seen.min()),
        "gain": float(seen[-1] - seen[0]),
        "drop": float((np.maximum.accumulate(seen) - seen).max()),
        "variation": float(seen.std() / seen.mean()) if seen.mean() else 0.0,
    }


def peak_memory() -> float:
    """The largest resident memory of this process since `forget_peak`, in bytes. On systems without /proc: the largest memory since the start of the process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024.0
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def forget_peak() -> None:
    """Resets the peak of memory, so that a run does not report the peak of an earlier run in the same process."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def without_clock(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result without the numbers that depend on the clock."""
    return {name: value for name, value in result.items() if name != "times"}


def checked(job: Job) -> Job:
    """Checks that the recipe of the job fits the task and the model, and returns the job. If the recipe does not fit, raises UserError with the arm's
    name.
    """
    try:
        api.start(job.plan)
    except UserError as error:
        raise UserError(f"{job.arm.name}: {error}") from None
    return job
