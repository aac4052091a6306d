"""The result of a race as a document, as sentences and tables, and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

from gradus.comparison.experiment import Experiment, folder_name
from gradus.comparison.page import Rows, about, escaped, rows
from gradus.comparison.race import PILOT, RUNS, amount_of, counted, shown_amount, spent_in
from gradus.comparison.rungs import Outcome, Rung, runs_of
from gradus.comparison.winner import FILE, commands, source_of
from gradus.lab.atomic_files import write
from gradus.lab.curves import Series, chart
from gradus.lab.live import duration, number
from gradus.lab.page_parts import policy, script, style
from gradus.lab.page_text import table, tree
from gradus.runtime.tables import table as rows_of_text
from gradus.runtime.terminal import paragraph

PAGE = "report.html"
LINES = 8  # curves of the page
_TEMPLATE = Path(__file__).with_name("race.html")

Results = Mapping[tuple[str, int, int], Mapping[str, Any]]


def announced(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines at the start of a race: contestants, rungs, runs, and the estimate of time."""
    plan, misfits = [Rung(*rung) for rung in document["rungs"]], len(document["misfits"])
    recipes = len({arm["recipe"] for arm in document["contestants"]})
    lack = f"; {counted(misfits, 'further recipe')} {'does' if misfits == 1 else 'do'} not fit this task or model" if misfits else ""
    yield f"{counted(len(document['contestants']), 'contestant')} of {counted(recipes, 'recipe')}{lack}"
    unit, full = document["asked"]["budget"][0], document["full"]
    lengths = [shown_amount(unit, amount_of(unit, rung.share * full)) for rung in plan]
    told = [f"{rung.arms}{f' x {rung.seeds} seeds' * (rung.seeds > 1)} to {length}" for rung, length in zip(plan, lengths, strict=True)]
    left = f"; about {duration(document['times']['estimate'])}" if "estimate" in document["times"] else ""
    yield f"{counted(len(plan), 'rung')}, {counted(runs_of(plan), 'run')} begun or continued at most: {', '.join(told)}{left}"


def concluded(document: Mapping[str, Any], outcome: Outcome, experiment: Experiment, folder: Path, results: Results) -> dict[str, Any]:
    """The result as plain values. Writes the winner's recipe and the page."""
    amounts = document["amounts"]
    held = [
        {"amount": amounts[i], "seeds": document["rungs"][i][1], "scores": dict(v.scores), "order": list(v.order), "kept": list(v.kept)}
        for i, v in enumerate(outcome.verdicts)
    ]
    found: dict[str, Any] = {
        "held": held,
        "left": list(outcome.left),
        "lost": [asdict(loss) for loss in outcome.lost],
        "winner": outcome.winner,
        "spent": {unit: spent_in([*(folder / PILOT).glob("*"), *(folder / RUNS).glob("*")], unit) for unit in ("steps", "tokens", "rollouts")},
        "notes": notes(outcome, results),
        "commands": [],
    }
    if outcome.winner is not None:
        arm = next(arm for arm in experiment.arms if arm.name == outcome.winner)
        write(folder / FILE, source_of(experiment, arm, folder).encode())
        run = folder / RUNS / folder_name(arm, experiment.seeds[0])
        found["commands"] = list(commands(experiment, folder, run, whole=amounts[len(held) - 1] >= document["full"]))
    found["says"] = sentence(document, found)
    write_page(folder, {**document, **found}, experiment)
    return found


def notes(outcome: Outcome, results: Results) -> list[str]:
    """Sentences about weaknesses of the result."""
    told = []
    if outcome.spent:
        told.append("the budget ended the race before its last rung")
    if outcome.winner is not None:
        told.append("the winner's score is a little too high, because the same problems chose the winner; to measure it again, use gradus compare with other seeds")
    if any("final" in run and not run["final"]["fresh"] for run in results.values()):
        told.append("the task has too few held-out problems: the examination also uses the problems that chose the best weights of a run")
    return told


def sentence(document: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The sentence of the result: the winner, the length of the runs, the rivals, and the certainty."""
    winner, measure, unit = found["winner"], document["asked"]["experiment"]["measure"], document["asked"]["budget"][0]
    if winner is None:
        return "No contestant is left: every run failed."
    if not found["held"]:
        return f"No rung was finished within the budget, so the race has no result; {winner} is only the first in the list."
    last = found["held"][-1]
    seeds = f" over {last['seeds']} seeds" if last["seeds"] > 1 else ", with one seed,"
    told = f"{winner} wins among {counted(len(document['contestants']), 'contestant')}: {measure} {number(last['scores'][winner])} after "
    told += f"{shown_amount(unit, last['amount'])}{seeds}".removesuffix(",") + "."
    rivals = [loss for loss in found["lost"] if loss["rung"] == len(found["held"]) and loss["behind"] is not None]
    if rivals:
        rival = min(rivals, key=lambda loss: loss["place"])
        told += f" In the last rung {rival['name']} is {_behind(rival)}"
        told += "." if rival["low"] is not None and rival["low"] > 0 else ", so it is not clear which of the two is better."
    if len(found["left"]) > 1:
        told += f" The difference to these is not clear yet: {', '.join(found['left'][1:])}."
    return told


def _behind(loss: Mapping[str, Any]) -> str:
    bounds = "" if loss["low"] is None else f" [{number(loss['low'])}, {number(loss['high'])}]"
    return f"{number(loss['behind'])}{bounds} behind"


def standing_rows(document: Mapping[str, Any]) -> Rows:
    """Titles and cells of the table of contestants as text. The winner comes first; the contestant that lost first comes last."""
    unit, held = document["asked"]["budget"][0], document["held"]
    titles = ("contestant", "rung", "place", document["asked"]["experiment"]["measure"], f"after {unit}", "behind the leader", "reason")
    cells = []
    for place, name in enumerate(document["left"], start=1):
        score = number(held[-1]["scores"][name]) if held else "-"
        reason = "winner" if place == 1 else "left when the budget was spent"
        cells.append((name, str(len(held)), str(place), score, _amount(held, len(held)), "", reason))
    for loss in document["lost"]:
        stood = "-" if loss["place"] is None else str(loss["place"])
        behind = "" if loss["behind"] is None else _behind(loss).removesuffix(" behind")
        against = "" if loss["against"] is None else f" ({loss['against']})"
        cells.append((loss["name"], str(loss["rung"]), stood, number(loss["score"]), _amount(held, loss["rung"]), behind, f"{loss['reason']}{against}"))
    return titles, cells


def _amount(held: Sequence[Mapping[str, Any]], rung: int) -> str:
    return f"{held[rung - 1]['amount']:,.6g}" if rung else "-"


def misfit_rows(document: Mapping[str, Any]) -> Rows:
    """Titles and cells of the table of recipes that do not fit, as text."""
    return ("recipe", "lacks"), [(misfit["recipe"], misfit["lacks"]) for misfit in document["misfits"]]


def rung_rows(document: Mapping[str, Any]) -> Rows:
    """Titles and cells of the table of finished rungs, as text."""
    unit = document["asked"]["budget"][0]
    cells = [(str(len(rung["order"])), str(rung["seeds"]), shown_amount(unit, rung["amount"]), str(len(rung["kept"]))) for rung in document["held"]]
    return ("rung", "contestants", "seeds", "length", "stay"), [(str(place), *row) for place, row in enumerate(cells, start=1)]


def told(document: Mapping[str, Any], folder: Path) -> str:
    """The result of a race as text: the contestants, the misfits, the notes, the sentence and the next commands."""
    titles, cells = standing_rows(document)
    parts = [rows_of_text(cells, titles)]
    if document["misfits"]:
        parts.append("\n".join(["these do not fit:", *(paragraph(f"{name}: {reason}", "    ", "  ") for name, reason in misfit_rows(document)[1])]))
    parts += [paragraph(f"note: {note}") for note in document["notes"]]
    spent = document["spent"]
    parts.append(paragraph(f"spent: {', '.join(f'{amount:,.0f} {unit}' for unit, amount in spent.items())}, {duration(document['times']['used'])}"))
    parts.append(paragraph(document["says"]))
    if document["winner"] is not None:
        parts.append("\n".join([f"winner: {folder / FILE}", *(f"next: {line}" for line in document["commands"]), f"page: {folder / PAGE}"]))
    return "\n\n".join(parts)


def series(document: Mapping[str, Any]) -> list[Series]:
    """The curves of score by run length, for at most `LINES` of the best contestants."""
    order = [*document["left"], *(loss["name"] for loss in document["lost"] if loss["score"] is not None)][:LINES]
    held = document["held"]
    return [Series(name, tuple((rung["amount"], rung["scores"][name]) for rung in held if name in rung["scores"])) for name in order]


def write_page(folder: Path, document: Mapping[str, Any], experiment: Experiment) -> Path:
    """Writes report.html. Returns its path."""
    page = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escaped(f"Race of {counted(len(document['contestants']), 'contestant')}"),
        policy=policy(),
        style=style(),
        script=script(),
        about=escaped(about(experiment)),
        says=escaped(document["says"]),
        notes="".join(f'<p class="note">{escaped(note)}</p>' for note in document["notes"]),
        commands=escaped("\n".join(document["commands"])),
        curves=chart(f"Held-out {experiment.measure} at the end of each rung", series(document), axis=experiment.budget.unit, unite=False),
        standing=rows(*standing_rows(document)),
        rungs=rows(*rung_rows(document)),
        misfits=rows(*misfit_rows(document)) if document["misfits"] else "<p>All recipes fit.</p>",
        terms=table(tree({name: value for name, value in document["asked"]["experiment"].items() if name != "arms"})),
    )
    write(folder / PAGE, page.encode("utf-8", "replace"), synced=False)
    return folder / PAGE
