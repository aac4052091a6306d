"""The display of a run in progress: a live table on a terminal, else plain aligned lines."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from gradus.lab.panel import ASCII, BARS, Curves, cell, panel, title
from gradus.lab.panel import number as number
from gradus.lab.panel import sparkline as sparkline
from gradus.runtime.terminal import console as styled
from gradus.runtime.terminal import is_terminal
from gradus.runtime.terminal import printable as printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live as RichLive

_OF_ACCURACY = ("held_out/problems", "held_out/low", "held_out/high")  # metrics that are shown next to the accuracy
_HEADER_EVERY = 25  # number of lines between two headers


def of_problems(name: str, measured: Mapping[str, Any]) -> str:
    """Returns the number of problems of the held-out accuracy and its interval, such as ' of 256 problems [0.201, 0.307]'.

    Returns '' for other metrics.
    """
    count, low, high = (measured.get(key) for key in _OF_ACCURACY)
    if name != "held_out/accuracy" or count is None:
        return ""
    bounds = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f" of {count:,.0f} problem{'s' * (count != 1)}{bounds}"


def duration(seconds: float) -> str:
    """Returns a duration as text, such as '45s', '3m05s' or '2h10m'."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02d}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02d}m"


_FILE = re.compile(r"(?:[^,:]*/)?([^,/:]+)\.(?:jsonl|ndjson|json|parquet|csv)\b", re.IGNORECASE)
_CODE = re.compile(r"[^,:]*/([^,/:]+\.py:)")


def title_of(recipe: str, task: str) -> str:
    """Returns the title of a run.

    Names of files have no folders in the title, and names of data files have no endings.

    >>> title_of("grpo", "/data/problems.jsonl")
    'grpo on problems'
    """
    named = _CODE.sub(r"\1", _FILE.sub(r"\1", task))
    return " on ".join(part for part in (recipe, named) if part)


class Live:
    """Shows the steps of a run.

    The caller calls `start` first, `step` after every step, `evaluated` after every evaluation, and `stop` at the end. `message` can be called at any time.
    """

    def __init__(
        self,
        title: str = "",
        output: TextIO | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        verified: bool = False,
    ) -> None:
        """`verified`: whether the reward is only the verdict. In this case equal metrics are shown only once, from the first evaluation on."""
        self.title, self.clock = title, clock
        self.output = output or sys.stdout
        self.console = console if console is not None or not is_terminal(self.output) else styled(self.output)
        self.total = self.first = self.done = 0
        self.curves = Curves(verified)
        self.rate: float | None = None  # tokens per second in the last step: sampled tokens, or trained tokens if the step samples none
        self.began = clock()
        self.ended = False  # whether the display has ended
        self._screen: RichLive | None = None
        self._columns: list[str] = []
        self._lines = 0

    def start(self, total: int, first: int = 0, history: Sequence[Mapping[str, Any]] = ()) -> None:
        """Begins the display of a run of `total` steps, of which `first` are finished. `history`: the metrics of the finished steps."""
        for metrics in history:
            self.curves.add(int(metrics["step"]), metrics)
        self.total, self.first, self.done, self.began = total, first, first, self.clock()
        if self.console is None:
            self._print(f"{self.title}: steps {first} to {total}" if self.title else f"steps {first} to {total}")
            return
        from rich.live import Live as RichLive

        self._screen = RichLive(self._table(), console=self.console, auto_refresh=False, transient=False)
        self._screen.start(refresh=True)

    def step(self, metrics: Mapping[str, Any], timings: Mapping[str, float]) -> None:
        """Shows a finished step. `timings`: seconds by phase."""
        step = int(metrics["step"])
        self.done = step + 1
        self.curves.add(step, metrics)
        seconds = sum(timings.values())
        self.rate = (metrics.get("tokens/rollout") or metrics.get("tokens/train") or 0) / seconds if seconds > 0 else None
        if self.console is None:
            self._line(step, metrics)
        self._refresh()

    def evaluated(self, step: int, measured: Mapping[str, float | None], seconds: float) -> None:
        """Shows an evaluation of the weights before `step`. `seconds`: the duration of the evaluation."""
        self.curves.add(step, measured)
        if self.console is None:
            left_out = {*_OF_ACCURACY, *(name for names in self.curves.equal().values() for name in names)}
            found = [(name, value) for name, value in measured.items() if value is not None and name not in left_out]
            told = (f"{self.curves.label(name)} {number(value)}{of_problems(name, measured)}" for name, value in found)
            self._print(f"before step {step}: {', '.join(told)} ({duration(seconds)})")
        self._refresh()

    def message(self, text: str) -> None:
        """Prints a sentence on its own line. On a terminal, the sentence is wrapped between words."""
        if self.console is None:
            self._print(printable(text))
            return
        from rich.text import Text

        self.console.print(Text(printable(text)))

    def stop(self) -> None:
        """Ends the display. The last state stays on the screen. A second call does nothing."""
        self.ended = True
        if self._screen is not None:
            self._refresh()
            self._screen.stop()
            self._screen = None

    @property
    def left(self) -> float | None:
        """Estimates the seconds to the end, including evaluations, from the speed so far; None before the first step is finished."""
        done = self.done - self.first
        return None if done <= 0 else (self.clock() - self.began) / done * max(self.total - self.done, 0)

    def _print(self, text: str) -> None:
        print(text, file=self.output, flush=True)

    def _line(self, step: int, metrics: Mapping[str, Any]) -> None:
        columns = [name for name in self.curves.names() if not name.startswith("held_out/")]
        titles = ["step", *(title(name)[:16] for name in columns), "tokens/s", "left"]
        if columns != self._columns or self._lines % _HEADER_EVERY == 0:
            joined = [label for name in columns if (label := self.curves.label(name)) != title(name)]
            if columns != self._columns and joined:
                self._print(f"equal in every step: {'; '.join(joined)}")
            self._columns = columns
            self._print("  ".join(text.rjust(_width(text)) for text in titles))
        self._lines += 1
        rate = "-" if self.rate is None else f"{self.rate:,.0f}"
        cells = [str(step), *(cell(name, metrics.get(name)) for name in columns), rate, duration(self.left or 0)]
        self._print("  ".join(text.rjust(_width(column)) for column, text in zip(titles, cells, strict=True)))

    def _refresh(self) -> None:
        if self._screen is not None:
            self._screen.update(self._table(), refresh=True)

    def _table(self) -> RenderableType:
        assert self.console is not None
        ramp = BARS if self.console.encoding.lower().startswith("utf") else ASCII
        rate = "" if self.rate is None else f"{self.rate:,.0f} tokens/s"
        left = "" if self.left is None else "done" if self.done >= self.total else "ended" if self.ended else f"{duration(self.left)} left"
        return panel(self.curves, self.title, self.done, self.total, (rate, left), width=self.console.width, ramp=ramp)


def _width(text: str) -> int:
    return max(len(text), 7)
