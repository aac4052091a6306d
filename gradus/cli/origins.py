"""The answer of `gradus explain`: a value and the places that set it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Origin:
    """One place that set the value: `source` in words, `place` as file:line ('' if there is none)."""

    source: str
    value: Any
    place: str = ""


@dataclass(frozen=True)
class Explanation:
    """A field of a recipe: its value, the places that set it (the last one is in force), its meaning and the allowed values."""

    path: str
    value: Any
    chain: tuple[str, ...]  # the recipes, the first base first
    origins: tuple[Origin, ...]
    meaning: str
    kind: str  # the declared type, as in the source
    allowed: str  # the interval, the choices or the parts that fit; '' if the type allows every value
    fields: tuple[tuple[str, Any], ...] = ()  # of a part


def as_json(found: Explanation) -> dict[str, Any]:
    """The explanation as plain values; a part as one line of text."""
    from gradus.recipe.tree import brief

    def plain(value: Any) -> Any:
        return value if value is None or isinstance(value, bool | int | float | str) else brief(value)

    return {
        **{name: getattr(found, name) for name in ("path", "meaning", "kind", "allowed")},
        "value": plain(found.value),
        "recipes": list(found.chain),
        "origins": [{"source": o.source, "value": plain(o.value), "place": o.place} for o in found.origins],
        "fields": {name: plain(value) for name, value in found.fields},
    }


def _one_line(value: Any, most: int = 90) -> str:
    """A value in one line; of a longer part its class alone, of longer entries their names."""
    from gradus.recipe.tree import brief, node

    text, short = brief(value), node("", value)
    return text if len(text) <= most else short.text or ", ".join(entry.name for entry in short.below)


def told(found: Explanation) -> str:
    """The explanation as text."""
    from gradus.recipe.tree import lines as tree
    from gradus.recipe.tree import node

    value = node(found.path, found.value)
    lines = [f"{found.path} = {value.text or ', '.join(entry.name for entry in value.below)}", "", "set by"]
    rows = [(o.source, _one_line(o.value), o.place) for o in found.origins]
    widths = [max([len(row[i]) for row in rows], default=0) for i in range(2)]
    for index, (source, text, place) in enumerate(rows):
        mark = "->" if index == len(rows) - 1 else "  "
        lines.append(f"  {mark} {source:<{widths[0]}}  {text:<{min(widths[1], 60)}}  {place}".rstrip())
    if not rows:
        lines.append("     nothing: it is empty in every recipe")
    if len(found.chain) > 1:
        lines.append(f"     (recipes: {' > '.join(found.chain)})")
    rest = [("meaning", found.meaning), ("type", found.kind), ("allowed", found.allowed)]
    for title, text in rest:
        if text:
            lines += textwrap.wrap(text, 118, initial_indent=f"{title:<9}", subsequent_indent=" " * 9, break_on_hyphens=False)
    fields = tree(value.below, " " * 9, column=49)
    lines += [f"fields{line[6:]}" if index == 0 else line for index, line in enumerate(fields)]
    option = found.path.removeprefix("--").removeprefix("setting.")
    python = "" if found.path.startswith(("--", "task.")) else f" on the command line, {found.path.replace('.', '__')}=VALUE in Python"
    return "\n".join([*lines, *([f"{'set it':<9}--{option} VALUE{python}"] if found.kind else [])])
