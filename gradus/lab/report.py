"""The report of a run as one HTML page without other files: results, curves, answers, recipe and provenance."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from gradus.lab import overview
from gradus.lab.atomic_files import room, write
from gradus.lab.figures import curves, of_given
from gradus.lab.folder import ROLLOUTS, RunFolder
from gradus.lab.live import title_of
from gradus.lab.page_parts import command_block, policy, script, style
from gradus.lab.page_text import clean, table, tree
from gradus.lab.repeat import commands
from gradus.lab.reward_shares import distributions
from gradus.lab.samples import answers
from gradus.lab.workers_page import workers

NAME = "report.html"
_TEMPLATE = Path(__file__).with_name("report.html")
_FAILURES = 5000  # largest number of answers without a reward whose reasons are counted


def write_report(run: RunFolder | Path | str) -> Path:
    """Writes `report.html` into the folder of a finished or running run. Returns its path."""
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    recipe, metrics, provenance = folder.recipe(), folder.metrics(), folder.provenance()
    method = recipe.get("recipe", recipe)
    title = clean(title_of(str(method.get("key") or ""), str(recipe.get("task") or ""))) or folder.path.name
    failed = folder.quarantine(_FAILURES + 1)
    page = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        policy=policy(),
        style=style(),
        script=script(),
        title=html.escape(title),
        about=html.escape(clean(str(method.get("about") or ""))),
        began=" · ".join(_facts(recipe, provenance)),
        command=command_block(commands(provenance)),
        tiles=overview.tiles(metrics, folder.timings(), _planned(method)),
        curves=curves(metrics, folder.timings()),
        distributions="" if of_given(metrics) else distributions(folder.path / ROLLOUTS),
        workers=workers(folder.work()),
        failures=overview.failures(failed[:_FAILURES], len(failed) > _FAILURES),
        answers=answers(folder.path, folder.path / ROLLOUTS, metrics),
        recipe=table(tree(recipe)),
        provenance=table(tree(provenance)),
    )
    target = folder.path / NAME
    with room(folder.path, NAME):
        write(target, page.encode("utf-8", "replace"), synced=False)
    return target


def _planned(method: Mapping[str, Any]) -> int | None:
    """Returns the number of steps that a run plans; None for a run with stages, because each stage has its own end."""
    staged = "stages" in (method.get("schedule") or {})
    return None if staged else (method.get("setting") or {}).get("steps")


def _began(provenance: Mapping[str, Any]) -> list[str]:
    """Returns the time of the run's start, and the steps of its resumes."""
    began, resumed = _time(str(provenance.get("started") or "")), provenance.get("resumed") or []
    steps = ", ".join(str(entry.get("step")) for entry in resumed[:10])
    more = f"resumed at step {steps}{' and later' if len(resumed) > 10 else ''}" if resumed else ""
    return [part for part in (f"started {began}" if began else "", more) if part]


def _facts(recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[str]:
    """Returns as HTML: the seed, the model without its folder, the device, the start and the version, each with its name."""
    model = recipe.get("model")
    named = {name: str(recipe[name]) for name in ("seed", "device") if name in recipe}
    named |= {"model": Path(str(model)).name or str(model)} if model else {"model": "built-in"} if "model" in recipe else {}
    versions = provenance.get("versions") or {}
    named |= {"Gradus": str(versions["gradus"])} if "gradus" in versions else {}
    yield from (f"{name} <b>{html.escape(clean(value))}</b>" for name, value in named.items())
    yield from (html.escape(clean(part)) for part in _began(provenance))


def _time(text: str) -> str:
    """Turns "2026-01-31T09:30:59+00:00" into "2026-01-31 09:30 UTC". Text of another form does not change."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?\+00:00", text)
    return f"{match[1]} {match[2]} UTC" if match else text
