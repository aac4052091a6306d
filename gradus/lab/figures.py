"""The curves of a run, in groups. A sentence lists the metrics that never change, with their values."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.lab.curves import Series, chart, told, united
from gradus.lab.panel import OF_GIVEN

Metrics = Sequence[Mapping[str, Any]]
Lines = tuple[tuple[str, str], ...]

SPANNED = "held_out/accuracy"  # the metric whose interval is from held_out/low to held_out/high
INTERVAL = ("held_out/low", "held_out/high", "held_out/problems", "step", "ended")  # these metrics are shown together with other metrics
_MOST = 80  # largest number of further metrics that are drawn


@dataclass(frozen=True)
class Figure:
    """A figure with its title.

    `unit`: the name of the vertical axis. `lines`: (metric, label) for each line. A name that ends in / means all metrics with this prefix.
    """

    title: str
    unit: str
    lines: Lines


GROUPS: tuple[tuple[str, tuple[Figure, ...]], ...] = (
    (
        "",
        (
            Figure("Length", "actions per answer", (("length", "training"), ("held_out/length", "held out"))),
            Figure("Informative and truncated", "share", (("informative", "informative groups"), ("truncated", "truncated answers"))),
            Figure("Answers without a reward", "answers per step", (("failed", "training"), ("held_out/failed", "held out"))),
            Figure("Auxiliary groups", "mean", (("aside/reward", "reward"), ("aside/accuracy", "accuracy"))),
            Figure("Loss", "loss", (("loss", "total"), ("loss/", ""), ("held_out/loss", "held out"))),
            Figure("Gradient norm", "L2 norm before clipping", (("grad_norm", "policy"), ("grad_norm/", ""))),
            Figure("Learning rate", "learning rate", (("learning_rate", "policy"), ("learning_rate/", ""))),
            Figure("KL to the reference", "nats per action", (("kl", "KL"),)),
            Figure("Entropy", "nats per action", (("entropy", "entropy"),)),
            Figure("Clipped share", "share of actions", (("clip_share", "clipped"),)),
            Figure("Pairs in the right order", "share of pairs", (("preferred", "training"), ("held_out/preferred", "held out"))),
            Figure("Margin of the preferred answer", "nats", (("margin", "training"), ("held_out/margin", "held out"))),
            Figure("Scores of both answers of a pair", "nats", (("chosen", "better answer"), ("rejected", "worse answer"))),
        ),
    ),
    (
        "Throughput",
        (
            Figure("Throughput", "tokens per second", (("speed/step", "sampled, whole step"), ("speed/rollout", "sampled, rollout alone"))),
            Figure("Time per step", "seconds", (("seconds/", ""),)),
            Figure("Tokens per step", "tokens", (("tokens/rollout", "sampled"), ("tokens/train", "trained on"))),
        ),
    ),
)
"""(heading, figures) in order; the first group follows the figures of reward and accuracy."""


def timed(metrics: Metrics, timings: Metrics) -> list[dict[str, Any]]:
    """Returns the metrics with the seconds of each step by phase (seconds/...) and the sampled tokens per second (speed/step, speed/rollout)."""
    spent = {row["step"]: {n: v for n, v in row.items() if n != "step" and isinstance(v, (int, float))} for row in timings}
    found = []
    for row in metrics:
        phases, tokens = spent.get(row["step"], {}), row.get("tokens/rollout")
        if "reward" not in row and tokens is None:  # an evaluation
            phases = {}
        whole = sum(phases.values())
        speed = {"speed/step": tokens / whole} if tokens and whole > 0 else {}
        speed |= {"speed/rollout": tokens / phases["rollout"]} if tokens and phases.get("rollout", 0) > 0 else {}
        found.append({**row, **{f"seconds/{name}": value for name, value in phases.items()}, **speed})
    return found


def curves(metrics: Metrics, timings: Metrics) -> str:
    """Returns all figures: reward and accuracy, the groups, and the further metrics, which are folded at first."""
    rows = timed(metrics, timings)
    first, used = _first(rows)
    begun = [chart(title, _series(rows, lines), unit=unit) for title, unit, lines in first]
    parts, still = [], []
    for name, figures in GROUPS:
        drawn, begun = begun, []
        for figure in figures:
            lines = _below(rows, figure.lines)
            used |= {metric for metric, _ in lines}
            shown, flat = _drawn(figure.title, figure.unit, _series(rows, lines))
            drawn += shown
            still += flat
        parts.append((name, drawn))
    body = "".join(f'{f"<h3>{name}</h3>" if name else ""}<div class="curves">{"".join(drawn)}</div>' for name, drawn in parts if any(drawn))
    if not body:
        return '<p class="soft">No step is done yet.</p>'
    return body + _told(still) + further(rows, used)


def _told(still: Sequence[str]) -> str:
    return f'<p class="soft">Not drawn, because they never change: {html.escape(", ".join(still))}.</p>' if still else ""


def further(rows: Metrics, used: set[str]) -> str:
    """Returns the metrics that no other figure shows, one figure per metric.

    A sentence lists the metrics that never change. Returns '' if there are no further metrics.
    """
    names = sorted({name for row in rows for name, value in row.items() if isinstance(value, (int, float))} - used - set(INTERVAL))
    drawn, still = [], []
    for name in names:
        shown, flat = _drawn(name, "", _series(rows, ((name, name),)))
        drawn += shown
        still += flat
    left = f"<p>{len(drawn) - _MOST:,} more are in <code>metrics.jsonl</code>.</p>" if len(drawn) > _MOST else ""
    inside = f'<div class="curves small">{"".join(drawn[:_MOST])}</div>{left}' if drawn else ""
    count = len(drawn) + len(still)
    return f"<details class=\"further\"><summary>Further metrics ({count})</summary>{inside}{_told(still)}</details>" if count else ""


def of_given(rows: Metrics) -> bool:
    """Whether all answers of a run are given. The rewards of given answers never change, so they show nothing about learning."""
    components = {name for row in rows for name in row if name.startswith("reward/")}
    return bool(components) and components <= OF_GIVEN.keys()


def _first(rows: Metrics) -> tuple[list[tuple[str, str, Lines]], set[str]]:
    """Returns the figures of reward and accuracy, and the metrics in them.

    If reward and accuracy are equal, they share one figure. If all answers are given, there is no figure.
    """
    components = tuple((n, n.removeprefix("reward/")) for n in dict.fromkeys(n for row in rows for n in row if n.startswith("reward/")))
    reward: Lines = (("reward", "reward"), *components)
    held: Lines = (("held_out/accuracy", "held-out accuracy"), ("held_out/greedy", "held-out greedy"))
    accuracy: Lines = (("accuracy", "accuracy"), *held)
    last: Lines = (("held_out/reward", "held-out reward"),)
    used = {name for name, _ in (*reward, *accuracy, *last)}
    if of_given(rows):
        return [], used
    if not any(row.get(name) for row in rows for name, _ in accuracy):  # rewards may never reach the 1 of a right answer
        return [("Reward", "mean reward", (*reward, *last))], used
    if points(rows, "accuracy") in ((), points(rows, "reward")):
        return [("Reward and accuracy", "reward and accuracy", (*reward, *accuracy, *last))], used
    return [("Reward", "mean reward", (*reward, *last)), ("Accuracy", "share of right answers", accuracy)], used


def _below(rows: Metrics, lines: Lines) -> Lines:
    """Returns the lines.

    A name that ends in / is replaced by all metrics with this prefix. The label of each metric is the rest of its name.
    """
    found = []
    for metric, label in lines:
        if metric.endswith("/"):
            found += [(name, name.removeprefix(metric)) for name in dict.fromkeys(n for row in rows for n in row if n.startswith(metric))]
        else:
            found.append((metric, label))
    return tuple(found)


def _drawn(title: str, unit: str, series: Sequence[Series]) -> tuple[list[str], list[str]]:
    """Returns the figure. If all lines are constant, returns the text of `_still` in place of the figure."""
    series = united(series)
    flat = [s for s in series if len(s.points) > 1 and len({value for _, value in s.points}) == 1]
    if len(flat) < len(series):
        return [chart(title, series, unit=unit)], []
    return [], [_still(title, flat)] if flat else []


def _still(title: str, flat: Sequence[Series]) -> str:
    """Returns the text that replaces a figure if all its lines are constant."""
    if len(flat) == 1:
        return f"{title} {told(flat[0].points[0][1])}"
    return f"{title} ({', '.join(f'{s.name} {told(s.points[0][1])}' for s in flat)})"


def _series(rows: Metrics, lines: Lines) -> list[Series]:
    return [Series(label, points(rows, name), name.startswith("held_out/"), spans(rows) if name == SPANNED else ()) for name, label in lines]


def spans(rows: Metrics) -> tuple[tuple[int, float, float], ...]:
    """Returns (step, low, high) for every held-out accuracy that has a 95 % interval."""
    ends = ((row["step"], row.get("held_out/low"), row.get("held_out/high")) for row in rows)
    return tuple((step, low, high) for step, low, high in ends if low is not None and high is not None)


def points(rows: Metrics, name: str) -> tuple[tuple[int, float], ...]:
    """Returns (step, value) for each value of a metric."""
    return tuple((row["step"], row[name]) for row in rows if row.get(name) is not None)
