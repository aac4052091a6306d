"""The generated part of docs/papers.md: a table of recipes for each family, with papers and claims, and the systems that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradus.cli.coverage import Line, claimed, counts, covered, verdict
from gradus.comparison.claims import figure
from gradus.recipe.catalogue import BASES, System
from gradus.recipe.reference import reference_of
from scripts.reference_pages import plain, table

HEAD = ["method", "paper", "change to its base", "claim", "verdict here"]
NO_CLAIM = ["none stated", ""]


def papers() -> str:
    """The counts, a table for each family with recipes, and a folded list of the systems that wait for each family."""
    lines = [line for line in covered() if (line.recipe or {}).get("family") != "other"]
    families = sorted({line.recipe["family"] for line in lines if line.recipe is not None}, key=lambda name: (name != BASES, name))
    tables = [f"## {family}\n\n{table(HEAD, [row for line in lines if _in(family, line) for row in rows(line)])}" for family in families]
    waiting = [line.system for line in lines if line.recipe is None and line.system is not None]
    return "\n\n".join([f"{counts(lines)}. {claimed(lines)}.", *tables, "## Systems that wait", *folded(waiting)])


def _in(family: str, line: Line) -> bool:
    return line.recipe is not None and line.recipe["family"] == family


def rows(line: Line) -> Iterator[list[str]]:
    """The row of a recipe with its first claim, and a row for each further claim."""
    assert line.recipe is not None
    claims = [[plain(of.claim.says), f"{verdict(of)} {figure(of)}".strip()] for of in line.claims] or [NO_CLAIM]
    recipe = line.recipe
    base = f"`{recipe['base']}`: " if recipe["base"] else ""
    yield [f"`{recipe['key']}`", paper(recipe), f"{base}{plain(recipe['about'])}", *claims[0]]
    yield from (["", "", "", *claim] for claim in claims[1:])


def paper(recipe: Mapping[str, Any]) -> str:
    """Authors, year, and a link to the paper or its venue."""
    found = reference_of(recipe["key"])[1]
    assert found is not None
    link = f"[{found.arxiv}](https://arxiv.org/abs/{found.arxiv})" if found.arxiv else f"{found.venue} {found.year}"
    return f"{found.authors}, {found.year}, {link}"


def folded(waiting: Sequence[System]) -> Iterator[str]:
    """For each family a folded list of its systems, each with the missing part, task or policy."""
    for family in dict.fromkeys(system.family for system in waiting):
        found = [system for system in waiting if system.family == family]
        items = [f"- `{system.key}`: {plain(system.title)} ({system.year}). Waits for {plain(system.waits)}." for system in found]
        yield "\n".join([f"<details><summary>{family}: {len(found)}</summary>", "", *items, "", "</details>"])
