"""Makes lists of recipes, tasks, commands and optional packages when a page is read. A line `<!-- generated: NAME -->` becomes the list."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from scripts import coverage, recipe_pages, reference_entries
from scripts.paper_tables import papers
from scripts.reference_pages import table


def tasks() -> str:
    """Every task of the index, with the built-in model made for it."""
    from gradus.policies.tiny import MADE_FOR, SOLVES
    from gradus.recipe import index

    fits = {
        task: [f"`{model}`, level {level}", f"{SOLVES[task][0]:.2f}", f"{SOLVES[task][1]:.2f}"]
        for model, tasks in MADE_FOR.items()
        for task, level in tasks.items()
    }
    rows = [[f"`{r['name']}`", r["about"].replace("<", "&lt;"), *fits.get(r["name"], ["", "", ""])] for r in index.read()["tasks"]]
    return table(["task", "description", "built-in model", "pass@1", "pass@16"], rows)


def commands() -> str:
    """The help of every command, from the parser."""
    os.environ["COLUMNS"] = "80"
    from gradus.cli.parser import build_parser

    parser, made = build_parser()
    helps = [("gradus", parser), *((f"gradus {name}", each) for name, each in made.items())]
    return "\n\n".join(f"## {name}\n\n```text\n{each.format_help().strip()}\n```" for name, each in helps)


def extras() -> str:
    """The optional packages and their purposes."""
    from gradus.cli.doctor import packages

    return table(["package", "purpose"], [[f"`{p['name']}`", p["for"]] for p in packages() if not p["needed"]])


GENERATED: dict[str, Callable[[], str]] = {"papers": papers, "tasks": tasks, "commands": commands, "extras": extras, "counts": coverage.says}


def fill(app: Any, page: str, source: list[str]) -> None:
    """Replaces the marked lines by their lists."""
    names = "|".join(GENERATED)
    text = re.sub(rf"^<!-- generated: ({names}) -->$", lambda found: GENERATED[found[1]](), source[0], flags=re.M)
    source[0] = reference_entries.filled(text)


def collapse(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """The sidebar of a page opens its own branch only. With all branches open, the time of a build grows with the square of the pages."""
    if (whole := context.get("toctree")) is not None:
        context["toctree"] = lambda **how: whole(**{**how, "collapse": True})


def setup(app: Any) -> dict[str, Any]:
    app.connect("html-page-context", collapse, priority=400)  # before the theme reads it
    app.connect("builder-inited", lambda app: recipe_pages.write())
    app.connect("source-read", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
