"""One page for several runs.

The page has a table of the runs' results, their curves on common axes, the settings that differ, and the commands that repeat the runs.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from gradus.lab.atomic_files import write
from gradus.lab.curves import Series, chart, colour
from gradus.lab.figures import GROUPS, INTERVAL, SPANNED, points, spans, timed
from gradus.lab.folder import RunFolder
from gradus.lab.live import duration, title_of
from gradus.lab.page_parts import command_block, policy, script, style
from gradus.lab.page_text import clean, shown, tree
from gradus.lab.repeat import commands
from gradus.types import UserError, unknown

AXES = {"steps": "step", "tokens": "tokens sampled", "seconds": "seconds in steps"}
"""The unit of the horizontal axis -> the name of the axis."""

_PAGE = Path(__file__).with_name("runs.html")
_MARK = '<meta name="generator" content="Gradus">'
_FIRST = (
    ("Held-out accuracy", "share of right answers", SPANNED),
    ("Held-out reward", "mean reward", "held_out/reward"),
    ("Reward", "mean reward", "reward"),
    ("Accuracy", "share of right answers", "accuracy"),
    ("Held-out greedy accuracy", "share of right answers", "held_out/greedy"),
)
_ROWS = 200  # largest number of rows of the table of differences


@dataclass(frozen=True)
class Curves:
    """The data of a run for the page: its name, stored plan, provenance, metrics with timings, and the horizontal coordinate of each step."""

    name: str
    plan: Mapping[str, Any]
    provenance: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    places: Mapping[int, float]

    def series(self, metric: str, place: int) -> Series:
        """Returns the series of a metric along the axis. The run's number determines the colour."""
        along = tuple((self.places[step], value) for step, value in points(self.rows, metric))
        ends = tuple((self.places[step], low, high) for step, low, high in spans(self.rows)) if metric == SPANNED else ()
        return Series(self.name, along, metric.startswith("held_out/"), ends, place=place)


def write_runs_page(runs: Sequence[Path | str], target: Path | str, by: str = "steps") -> Path:
    """Writes a page that compares finished or running runs. Returns its path.

    Args: by: the unit of the horizontal axis: "steps", "tokens" (sampled tokens) or "seconds" (time in steps). Raises: UserError for fewer than two runs, an
    unknown `by`, or an existing target that is not a page of Gradus.
    """
    if by not in AXES:
        raise unknown("axis", by, AXES, "Give it with --by")
    if len(runs) < 2:
        raise UserError("a comparison needs two runs or more; give their folders")
    target = Path(target)
    if target.exists() and (target.is_dir() or _MARK not in target.read_text(encoding="utf-8", errors="replace")[:1000]):
        raise UserError(f"{target} exists already and is not a page of Gradus; name another file with --out")
    if target.suffix != ".html":
        raise UserError(f"--out is {target}; name a file that ends in .html")
    opened = [_opened(folder, name, by) for folder, name in zip(map(RunFolder.open, runs), names([Path(run) for run in runs]), strict=True)]
    main, further = _charts(opened, AXES[by])
    titles = list(dict.fromkeys(title_of(str((one.plan.get("recipe") or {}).get("key") or ""), str(one.plan.get("task") or "")) for one in opened))
    page = Template(_PAGE.read_text(encoding="utf-8")).substitute(
        policy=policy(),
        style=style(),
        script=script(),
        title=html.escape(clean(f"{len(opened)} runs: {', '.join(titles[:4])}{' and others' if len(titles) > 4 else ''}")),
        results=_results(opened),
        curves=f'<div class="curves">{"".join(main)}</div>' if main else '<p class="soft">No step is done yet.</p>',
        further=f'<details><summary>Further metrics ({len(further)})</summary><div class="curves small">{"".join(further)}</div></details>' if further else "",
        differences=_differences(opened),
        commands="".join(_repeated(one, i) for i, one in enumerate(opened)),
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, page.encode("utf-8", "replace"), synced=False)
    return target


def names(paths: Sequence[Path]) -> list[str]:
    """Returns a name for each path. A name is the end of a path. All names have the same number of parts: the smallest number that makes all names different.
    Equal paths get numbers after their last part.

    >>> names([Path("a/run"), Path("b/run")])
    ['a/run', 'b/run']
    """
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        short = ["/".join(each[-length:]) for each in parts]
        if len(set(short)) == len(short):
            return short
    return [f"{path.name} ({i + 1})" for i, path in enumerate(paths)]


def _opened(folder: RunFolder, name: str, by: str) -> Curves:
    rows = timed(folder.metrics(), folder.timings())
    spent = {"steps": lambda row: 0.0, "tokens": lambda row: row.get("tokens/rollout") or 0, "seconds": _seconds}[by]
    ends = list(itertools.accumulate((float(spent(row)) for row in rows), initial=0.0))
    places = {int(row["step"]): float(row["step"]) if by == "steps" else before for row, before in zip(rows, ends)}
    return Curves(name, folder.recipe(), folder.provenance(), rows, places)


def _seconds(row: Mapping[str, Any]) -> float:
    return sum(value for name, value in row.items() if name.startswith("seconds/"))


def _charts(opened: Sequence[Curves], axis: str) -> tuple[list[str], list[str]]:
    """Returns the charts of the metrics that reports show first, and the charts of all other metrics."""
    logged = list(dict.fromkeys(name for one in opened for row in one.rows for name, value in row.items() if isinstance(value, (int, float))))
    known = [(title, unit, metric) for title, unit, metric in _FIRST]
    for _, figures in GROUPS:
        for figure in figures:
            several = sum(any(name.startswith(metric) if metric.endswith("/") else name == metric for name in logged) for metric, _ in figure.lines) > 1
            for metric, label in figure.lines:
                for name in logged if metric.endswith("/") else [metric]:
                    if name == metric or (metric.endswith("/") and name.startswith(metric)):
                        told = label or name.removeprefix(metric)
                        known.append((f"{figure.title}: {told}" if several or not label else figure.title, figure.unit, name))
    used = {metric for *_, metric in known} | set(INTERVAL)
    others = [(name, "", name) for name in sorted(set(logged) - used)]
    return _drawn(opened, known, axis), _drawn(opened, others, axis)


def _drawn(opened: Sequence[Curves], metrics: Sequence[tuple[str, str, str]], axis: str) -> list[str]:
    """Returns a chart for each (title, unit, metric) that changes within a run or differs between runs.

    Metrics with equal values share one chart.
    """
    alike: dict[tuple[Any, ...], list[str]] = {}
    found: dict[tuple[Any, ...], tuple[str, list[Series]]] = {}
    for title, unit, metric in metrics:
        series = [one.series(metric, place) for place, one in enumerate(opened)]
        values = tuple(one.points for one in series)
        if len({value for each in values for _, value in each}) > 1:
            alike.setdefault(values, []).append(title)
            found.setdefault(values, (unit, series))
    return [
        chart(" = ".join([titles[0], *(title[0].lower() + title[1:] for title in titles[1:])]), found[values][1], axis=axis, unit=found[values][0], unite=False)
        for values, titles in alike.items()
    ]


def _results(opened: Sequence[Curves]) -> str:
    """Returns the table of results, one row for each run."""
    head = "".join(f"<th>{name}</th>" for name in ("run", "recipe", "task", "seed", "steps", "tokens", "time", "held-out accuracy", "held-out reward", "reward"))
    body = "".join(f"<tr>{''.join(_cells(one, place))}</tr>" for place, one in enumerate(opened))
    return f'<div class="wide"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(one: Curves, place: int) -> Iterator[str]:
    recipe = one.plan.get("recipe") or {}
    yield f'<td class="name"><span class="mark" {colour(place)}></span>{shown(one.name, 120)}</td>'
    for text in (str(recipe.get("key") or ""), title_of("", str(one.plan.get("task") or ""))):
        yield f"<td>{shown(text, 120)}</td>"
    steps = sum("reward" in row for row in one.rows)
    tokens = sum(row.get("tokens/rollout") or 0 for row in one.rows)
    seconds = sum(map(_seconds, one.rows))
    for number in (str(one.plan.get("seed", "")), f"{steps:,}", f"{tokens:,}", duration(seconds), *_last(one.rows)):
        yield f'<td class="number">{shown(number, 60)}</td>'


def _last(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the last held-out accuracy with its interval, the last held-out reward, and the last reward. A missing value becomes a dash."""
    for name in (SPANNED, "held_out/reward", "reward"):
        row = next((row for row in reversed(rows) if row.get(name) is not None), None)
        ends = (row.get("held_out/low"), row.get("held_out/high")) if row is not None and name == SPANNED else (None, None)
        bounds = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if None not in ends else ""
        yield f"{row[name]:.3f}{bounds}" if row is not None else "-"


def differing(plans: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Yields (dotted path, text in each plan) for every value that differs between stored plans; "" if a plan lacks the value."""
    found = [dict(_paths(plan)) for plan in plans]
    order = dict.fromkeys(path for each in found for path in each)
    rows = [(path, [each.get(path, "") for each in found]) for path in order]
    return [(path, texts) for path, texts in rows if len(set(texts)) > 1]


def _paths(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    where: list[str] = []
    for depth, name, text in tree(plan):
        where[depth:] = [name]
        yield ".".join(where).removeprefix("recipe."), text.strip()


def _differences(opened: Sequence[Curves]) -> str:
    rows = differing([one.plan for one in opened])
    if not rows:
        return '<p class="soft">All runs have the same recipe, task, model and seed.</p>'
    head = "<th>field</th>" + "".join(f"<th>{shown(one.name, 60)}</th>" for one in opened)
    body = "".join(f'<tr><td class="name">{shown(path, 200)}</td>{"".join(f"<td>{shown(text, 200)}</td>" for text in texts)}</tr>' for path, texts in rows[:_ROWS])
    more = f'<p class="soft">{len(rows) - _ROWS:,} more fields differ.</p>' if len(rows) > _ROWS else ""
    return f'<div class="wide"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def _repeated(one: Curves, place: int) -> str:
    block = command_block(commands(one.provenance), f"command-{place}")
    return f'<h3><span class="mark" {colour(place)}></span>{shown(one.name, 120)}</h3>{block}' if block else ""
