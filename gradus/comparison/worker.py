"""A process that executes the runs of a comparison one after another. The process ends as soon as its parent ends.

Lines on standard input: {"experiment", "arm", "seed", "folder", "pause"}. Lines on standard output: {"total", "done", "score"} after each
step,
{"message"}, and {"result"} or {"failed"} at the end of a run. The output of user code and the traceback of an error go to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from gradus.comparison.experiment import Experiment
from gradus.lab.atomic_files import REMEDIES, refused
from gradus.runtime.user_code import blamed, raised
from gradus.types import UserError


class Lines:
    """The view of a run that writes its progress as lines of JSON."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.total = out, 0
        self.score: float | None = None

    def send(self, **values: Any) -> None:
        self.out.write(json.dumps(values) + "\n")
        self.out.flush()

    def start(self, total: int, first: int = 0, history: Sequence[Mapping[str, Any]] = ()) -> None:
        self.total = total
        self.send(total=total, done=first, score=self.score)

    def step(self, metrics: Mapping[str, Any], timings: Mapping[str, float]) -> None:
        self.send(total=self.total, done=int(metrics["step"]) + 1, score=self.score)

    def evaluated(self, step: int, measured: Mapping[str, float | None], seconds: float) -> None:
        self.score = measured.get("held_out/accuracy", measured.get("held_out/reward"))
        self.send(total=self.total, done=step, score=self.score)

    def message(self, text: str) -> None:
        self.send(message=text)

    def stop(self) -> None:
        pass


def main() -> None:
    """Executes the jobs from standard input until standard input closes."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    jobs: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    while True:
        given = json.loads(jobs.get())
        view = Lines(out)
        try:
            from gradus.comparison.job import Job, carry_out

            experiment = Experiment.read(given["experiment"])
            arm = next(a for a in experiment.arms if a.name == given["arm"])
            view.send(result=carry_out(Job(experiment, arm, given["seed"], Path(given["folder"]), given["pause"]), view))
        except Exception as error:
            if not isinstance(error, UserError):
                traceback.print_exc()
            view.send(failed=reason(error))


def reason(error: Exception) -> str:
    """A sentence about the error that ended a run: a UserError's sentence, a fault of the disk, the line of user code, or the error itself."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and (number := refused(error)) is not None:
        what, remedy = REMEDIES[number]
        return f"{what}{f' at {error.filename}' if error.filename else ''}; {remedy}"
    return blamed(error) or raised(error)


def _read(jobs: queue.Queue[str]) -> None:
    """Passes on the lines of standard input. The process ends when standard input ends, so no run continues after the end of the comparison."""
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
