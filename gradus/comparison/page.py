"""The page of a comparison: one HTML file with the result sentence, the curves, the tables and the changes of each recipe.

The page needs no other file.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from gradus.comparison.experiment import Experiment
from gradus.lab.atomic_files import write
from gradus.lab.bars import intervals
from gradus.lab.curves import Series, chart
from gradus.lab.live import duration, number
from gradus.lab.page_parts import policy, script, style
from gradus.lab.page_text import clean, table, tree
from gradus.recipe.differences import differences, told
from gradus.types import UserError

NAME = "report.html"
_PAGE = Path(__file__).with_name("page.html")
MANY = 10  # if a table has more pairs, it is folded
_GRID = 21  # points of a mean curve


def write_page(folder: Path, document: Mapping[str, Any]) -> Path:
    """Writes report.html of a comparison (`Comparison.document`) into its folder. Returns its path."""
    experiment = Experiment.read(document["experiment"])
    page = Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=escaped(title_of(experiment)),
        policy=policy(),
        style=style(),
        script=script(),
        about=escaped(about(experiment)),
        says=escaped(document["says"]),
        notes="".join(f'<p class="note">{escaped(note)}</p>' for note in document["notes"]),
        curves=chart(_score(experiment), series(document), axis=experiment.budget.unit, unite=False) + _finals(document),
        arms=rows(*arm_rows(document)),
        pairs=_pairs(document),
        tokens=rows(*token_rows(document)),
        first=escaped(experiment.arms[0].name),
        changes="".join(f"<details><summary>{escaped(name)}</summary><pre>{escaped(told)}</pre></details>" for name, told in changed(experiment)),
        terms=table(tree(document["experiment"])),
    )
    write(folder / NAME, page.encode("utf-8", "replace"), synced=False)
    return folder / NAME


def escaped(text: str) -> str:
    """User text as HTML, without control characters."""
    return html.escape(clean(text))


def title_of(experiment: Experiment) -> str:
    """The title: the arms and the task. The arms are shown by name if the names fit into a line, else by their number."""
    names, task = [arm.name for arm in experiment.arms], Path(experiment.ground or experiment.task or "the default task").stem
    told = " against ".join(names) if len(names) == 2 else ", ".join(names)
    return f"{told if len(told) <= 50 else f'{len(names)} recipes'} on {task}"


def about(experiment: Experiment) -> str:
    """The terms in one line."""
    seeds = len(experiment.seeds)
    model = Path(experiment.model).name if experiment.model else "built-in model"
    examined = f"{experiment.problems} held-out problems, {experiment.samples} answers each"
    return f"{experiment.task or 'default task'} · {model} · {experiment.budget} · {seeds} seed{'s' * (seeds != 1)} · {examined}"


def _score(experiment: Experiment) -> str:
    return "Held-out accuracy" if experiment.measure != "reward" else "Held-out score"


def series(document: Mapping[str, Any]) -> list[Series]:
    """The mean curve of every arm over its seeds, with the band from the lowest to the highest seed."""
    amount = document["experiment"]["budget"][1]
    found = []
    for name, runs in document["runs"].items():
        curves = [run["curve"] for run in runs.values() if run is not None and run.get("curve")]
        if not curves:
            continue
        end = min(amount, max(curve[-1][0] for curve in curves)) or amount
        grid = np.linspace(0, end, _GRID)
        lines = np.stack([np.interp(grid, [p[0] for p in curve], [p[1] for p in curve]) for curve in curves])
        places = list(map(float, grid))
        points = tuple(zip(places, map(float, lines.mean(0))))
        band = tuple(zip(places, map(float, lines.min(0)), map(float, lines.max(0)))) if len(lines) > 1 else ()
        found.append(Series(name, points, spans=band, band=bool(band)))
    return found


def _finals(document: Mapping[str, Any]) -> str:
    """Final score of each arm with its interval."""
    found = [(arm["name"], arm["final"]) for arm in document["arms"] if arm["seeds"]]
    placed = [(name, final["mean"], final["low"], final["high"]) for name, final in found]
    return intervals(f"Final {document['measure']}", placed, about="mean, 95 % interval")


Rows = tuple[Sequence[str], Sequence[Sequence[str]]]


def arm_rows(document: Mapping[str, Any]) -> Rows:
    """Titles and cells of the table of arms, as text."""
    shows = document["experiment"]["shows"]
    right = ["accuracy"] if "accuracy" not in (document["measure"], *shows) and any(arm.get("accuracy") is not None for arm in document["arms"]) else []
    titles = ("recipe", f"final {document['measure']}", "", "±", *shows, *right, "best", "area", "length", "entropy", "steps", "tokens", "time", "memory")
    cells = []
    for arm in document["arms"]:
        if not arm["seeds"]:
            cells.append((arm["name"], "failed", *[""] * (len(titles) - 2)))
            continue
        times = list(document["times"].get(arm["name"], {}).values())
        final, best = arm["final"], arm["best"]
        cells.append(
            (
                arm["name"],
                number(final["mean"]),
                f"[{number(final['low'])}, {number(final['high'])}]",
                number(final["deviation"]),
                *(number(arm["shows"][name]["mean"]) for name in shows),
                *(number(arm[name]) for name in right),
                f"{number(best['mean'])} [{number(best['low'])}, {number(best['high'])}]",
                number(arm["area"]),
                number(arm["length"]),
                number(arm["entropy"]),
                f"{arm['spent']['steps']:,.0f}",
                f"{arm['spent']['tokens']:,.0f}",
                duration(float(np.mean([t["steps"] for t in times]))) if times else "-",
                f"{max(t['memory'] for t in times) / 2**30:.1f} GiB" if times else "-",
            )
        )
    return titles, cells


def pair_rows(document: Mapping[str, Any]) -> Rows:
    """Titles and cells of the table of pairs, as text."""
    titles = ("first", "second", "difference", "", "chance that the first is better", "p", "winner")
    cells = []
    for pair in document["pairs"]:
        bounds = "no interval" if pair["low"] is None else f"[{pair['low']:+.3f}, {pair['high']:+.3f}]"
        chance = "-" if pair["chance"] is None else f"{pair['chance']:.0%}"
        p = "-" if pair["corrected"] is None else f"{pair['corrected']:.2g}"
        cells.append((pair["a"], pair["b"], f"{pair['mean']:+.3f}", bounds, chance, p, pair["winner"] or "not clear"))
    return titles, cells


def _pairs(document: Mapping[str, Any]) -> str:
    """Every pair as a table, which is folded if it is long. For more than two arms, a square table of chances comes first."""
    if not document["pairs"]:
        return "<p>No pair has a finished run of one seed.</p>"
    every = f'<div class="wide">{rows(*pair_rows(document))}</div>'
    if len(document["pairs"]) > MANY:
        every = f"<details><summary>All {len(document['pairs'])} pairs</summary>{every}</details>"
    told = "Chance that the recipe of the row is better than the recipe of the column. Marked: significant, corrected for the number of pairs."
    square = f'<p>{told}</p><div class="wide">{_square(document)}</div>'
    return (square if len(document["pairs"]) > 1 else "") + every


def _square(document: Mapping[str, Any]) -> str:
    """The table of chances, row against column. If the difference is significant, the chance of the winner is marked."""
    names = [arm["name"] for arm in document["arms"] if arm["seeds"]]
    chance = {(pair["a"], pair["b"]): (pair["chance"], pair["winner"]) for pair in document["pairs"]}
    chance |= {(b, a): (None if c is None else 1 - c, winner) for (a, b), (c, winner) in chance.items()}
    head = "".join(f'<th class="number" title="{escaped(name)}">{n}</th>' for n, name in enumerate(names, start=1))
    body = []
    for n, name in enumerate(names, start=1):
        cells = [chance.get((name, other), (None, None)) for other in names]
        told = "".join(f'<td class="number{" won" if winner == name else ""}">{"" if c is None else f"{c:.0%}"}</td>' for c, winner in cells)
        body.append(f'<tr><td class="name">{n} {escaped(name)}</td>{told}</tr>')
    return f'<table class="plain"><tr><th></th>{head}</tr>{"".join(body)}</table>'


def token_rows(document: Mapping[str, Any]) -> Rows:
    """Titles and cells of the tokens of each arm by purpose, as text."""
    arms = [arm for arm in document["arms"] if arm["seeds"]]
    purposes = sorted({purpose for arm in arms for purpose in arm["tokens"]})
    return ("recipe", *purposes), [(arm["name"], *(f"{arm['tokens'].get(p, 0):,.0f}" for p in purposes)) for arm in arms]


def rows(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table of text in HTML. If all cells of a column begin with a digit, a sign or a bracket, it is a column of numbers."""
    kinds = ["name", *("number" if all(re.match(r"[\d\-+\[]|$", row[i]) for row in cells) else "" for i in range(1, len(titles)))]
    head = "".join(f'<th class="{kind}">{escaped(title)}</th>' for kind, title in zip(kinds, titles, strict=True))
    body = "".join("<tr>" + "".join(f'<td class="{kind}">{escaped(text)}</td>' for kind, text in zip(kinds, row, strict=True)) + "</tr>" for row in cells)
    return f'<table class="plain"><tr>{head}</tr>{body}</table>'


def changed(experiment: Experiment) -> list[tuple[str, str]]:
    """(arm, changes) for every arm except the first: the changes turn the first arm into this arm."""
    first = experiment.plan(experiment.arms[0], experiment.seeds[0]).recipe
    found = []
    for arm in experiment.arms[1:]:
        try:
            changes = differences(first, experiment.plan(arm, experiment.seeds[0]).recipe)
            found.append((arm.name, told(changes, experiment.arms[0].name, arm.name, room=120)))
        except UserError as error:
            found.append((arm.name, str(error)))
    return found
