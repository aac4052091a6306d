"""The panel of a run. The panel shows the last value, the first value and a curve of each metric.

`drawn` makes the panel from recorded metrics, as text or as SVG.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradus.runtime.terminal import STYLES, console, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

LABELS: Mapping[str, str] = {
    "reward": "reward",
    "preferred": "preferred",  # share of pairs whose better answer has the higher score
    "margin": "margin",
    "imitation": "loss",  # nats per token of given answers
    "failed": "failed",  # answers without a reward; shown from the first step with one
    "accuracy": "accuracy",
    "held_out/accuracy": "held-out accuracy",
    "held_out/greedy": "held-out greedy",
    "held_out/reward": "held-out reward",
    "held_out/loss": "held-out loss",
    "held_out/preferred": "held-out preferred",
    "held_out/margin": "held-out margin",
    "length": "length",
    "entropy": "entropy",
    "kl": "KL",
    "clip_share": "clip share",
    "aside/reward": "aside reward",  # of auxiliary groups
    "aside/accuracy": "aside accuracy",
}
"""The metrics that are shown, in this order; the components of the reward follow the reward."""

COMPONENT = "reward/"
VERDICT = "reward/verified"
"""The component of the reward that is the verdict of the task's verifier."""
OF_GIVEN = {"reward/preferred": ("preferred", "margin"), "reward/demonstration": ("imitation",)}
"""The components of given answers, and the metrics that are shown in their place: the rewards of given answers never change."""
_INSTEAD = {name for names in OF_GIVEN.values() for name in names}
BARS, ASCII = "▁▂▃▄▅▆▇█", "_.-=+*%#"


@dataclass
class Curves:
    """The values of each metric by step.

    `verified`: whether the reward is only the verdict, if this is known before the first step.
    """

    verified: bool = False
    values: dict[str, dict[int, float]] = field(default_factory=dict)  # name -> step -> value
    problems: float | None = None  # number of problems of the last evaluation

    def add(self, step: int, row: Mapping[str, Any]) -> None:
        """Adds the shown metrics of a row."""
        self.problems = row.get("held_out/problems", self.problems)
        for name, value in row.items():
            if name == "failed" and not value and name not in self.values:
                continue
            if isinstance(value, (int, float)) and (name in LABELS or name.startswith(COMPONENT)):
                self.values.setdefault(name, {})[step] = float(value)

    def names(self) -> list[str]:
        """The names of the metrics that the table shows, in the order of the table.

        A metric is left out if it has no value, or if it equals an earlier metric (see `equal`). The reward is shown even if all answers failed.
        The metrics `OF_GIVEN` belong to given answers. If all components of the reward come from given answers, these metrics are shown in place of the reward.
        Otherwise these metrics are not shown.
        """
        components = [name for name in self.values if name.startswith(COMPONENT)]
        instead = {name for component in components for name in OF_GIVEN.get(component, ())}
        if components and all(set(OF_GIVEN.get(name, ())) & self.values.keys() for name in components):
            return [name for name in LABELS if name in self.values and (name in instead or name not in ("reward", "accuracy", *_INSTEAD))]
        order = [name for label in LABELS if label not in _INSTEAD for name in ((label, *components) if label == "reward" else (label,))]
        left_out = {name for names in self.equal().values() for name in names}
        return [name for name in order if name not in left_out and (name in self.values or (name == "reward" and "failed" in self.values))]

    def equal(self) -> dict[str, list[str]]:
        """Maps a metric to the metrics that equal it and are left out.

        Two metrics are equal if the composition of the reward makes them equal, and if their values were equal at every step so far. A reward with
        one component equals this component. If the component is the verdict, the reward also equals the accuracy.
        """
        components = [name for name in self.values if name.startswith(COMPONENT)]
        verified = components == [VERDICT] or (not components and self.verified)
        pairs = [("reward", name) for name in (*components, *(["accuracy"] if verified else []))] if len(components) == 1 else []
        pairs += [("held_out/accuracy", "held_out/reward")] if verified else []
        found: dict[str, list[str]] = {}
        for first, other in pairs:
            if first in self.values and self.values[first] == self.values.get(other):
                found.setdefault(first, []).append(other)
        return found

    def label(self, name: str) -> str:
        """Returns the label of a metric. If other metrics equal this metric, their labels are added, as in "reward = verified = accuracy"."""
        return " = ".join([title(name), *(title(other).removeprefix("held-out ") for other in self.equal().get(name, ()))])


def title(name: str) -> str:
    """Returns the label of a metric. The label of a component of the reward is the component's name."""
    return printable(LABELS.get(name) or name.removeprefix(COMPONENT).replace("held_out/", "held-out "))


def sparkline(values: Sequence[float], width: int = 24, ramp: str = BARS) -> str:
    """Returns a line of at most `width` characters, scaled from the lowest to the highest value.

    If there are more values, they are averaged over stretches of equal length.

    >>> sparkline([0.0, 1.0, 2.0, 7.0])
    '▁▂▃█'
    """
    if not values:
        return ""
    count = min(width, len(values))
    edges = [i * len(values) // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    flat = high - low <= 1e-9 * max(abs(low), abs(high))  # means of equal numbers may differ by rounding
    scale = 0.0 if flat else (len(ramp) - 1) / (high - low)
    return "".join(ramp[round((mean - low) * scale)] for mean in means)


def number(value: float | None) -> str:
    """Returns a number as text.

    A number below 1,000 has three decimals, and a larger number has commas between thousands. A number below 0.0005 has an exponent. None becomes a dash.
    """
    if value is None:
        return "-"
    if value != 0 and abs(value) < 0.0005:
        return f"{value:.0e}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def cell(name: str, value: float | None) -> str:
    """Returns a value as text. The number of failed answers is a whole number."""
    return f"{value:,.0f}" if name == "failed" and value is not None else number(value)


def panel(curves: Curves, heading: str, done: int, total: int, notes: Sequence[str] = (), *, width: int = 80, ramp: str = BARS) -> RenderableType:
    """Returns the panel of a run as an object that rich prints. `notes`: texts to the right of the bar; `width`: characters of the terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    head = Table.grid(padding=(0, 2))
    head.add_column(no_wrap=True, overflow="ellipsis", style=STYLES["title"])
    for _ in range(2 + len(notes)):
        head.add_column(no_wrap=True)
    wide, ended = 24 if width >= 100 else 12, STYLES["bar.finished"]
    bar = ProgressBar(total=max(total, 1), completed=done, width=wide, complete_style=STYLES["bar.complete"], finished_style=ended)
    head.add_row(Text(heading), f"step {done}/{total}", bar, *map(Text, notes))
    body = Table.grid(padding=(0, 2))
    body.add_column(no_wrap=True, overflow="ellipsis")
    body.add_column(justify="right", no_wrap=True)
    body.add_column(justify="right", style=STYLES["quiet"], no_wrap=True)
    body.add_column(style=STYLES["curve"], no_wrap=True)
    if curves.values:
        body.add_row("", Text("now", style=STYLES["quiet"]), "first", "")
    for name in curves.names():
        values = list(curves.values.get(name, {}).values())
        first, now = (values[0], values[-1]) if values else (None, None)
        style = STYLES["key"] if name in ("reward", "held_out/accuracy") else ""
        label = Text("  " if name.startswith(COMPONENT) else "").append(title(name), style=style)
        label.append(curves.label(name).removeprefix(title(name)), style=STYLES["quiet"])
        if name == "held_out/accuracy" and curves.problems is not None:
            label.append(f" of {curves.problems:,.0f}", style=STYLES["quiet"])
        body.add_row(label, Text(cell(name, now), style=style), cell(name, first), sparkline(values, ramp=ramp))
    return Group(head, body)


def drawn(rows: Sequence[Mapping[str, Any]], heading: str, total: int, *, upto: int | None = None, width: int = 80, form: str = "text") -> str:
    """Returns the panel of a run after any of its steps, from its recorded metrics.

    Args: `rows`: the metrics, as `RunFolder.metrics` gives them. `heading`: such as "grpo on arithmetic". `total`: number of steps of the run. `upto`: the
    panel shows this number of finished steps (None: all steps). `width`: number of characters. `form`: "text", "ansi" (with colours) or "svg".
    """
    until = total if upto is None else upto
    seen = [row for row in rows if int(row["step"]) < until or (int(row["step"]) == until and "reward" not in row)]
    curves = Curves()
    for row in seen:
        curves.add(int(row["step"]), row)
    screen = console(io.StringIO(), record=True, width=width, force_terminal=True, color_system="standard")
    done = min(sum("reward" in row for row in seen), total)
    screen.print(panel(curves, heading, done, total, ["done"] if done >= total else [], width=width))
    if form != "svg":
        return screen.export_text(styles=form == "ansi")
    return screen.export_svg(title=heading, code_format=_plain_svg(), unique_id="gradus")


def _plain_svg() -> str:
    """Returns rich's template of an SVG file without the web fonts, because a viewer would fetch these fonts from another server."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    return re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
