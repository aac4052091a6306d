"""The output of `gradus papers`, `tasks`, `show` and `diff`. The first two read an index and import no heavy module."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradus.recipe import index
from gradus.tasks.packages import PACKAGES, names_of

if TYPE_CHECKING:
    from gradus.recipe.tree import Node

PATHS = (
    "Set a field by its path, the names joined with dots: --players.policy.every 2. A field of the setting needs its name alone: --group 4."
)
"""How the tree of a recipe names its fields."""


def papers(family: str | None = None, search: str | None = None, *, as_json: bool = False) -> str:
    """The recipes of a family (None: all) with `search` in their key, base or description. Raises: UserError for an unknown family."""
    rows = index.read()["recipes"]
    families = sorted({row["family"] for row in rows})
    if family is not None and family not in families:
        from gradus.types.errors import unknown

        raise unknown("family", family, families)
    word = (search or "").lower()
    found = [r for r in rows if family in (None, r["family"]) and word in f"{r['key']} {r.get('base') or ''} {r['about']}".lower()]
    if as_json:
        return json.dumps(found, indent=1)
    if not found:
        return f'no recipe has "{search}" in its name or description{f"; family {family}" if family else ""}'
    return listing([(r["key"], r.get("base") or "", r["family"], r["about"]) for r in found], ("recipe", "base", "family", "description"))


def tasks(package: str | None = None, *, as_json: bool = False) -> str:
    """The named tasks and a line about the other kinds of task, or the names of a package's tasks. Raises UserError for an unknown package."""
    if package is not None:
        names = [f"{package}:{name}" for name in names_of(package)]
        return json.dumps(names, indent=1) if as_json else "\n".join(names)
    rows = index.read()["tasks"]
    if as_json:
        return json.dumps(rows, indent=1)
    rows += [{"name": f"{name}:NAME", "about": about} for name, about in PACKAGES.items()]
    others = "a task can also be a file of problems (.jsonl, .parquet, .csv), file.py:task, a data set owner/name, or a mixture a:3,b:1"
    return f"{listing([(row['name'], row['about']) for row in rows], ('task', 'description'))}\n\n{others}"


def listing(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """Aligned columns, the last one wrapped to the width of the terminal."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    indent = sum(widths) + 2 * len(widths)
    room = max(shutil.get_terminal_size((120, 24)).columns - indent, 30)
    lines = []
    for row in [head, *rows]:
        wrapped = textwrap.wrap(row[-1], room) or [""]
        start = "".join(cell.ljust(width + 2) for cell, width in zip(row, widths, strict=False))
        lines += [start + wrapped[0], *(" " * indent + line for line in wrapped[1:])]
    return "\n".join(line.rstrip() for line in lines)


def show(name: str) -> str:
    """A recipe as text: its description, its changes to its base, its method and its setting as trees."""
    from gradus.recipe import registry
    from gradus.recipe.core import NAMES
    from gradus.recipe.differences import differences
    from gradus.recipe.tree import INDENT, lines, node
    from gradus.schedules.stages import Stages

    recipe = registry.recipe(name)
    base = f"base: {recipe.base}; " if recipe.base else ""
    needs = f"; needs problems with {', '.join(sorted(recipe.requires))}" if recipe.requires else ""
    parts = [f"{recipe.key}: {recipe.about}\n{base}family: {recipe.family}{needs}"]
    if recipe.base in registry.recipe_modules():
        parts.append(f"changes {recipe.base}:\n{differences(registry.recipe(recipe.base), recipe)}")
    if isinstance(recipe.schedule, Stages):
        parts.append("\n".join(["stages, in order:", *_stages(recipe)]))
    fields = [one for one in node("", recipe).below if one.name not in (*NAMES, "requires")]
    method, setting = ([one for one in fields if (one.name == "setting") is wanted] for wanted in (False, True))
    parts += ["\n".join(["method:", *lines(method, INDENT)]), "\n".join(["setting:", *lines([_by_rule(one) for one in setting[0].below], INDENT)])]
    return "\n\n".join([*parts, PATHS])


def _stages(recipe: Any) -> list[str]:
    """A line per stage: the recipe, the end, the start, and what it reads and leaves; below it the changes of its recipe."""
    from gradus.recipe import registry
    from gradus.recipe.differences import differences
    from gradus.recipe.tree import lines, node
    from gradus.schedules.stages import Merge
    from gradus.types.moments import Steps

    rows = []
    for name, stage in recipe.schedule.stages.items():
        if isinstance(stage, Merge):
            rows.append(f"  {name:<16} merge of {' + '.join(f'{weight:g} {one}' for one, weight in stage.weights.items())}")
            continue
        own, until = stage.recipe or recipe, stage.until
        end = f"{until.count} steps" if isinstance(until, Steps) else f"{type(until).__name__} of {until.metric}, at most {until.most} steps"
        told = [f"{own.key}, {end}"]
        told += [f"starts from {stage.start}"] if stage.start != "previous" else []
        told += [f"{player} takes {source}" for player, source in stage.players.items()]
        told += [f"task {stage.task}"] if stage.task else []
        told += [f"keeps pass rates from {stage.screen.low:.2g} to {stage.screen.high:.2g}"] if stage.screen is not None else []
        told += [f"makes {type(stage.makes).__name__}"] if stage.makes is not None else []
        rows.append(f"  {name:<16} {'; '.join(told)}")
        known = stage.recipe is not None and own.key in registry.recipe_modules() and registry.recipe(own.key) != own
        rows += [f"  {line}" for line in differences(registry.recipe(own.key), own).split("\n")] if known else []
        for path, value in stage.changes.items():
            new = node(path, value, short=True)
            rows += [f"    {path:<38} {new.text or 'entries'}", *lines(new.below, "      + ", column=42)]
    return rows + ([f"  the whole list {recipe.schedule.repeat} times"] if recipe.schedule.repeat > 1 else [])


def _by_rule(field: Node) -> Node:
    """The line of a setting's field; for a learning rate that is not set, with the command that gives the rule's number."""
    left_out = (field.name, field.text) == ("learning_rate", "none")
    return replace(field, text="by rule: gradus explain learning_rate --model FOLDER") if left_out else field


def diff(a: str, b: str) -> str:
    """The changes that turn one recipe into another."""
    from gradus.recipe import registry
    from gradus.recipe.differences import differences

    one, other = registry.recipe(a), registry.recipe(b)
    return f"{one.key} -> {other.key}\n{differences(one, other)}"
