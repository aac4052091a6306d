"""One run of a comparison: trained or continued, then examined on held-out problems. The result is plain data."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradus import api
from gradus.comparison.experiment import Arm, Elsewhere, Experiment
from gradus.lab import checkpoints
from gradus.lab.checkpoints import digest
from gradus.lab.folder import is_run
from gradus.lab.provenance import fingerprints
from gradus.rewards.verified import Verified
from gradus.study.evaluate import solved, verdict_of
from gradus.study.held_out import held_out_requests
from gradus.training.budget import spent
from gradus.training.plan import Plan, load_task
from gradus.training.resume import seconds_of
from gradus.training.run import Run
from gradus.types import Group, Key, Problem, UserError
from gradus.types.parts import Task


@dataclass(frozen=True)
class Job:
    """A run of one arm with one seed, and its folder."""

    experiment: Experiment
    arm: Arm
    seed: int
    folder: Path

    @property
    def plan(self) -> Plan:
        return self.experiment.plan(self.arm, self.seed)


def identity(job: Job, versions: Mapping[str, str]) -> str:
    """A hash of all that decides the result of a run: its plan, examination and files, and the versions of packages and of this source."""
    planned = job.plan
    stored = planned.stored()
    stored["recipe"] = {name: value for name, value in stored["recipe"].items() if name not in ("about", "family", "key", "base")}
    data = [Path(text) for text in (str(planned.task), *(value for _, value in planned.task_options)) if Path(text).is_file()]
    code = [Path(file) for file in (job.arm.recipe.rpartition(":")[0],) if file and Path(file).is_file()]
    examined = [job.experiment.problems, job.experiment.samples, job.experiment.stored()["others"]]
    known = [stored, examined, fingerprints([*files_of(planned), *data, *code]), versions]
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:24]


def carry_out(job: Job, view: Any) -> dict[str, Any]:
    """Trains the run, or continues it, and examines its final and its best weights. Returns its result.

    {"start": hashes of what all arms share, "curve": [[spent, score]], "final", "best", "elsewhere" by task: see `marks`, "spent": by unit,
    "tokens": by purpose, "metrics": {name: {"first", "last", ...}}, "times": {...}}.
    """
    began = time.perf_counter()
    run = api.resume(job.folder, view=view) if is_run(job.folder) else api.launch(job.plan, job.folder, view=view)
    trained = time.perf_counter()
    assert run.folder is not None
    final = asyncio.run(examined(run, job.experiment))
    elsewhere = {other.name: asyncio.run(examined_on(run, other, job.experiment)) for other in job.experiment.others}
    best, linked = final, run.folder.model("best")
    if linked is not None and linked != run.folder.model("final") and (found := checkpoints.at(linked.parent)) is not None:
        run.restore(found)
        best = asyncio.run(examined(run, job.experiment))
    rows, timings = run.folder.metrics(), run.folder.timings()
    seconds = seconds_of(timings)
    clock = {"steps": sum(seconds.values()), "train": trained - began, "examine": time.perf_counter() - trained, "memory": peak_memory()}
    return {
        "start": start_of(job.plan, run.task, job.experiment.problems),
        "curve": curve(job.experiment.budget.unit, rows, seconds, run.task.unmarked),
        "final": final,
        "best": best,
        "elsewhere": elsewhere,
        "spent": {unit: spent(unit, rows, seconds) for unit in ("steps", "tokens", "rollouts")},
        "tokens": by_purpose(rows),
        "metrics": {name: readings([r[name] for r in rows if isinstance(r.get(name), (int, float))]) for name in names_of(rows)},
        "times": clock,
    }


async def examined(run: Run, experiment: Experiment) -> dict[str, Any]:
    """`samples` answers to each held-out problem, after those that chose the best weights if there are enough. One number per problem."""
    judge = verdict_of(run, own=True)
    world = run.world(run.recipe, "evaluate", judge)
    used = getattr(run.recipe.study, "problems", 0)
    size = run.task.held_out.size
    skipped = used if size is None or size >= used + experiment.problems else 0
    asked = held_out_requests(run.task.held_out, skipped + experiment.problems, experiment.samples, run.task.level)[skipped:]
    try:
        groups = await solved(run, world, asked)
    finally:
        if hasattr(judge, "close"):
            await judge.close()
    fresh = skipped > 0 or used == 0  # whether these problems chose no weights
    return {"samples": experiment.samples, "fresh": fresh, **marks(groups)}


async def examined_on(run: Run, other: Elsewhere, experiment: Experiment) -> dict[str, Any]:
    """The same examination of the run's weights on another task, with the verdict of that task."""
    task = load_task(other.task, dict(other.options))
    there = copy.copy(run)
    there.task = task
    world = there.world(run.recipe, "evaluate", Verified())
    groups = await solved(there, world, held_out_requests(task.held_out, experiment.problems, experiment.samples, task.level))
    return {"samples": experiment.samples, "fresh": True, **marks(groups)}


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
"""Columns of a problem that never group problems, and the most values of one that does."""


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def start_of(planned: Plan, task: Task, problems: int) -> dict[str, str]:
    """Hashes of what all arms of a comparison share: the first training problems, the held-out problems, the files of the model."""
    training = task.source.draw(list(range(64)), task.level, Key(planned.seed).fold("start"))
    held_out = [request.problem for request in held_out_requests(task.held_out, problems, 1, task.level)]
    files = files_of(planned)
    return {
        "problems": _hash(training),
        "held_out": _hash(held_out),
        "model": hashlib.sha256("".join(digest(p) for p in files).encode()).hexdigest()[:16] if files else "built in",
    }


def files_of(planned: Plan) -> list[Path]:
    """The files of the plan's model folder; none for the built-in model."""
    model = Path(planned.model) if planned.model else None
    return sorted(p for p in model.rglob("*") if p.is_file()) if model is not None and model.is_dir() else []


def _hash(problems: Sequence[Problem]) -> str:
    told = [[p.id, p.text, p.question if p.messages else "", [m.digest for m in p.media], repr(p.answer)] for p in problems]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def curve(unit: str, rows: Sequence[Mapping[str, Any]], seconds: Mapping[int, float], unmarked: bool) -> list[list[float]]:
    """[amount spent, score] of every evaluation: held-out accuracy, or reward for a task without right and wrong answers."""
    name = "held_out/reward" if unmarked else "held_out/accuracy"
    return [[spent(unit, rows[:n], seconds), float(row[name])] for n, row in enumerate(rows) if row.get(name) is not None]


def by_purpose(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The tokens of the run by purpose; those of measurements, too, which no budget counts."""
    names = sorted({name for row in rows for name in row if name.startswith("tokens/") and name.count("/") == 1})
    return {name.removeprefix("tokens/"): int(sum(row.get(name) or 0 for row in rows)) for name in names}


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the numbers of the metrics."""
    return sorted({name for row in rows for name, value in row.items() if name != "step" and isinstance(value, (int, float))})


def readings(values: Sequence[float]) -> dict[str, float]:
    """One metric over a run: first, last, mean, max, min, gain (last minus first) and drop (the largest fall below the running maximum).

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
    }


def peak_memory() -> float:
    """The largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def without_clock(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result without the numbers that the clock decides."""
    return {name: value for name, value in result.items() if name != "times"}


def checked(job: Job) -> Job:
    """The job, after a check that its recipe fits task and model. Raises UserError, with the arm's name, if it does not."""
    try:
        api.start(job.plan)
    except UserError as error:
        raise UserError(f"{job.arm.name}: {error}") from None
    return job
