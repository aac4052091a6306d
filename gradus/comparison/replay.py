"""Repeats a stored run from its start. Some decisions depend on the clock; the repetition reads these decisions from the stored run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradus.api import plan_of, start
from gradus.lab.atomic_files import write
from gradus.lab.checkpoints import digest, steps
from gradus.lab.folder import FACTS, RunFolder
from gradus.training.launch import go
from gradus.types import UserError


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: the new folder, the number of repeated steps, and the first step whose metrics or weights differ (None: no step differs)."""

    folder: Path
    steps: int
    differs: int | None


def replay(folder: Path | str, to: Path | str, *, view: Any = None, trust: bool = False) -> Replayed:
    """Repeats a run in the new folder `to`, in one process, and compares metrics and weights of both runs.

    `view`: a live table; `trust`: whether to repeat a run of another user that executes Python. Raises UserError if `folder` has no run, if the run
    has no finished step, or if `to` is not empty.
    """
    first = RunFolder.open(folder)
    planned = plan_of(first, trust=trust)
    if not first.done():
        raise UserError(f"the run {folder} has no finished step, so there is nothing to repeat; continue it with gradus resume {folder}")
    run = start(planned, to, view=view)
    assert run.folder is not None
    if (first.path / FACTS).exists():
        write(run.folder.path / FACTS, (first.path / FACTS).read_bytes())
    go(run)
    return Replayed(run.folder.path, run.step, first_difference(first, run.folder))


def first_difference(one: RunFolder, other: RunFolder) -> int | None:
    """Returns the first step after which the metrics or the saved weights of two runs differ; None if nothing differs."""
    rows = [{row["step"]: row for row in each.metrics()} for each in (one, other)]
    found = [step for step in rows[0].keys() & rows[1].keys() if rows[0][step] != rows[1][step]]
    saved = [steps(each.path) for each in (one, other)]
    for step in saved[0].keys() & saved[1].keys():
        weights = [sorted((path / "model").glob("*.safetensors")) for path in (saved[0][step], saved[1][step])]
        if [digest(path) for path in weights[0]] != [digest(path) for path in weights[1]]:
            found.append(step)
    return min(found, default=None)
