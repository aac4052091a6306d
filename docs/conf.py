"""The configuration of Sphinx. Lists of recipes, tasks and commands are made when a page is read; no generated file is in the tree."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
from collections.abc import Callable
from typing import Any

import gradus

project = "Gradus"
author = "The Gradus developers"
copyright = author  # Sphinx reads this name
version = release = gradus.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
smartquotes = False  # an option keeps its two hyphens
html_theme = "furo"
html_title = f"Gradus {version}"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def papers() -> str:
    """Every recipe of the index with its paper, one table per family."""
    from gradus.cli.cite import reference_of
    from gradus.recipe import index

    rows = [row for row in index.read()["recipes"] if row["family"] != "other"]
    parts = []
    for family in sorted({row["family"] for row in rows}, key=lambda name: (name != "bases", name)):
        lines = []
        for row in (row for row in rows if row["family"] == family):
            paper = reference_of(row["key"])[1]
            assert paper is not None
            link = f"[{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})" if paper.arxiv else f"{paper.venue} {paper.year}"
            lines.append(
                [f"`{row['key']}`", f"`{row['base']}`" if row["base"] else "", row["about"], f"{paper.authors}, {paper.year}, {link}"]
            )
        parts.append(f"## {family}\n\n{table(['recipe', 'base', 'description', 'paper'], lines)}")
    return "\n\n".join(parts)


def parts() -> str:
    """The parts for each field of a recipe, with the first line of their docstrings."""
    from gradus.objectives import aggregation, ratios, terms, trust
    from gradus.recipe.overrides import part_modules, parts_like
    from gradus.types import parts as protocols

    places = {"curriculum": protocols.Curriculum, "rollout": protocols.Rollout, "reward": protocols.Reward}
    places |= {"selection": protocols.Selection, "credit": protocols.Credit, "objective.TERM": terms.Term}
    places |= {"objective.policy.ratio": ratios.Ratio, "objective.policy.trust": trust.Trust}
    places |= {"objective.policy.weight": terms.Weight, "objective.policy.average": aggregation.Average}
    text = []
    for place, protocol in places.items():
        rows = []
        for name in parts_like(protocol):
            module = part_modules()[name]
            doc = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
            split = re.split(r"(`[^`]+`)", doc.partition("\n")[0])
            rows.append([f"`{name}`", "".join(s if i % 2 else re.sub(r"([<*_\\[\]])", r"\\\1", s) for i, s in enumerate(split))])
        text.append(f"## {place}\n\n{table(['part', 'description'], rows)}")
    return "\n\n".join(text)


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
    os.environ["COLUMNS"] = "100"
    from gradus.cli.parser import build_parser

    parser, made = build_parser()
    helps = [("gradus", parser), *((f"gradus {name}", each) for name, each in made.items())]
    return "\n\n".join(f"## {name}\n\n```text\n{each.format_help().strip()}\n```" for name, each in helps)


def extras() -> str:
    """The optional packages and their purposes."""
    from gradus.cli.doctor import packages

    return table(["package", "purpose"], [[f"`{p['name']}`", p["for"]] for p in packages() if not p["needed"]])


GENERATED: dict[str, Callable[[], str]] = {"papers": papers, "parts": parts, "tasks": tasks, "commands": commands, "extras": extras}


def fill(app: Any, page: str, source: list[str]) -> None:
    """Replaces every line `<!-- generated: NAME -->` by the generated text."""
    source[0] = re.sub(r"^<!-- generated: (\w+) -->$", lambda found: GENERATED[found[1]](), source[0], flags=re.M)


def with_fields(obj: Any, lines: list[str]) -> None:
    """Appends the fields of a dataclass with the comments of their source lines."""
    from gradus.cli.source_lines import comment_of

    for field in dataclasses.fields(obj):
        if comment := comment_of(obj, field.name):
            lines += ["", f"`{field.name}`: {comment}"]


def as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turns a docstring into reStructuredText: it is plain text with `code` in single backticks, and its formulas are not markup."""
    if what == "class" and dataclasses.is_dataclass(obj):
        with_fields(obj, lines)
    for index, line in enumerate(lines):
        parts = re.split(r"(`[^`]+`)", line)
        plain = [part if i % 2 else re.sub(r"([*|_\\])", r"\\\1", part) for i, part in enumerate(parts)]
        lines[index] = "".join(f"``{part[1:-1]}``" if i % 2 else part for i, part in enumerate(plain))


def setup(app: Any) -> None:
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", as_rst)
