"""The display of a running comparison, and its result as text. On a terminal, the display has one bar per run; otherwise it has one line per finished run."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from gradus.comparison.compare import Comparison
from gradus.comparison.experiment import folder_name
from gradus.comparison.job import Job
from gradus.comparison.measures import Measure, values
from gradus.comparison.page import arm_rows, pair_rows
from gradus.lab.live import duration, number, printable
from gradus.runtime.tables import table
from gradus.runtime.terminal import console, paragraph

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Display:
    """Shows the lines of the workers. Use it as a context manager, and give it to `compare` as `shown`."""

    def __init__(self, total: int, output: TextIO | None = None) -> None:
        self.total, self.output = total, output or sys.stderr
        self.began, self.finished = time.monotonic(), 0
        self.before: int | None = None  # number of runs that were finished when the first line came
        self.parts: dict[str, float] = {}  # finished share of each run
        self.bars: dict[str, TaskID] = {}
        self.progress: Progress | None = None

    def __enter__(self) -> Display:
        if self.output.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[score]}"), TimeElapsedColumn(), TimeRemainingColumn())
            self.progress = Progress(*columns, console=console(self.output))
            self.bars[""] = self.progress.add_task("all runs", total=self.total, score="")
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def __call__(self, made: Comparison, job: Job, line: Mapping[str, Any]) -> None:
        name = folder_name(job.arm, job.seed)
        if self.before is None:
            self.before = sum((arm.name, seed) != (job.arm.name, job.seed) for arm in made.experiment.arms for seed in made.results.get(arm.name, {}))
            self.finished += self.before
        if "message" in line:
            return
        if "done" in line:
            self.parts[name] = min(line["done"] / max(line["total"], 1), 1.0)
            self._bar(name, self.parts[name], line["score"])
            return
        self.parts[name], self.finished = 1.0, self.finished + 1
        if self.progress is not None:
            if name in self.bars:
                self.progress.update(self.bars[name], visible=False)
            self._all()
        said = f"failed: {line['failed']}" if "failed" in line else score(made.experiment.measure, line["result"])
        self.say(f"{job.arm.name}, seed {job.seed}: {said} ({self.finished} of {self.total} runs, {self._left()})")

    def say(self, text: str) -> None:
        """Prints a sentence on its own line."""
        if self.progress is not None:
            self.progress.console.print(printable(text), markup=False, highlight=False)
        else:
            print(printable(text), file=self.output, flush=True)

    def _bar(self, name: str, share: float, score: float | None) -> None:
        if self.progress is None:
            return
        if name not in self.bars:
            self.bars[name] = self.progress.add_task(name, total=1.0, score="")
        self.progress.update(self.bars[name], completed=share, score=number(score))
        self._all()

    def _all(self) -> None:
        assert self.progress is not None
        self.progress.update(self.bars[""], completed=(self.before or 0) + sum(self.parts.values()))

    def _left(self) -> str:
        done = sum(self.parts.values())
        if self.finished >= self.total:
            return f"done in {duration(time.monotonic() - self.began)}"
        return f"about {duration((time.monotonic() - self.began) / done * (self.total - (self.before or 0) - done))} left" if done else "just begun"


def score(name: str, result: Mapping[str, Any]) -> str:
    """The measure of a finished run. If the measure is the area under the curve, shows the final accuracy instead."""
    shown = "accuracy" if name == "auc" else name
    return f"{shown} {number(float(values(Measure(shown), [result]).mean()))}"


def told(document: Mapping[str, Any]) -> str:
    """The result of a comparison as text: the table of arms, the pairs, the notes and the sentence."""
    parts = [aligned(*arm_rows(document))]
    if document["pairs"]:
        parts.append(aligned(*pair_rows(document)))
    parts += [paragraph(f"note: {note}") for note in document["notes"]]
    return "\n\n".join([*parts, *map(paragraph, document["says"].split("\n"))])


def aligned(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table for the terminal. A cell below an empty title (for example an interval) is joined to the cell before it."""
    at = [i for i, title in enumerate(titles) if not title]
    rows = [[" ".join(filter(None, row[i : i + 2])) if i + 1 in at else text for i, text in enumerate(row) if i not in at] for row in cells]
    return table(rows, [title for title in titles if title])
