"""The answer of `gradus explain`: a value and the lines of code or options that set it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradus.runtime.tables import outline
from gradus.runtime.terminal import paint, paragraph


@dataclass(frozen=True)
class Origin:
    """A line of code or an option that set the value: `source` in words, `place` as file:line ('' if there is none)."""

    source: str
    value: Any
    place: str = ""


@dataclass(frozen=True)
class Explanation:
    """A field of a recipe: its value, all lines and options that set it (the last one counts), its meaning and the allowed values."""

    path: str
    value: Any
    chain: tuple[str, ...]  # the recipes, the first base first
    origins: tuple[Origin, ...]
    meaning: str
    kind: str  # the declared type, as in the source
    allowed: str  # the interval, the choices or the parts that fit; '' if the type allows every value
    fields: tuple[tuple[str, Any], ...] = ()  # the fields of a part
    moved: str = ""  # the schedule that moves the value; '' for none


def as_json(found: Explanation) -> dict[str, Any]:
    """The explanation as plain values; a part as one line of text."""
    from gradus.recipe.tree import brief

    def plain(value: Any) -> Any:
        return value if value is None or isinstance(value, bool | int | float | str) else brief(value)

    return {
        **{name: getattr(found, name) for name in ("path", "meaning", "kind", "allowed", "moved")},
        "value": plain(found.value),
        "recipes": list(found.chain),
        "origins": [{"source": o.source, "value": plain(o.value), "place": o.place} for o in found.origins],
        "fields": {name: plain(value) for name, value in found.fields},
    }


def _one_line(value: Any, most: int = 90) -> str:
    """A value in one line. A long part is shown only as its class, and long entries only as their names."""
    from gradus.recipe.tree import brief, node

    text, short = brief(value), node("", value)
    return text if len(text) <= most else short.text or ", ".join(entry.name for entry in short.below)


def told(found: Explanation) -> str:
    """The explanation as text."""
    from gradus.recipe.tree import node, rows_of

    value = node(found.path, found.value)
    last = len(found.origins) - 1
    rows = [("  ->" if n == last else "    ", o.source, _one_line(o.value), o.place) for n, o in enumerate(found.origins)]
    chain = [f"      (recipes: {' > '.join(found.chain)})"] if len(found.chain) > 1 else []
    origins = [outline(rows, styles={2: "key", 3: "quiet"})] if rows else ["      nothing: it is empty in every recipe"]
    lines = [paragraph(f"{found.path} = {value.text or ', '.join(entry.name for entry in value.below)}"), "", paint("set by", "title"), *origins]
    lines += [*chain, *([paragraph(found.moved)] if found.moved else []), ""]
    option = found.path.removeprefix("--").removeprefix("setting.")
    python = "" if found.path.startswith(("--", "task.")) else f" on the command line, {found.path.replace('.', '__')}=VALUE in Python"
    rest = [("meaning", found.meaning), ("type", found.kind), ("allowed", found.allowed), ("set it", f"--{option} VALUE{python}" if found.kind else "")]
    lines += [paragraph(text, " " * 9, paint(title, "title") + " " * (9 - len(title))) for title, text in rest if text]
    return "\n".join([*lines, *([paint("fields", "title"), outline(rows_of(value.below))] if value.below else [])])
