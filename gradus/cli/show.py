"""The output of `gradus show` and `gradus diff`: a recipe as text, and the differences of two recipes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from gradus.runtime.tables import outline, table
from gradus.runtime.terminal import columns, paint, paragraph, style_of

if TYPE_CHECKING:
    from gradus.recipe.docstring import Sections
    from gradus.recipe.tree import Node

INDENT = "  "
LABEL = 12  # characters of the names of the facts
PATHS = (
    "Set a field by its path, the names joined with dots: --players.policy.every 2. A field of the setting needs its name alone: --group 4."
)
"""How the tree of a recipe names its fields."""


def show(name: str, *, empty: bool = False) -> str:
    """A recipe as text: formulas, paper, use, changes to its base, method, setting, claims. `empty`: whether fields without a value are also shown."""
    from gradus.recipe import registry
    from gradus.recipe.core import NAMES
    from gradus.recipe.docstring import sections
    from gradus.recipe.reference import docstring_of
    from gradus.recipe.tree import node
    from gradus.schedules.stages import Stages

    recipe, read = registry.recipe(name), sections(docstring_of(name)[1])
    parts = [paragraph(f"{recipe.key}: {recipe.about}"), *_body(read), _facts(name, recipe, read)]
    if recipe.base in registry.recipe_modules():
        parts += [_titled(f"Changes to {recipe.base}", _changes(registry.recipe(recipe.base), recipe))]
    if isinstance(recipe.schedule, Stages):
        parts += [_titled("Stages, in order", *_stages(recipe))]
    fields = [one for one in node("", recipe).below if one.name not in (*NAMES, "requires")]
    method, (setting,) = ([one for one in fields if (one.name == "setting") is wanted] for wanted in (False, True))
    trees = [method, [_by_rule(one) for one in setting.below]]
    kept = trees if empty else [_filled(tree) for tree in trees]
    parts += [_titled(title, _tree(tree)) for title, tree in zip(("Method", "Setting"), kept)]
    parts += _claims(recipe.key)
    hidden = sum(_count(tree) for tree in trees) - sum(_count(tree) for tree in kept)
    left_out = f" {hidden} fields without a value are not shown: gradus show {name} --all" if hidden else ""
    return "\n\n".join([*parts, paragraph(f"{PATHS}{left_out}")])


def _titled(title: str, *lines: str) -> str:
    return "\n".join([paint(title, "title"), *lines])


def _body(read: Sections) -> Iterator[str]:
    """Blocks of formulas and paragraphs of prose, if the docstring has formulas."""
    for prose, parts in groupby(read.body if read.formulas else (), key=lambda part: isinstance(part, str)):
        texts = [part if isinstance(part, str) else part.text for part in parts]
        yield ("\n\n" if prose else "\n").join(paragraph(t.replace("$", "")) if prose else paragraph(t, " " * 8, " " * 4) for t in texts)


def _facts(name: str, recipe: Any, read: Sections) -> str:
    """Paper, family, base, needs, and the sentences about the use, one line each."""
    from gradus.recipe.reference import reference_of

    paper = reference_of(name)[1]
    link = "" if paper is None else f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else paper.venue
    found = [
        ("paper", paper.title if paper is not None else ""),
        ("", f"{paper.authors}, {paper.year}. {link}" if paper is not None else ""),
        ("family", recipe.family + (f"; base: {recipe.base}" if recipe.base else "")),
        ("needs", f"problems with {', '.join(sorted(recipe.requires))}" if recipe.requires else ""),
        ("use if", read.use_if),
        ("avoid if", read.avoid_if),
        ("departures", "" if read.departures in ("None", "None.") else read.departures),
    ]
    return "\n".join(
        paragraph(text.replace("$", ""), " " * LABEL, paint(label, "title") + " " * (LABEL - len(label))) for label, text in found if text
    )


def _changes(old: Any, new: Any, depth: int = 1) -> str:
    from gradus.recipe.differences import differences, told

    text = told(differences(old, new), old.key, new.key, room=columns() - depth * len(INDENT), ink=paint)
    for _ in range(depth):
        text = _indented(text)
    return text


def _tree(nodes: Sequence[Node], depth: int = 1) -> str:
    from gradus.recipe.tree import rows_of

    return outline(rows_of(nodes, depth))


def _filled(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with a value, or with entries below them."""
    return [replace(one, below=tuple(_filled(one.below))) for one in nodes if one.below or one.text not in ("", "none")]


def _count(nodes: Sequence[Node]) -> int:
    return sum(1 + _count(one.below) for one in nodes)


def _claims(key: str) -> list[str]:
    """The claims of a recipe with their verdicts and figures; [] if it has none."""
    from gradus.comparison.claims import STALE, figure, of_recipe, standing
    from gradus.recipe import index

    row = next((row for row in index.read()["recipes"] if row["key"] == key), None)
    found = of_recipe(row) if row is not None else []
    rows = [("stale" if standing(of) == STALE else standing(of), figure(of) or "-", of.claim.says) for of in found]
    listed = table(rows, ("verdict", "figure [95 %]", "claim"), {0: style_of}, room=columns() - len(INDENT))
    return [_titled("Claims", _indented(listed))] if rows else []


def _indented(text: str) -> str:
    return "\n".join(INDENT + line for line in text.split("\n"))


def _stages(recipe: Any) -> list[str]:
    """A line per stage: the recipe, the end, the start, the inputs and the outputs of the stage. The next lines show the changes of the stage's recipe."""
    from gradus.recipe import registry
    from gradus.recipe.tree import node
    from gradus.schedules.stages import Fuse, Merge
    from gradus.types.moments import Steps

    rows = []
    wide = max(map(len, recipe.schedule.stages)) + 4
    for name, stage in recipe.schedule.stages.items():
        start = INDENT + paint(name, "name") + " " * (wide - len(name) - 2)
        if isinstance(stage, Merge):
            rows.append(paragraph(f"merge of {' + '.join(f'{weight:g} {one}' for one, weight in stage.weights.items())}", " " * wide, start))
            continue
        if isinstance(stage, Fuse):
            fusion = f"fusion of {', '.join(stage.experts)} onto {stage.start}; scale {stage.scale:g}, drops {stage.drop:.0%}"
            rows.append(paragraph(fusion, " " * wide, start))
            continue
        own, until = stage.recipe or recipe, stage.until
        end = f"{until.count} steps" if isinstance(until, Steps) else f"{type(until).__name__} of {until.metric}, at most {until.most} steps"
        told = [f"{own.key}, {end}"]
        told += [f"starts from {stage.start}"] if stage.start != "previous" else []
        told += [f"{player} takes {source}" for player, source in stage.players.items()]
        told += [f"task {stage.task}"] if stage.task else []
        told += [f"keeps pass rates from {stage.screen.low:.2g} to {stage.screen.high:.2g}"] if stage.screen is not None else []
        told += [f"makes {type(stage.makes).__name__}"] if stage.makes is not None else []
        rows.append(paragraph("; ".join(told), " " * wide, start))
        known = stage.recipe is not None and own.key in registry.recipe_modules() and registry.recipe(own.key) != own
        rows += [_changes(registry.recipe(own.key), own, 2)] if known else []
        changed = [node(path, value, short=True) for path, value in stage.changes.items()]
        rows += [_tree(changed, 2)] if changed else []
    return rows + ([f"  the whole list {recipe.schedule.repeat} times"] if recipe.schedule.repeat > 1 else [])


def _by_rule(field: Node) -> Node:
    """The line of a field of the setting. If the learning rate is not set, the line names the command that shows the rate of the rule."""
    left_out = (field.name, field.text) == ("learning_rate", "none")
    return replace(field, text="by rule: gradus explain learning_rate --model FOLDER") if left_out else field


def diff(a: str, b: str) -> str:
    """The fields in which two recipes differ, with their values in both."""
    from gradus.recipe import registry

    one, other = registry.recipe(a), registry.recipe(b)
    return _changes(one, other, 0)
