"""The section of a run's page about its workers: shares of time by step, ages of groups, queue, tokens per second and memory.

The numbers come from `workers.jsonl` (see `gradus.training.reporting`).
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradus.lab.bars import bars, stacked
from gradus.lab.curves import Series, chart
from gradus.lab.top import bottleneck, shares, together
from gradus.runtime.activity import (
    ACTIVITIES,
    ENVIRONMENT,
    EVALUATING,
    FOR_GROUPS,
    FOR_REQUESTS,
    JUDGING,
    OTHER,
    SAMPLING,
    SAVING,
    SCORING,
    TRAINER,
    UPDATING,
)

Rows = Sequence[Mapping[str, Any]]
_COLOURS = dict(zip((SAMPLING, JUDGING, SCORING, UPDATING, EVALUATING, ENVIRONMENT, OTHER, FOR_GROUPS, FOR_REQUESTS, SAVING), (0, 1, 2, 3, 4, 5, 6, 7, 7, 8)))
"""The number of the colour of each activity, equal in all figures. A worker waits either for groups or for requests."""
_MOST_STRETCHES = 200  # largest number of points of an area; more steps are added up in stretches
_MOST_AGES = 16  # largest number of bars; higher ages share the last bar
_QUEUE = (("waiting", "waiting"), ("running", "running"), ("finished", "finished"), ("dropped", "dropped so far"))


def workers(rows: Rows) -> str:
    """Returns the section; '' for a run without these numbers, such as a run of an older version."""
    spent = [row["seconds"] for row in rows]
    if not any(spent):
        return ""
    whole = {name: together(seconds.get(name, {}) for seconds in spent) for name in dict.fromkeys(name for seconds in spent for name in seconds)}
    figures = [
        times("Time of the trainer", rows, lambda name: name == TRAINER),
        times("Time of the other workers", rows, lambda name: name != TRAINER),
        ages(rows),
        chart("Queue at the end of the step", _queue(rows), unit="groups", unite=False),
        chart("Tokens per second", _speeds(rows), unit="tokens per second of the step", unite=False),
        chart("Memory of the process", [Series("memory", _memory(rows))], unit="GB"),
    ]
    return f'<h2>Workers</h2><p class="soft">{html.escape(bottleneck(whole))}</p><div class="curves">{"".join(figures)}</div>'


def times(title: str, rows: Rows, mine: Callable[[str], bool]) -> str:
    """Returns a figure of the shares of the activities by step; '' if no worker is chosen.

    `mine`: returns whether the worker with this name is chosen. The seconds of several workers are added up.
    """
    found = [(step, share) for step, seconds in stretches(rows, mine) if (share := shares(seconds))]
    shown = [name for name in ACTIVITIES if any(name in share for _, share in found)]
    parts = [Series(name, tuple((step, share.get(name, 0.0)) for step, share in found), place=_COLOURS[name]) for name in shown]
    return stacked(title, parts, unit="share of time")


def stretches(rows: Rows, mine: Callable[[str], bool], most: int = _MOST_STRETCHES) -> list[tuple[int, dict[str, float]]]:
    """Returns (first step, seconds by activity) for at most `most` stretches of steps. Each stretch has the same number of steps, except the last."""
    long = -(-len(rows) // most) or 1
    parts = [rows[i : i + long] for i in range(0, len(rows), long)]
    return [(part[0]["step"], together(spent for row in part for name, spent in row["seconds"].items() if mine(name))) for part in parts]


def ages(rows: Rows) -> str:
    """Returns a histogram of the ages of all groups; '' if no group has an age, because the run has no system that makes groups old."""
    counts: dict[int, int] = {}
    for row in rows:
        for age, count in row.get("ages", {}).items():
            counts[min(int(age), _MOST_AGES)] = counts.get(min(int(age), _MOST_AGES), 0) + count
    whole = sum(counts.values())
    if not whole:
        return ""
    places = range(max(counts) + 1)
    labels = [f"{age}+" if age == _MOST_AGES else str(age) for age in places]
    return bars("Age of the groups", labels, [("groups", [counts.get(age, 0) / whole for age in places])], axis="steps since the weights", unit="share")


def _queue(rows: Rows) -> list[Series]:
    known = [(row["step"], row["queue"]) for row in rows if row.get("queue")]
    return [Series(label, tuple((step, queue[name]) for step, queue in known if name in queue)) for name, label in _QUEUE]


def _speeds(rows: Rows) -> list[Series]:
    """Returns the tokens of each activity per second of the trainer's time in the step. Evaluations are left out, because they are rare."""
    points: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        over = sum(row["seconds"].get(TRAINER, {}).values())
        for name, tokens in row.get("tokens", {}).items():
            if over > 0:
                points.setdefault(name, []).append((row["step"], tokens / over))
    return [Series(name, tuple(points[name]), place=_COLOURS[name]) for name in ACTIVITIES if name in points and name != EVALUATING]


def _memory(rows: Rows) -> tuple[tuple[int, float], ...]:
    return tuple((row["step"], row["memory"] / 1e9) for row in rows if row.get("memory"))
