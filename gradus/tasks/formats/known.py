"""Finds the format of a published data set by its name."""

from __future__ import annotations

from gradus.tasks.formats import choices, mathematics, preferences, programs, puzzles, questions
from gradus.tasks.formats.format import Format
from gradus.types import unknown

FORMATS: dict[str, Format] = {
    one.name: one for module in (mathematics, choices, questions, preferences, programs, puzzles) for one in module.FORMATS
}
_HUB = {name.lower(): one for one in FORMATS.values() for name in one.hub}


def format_named(name: str) -> Format:
    """Returns the format with this name. Raises UserError, with similar names, if no format has this name."""
    if name not in FORMATS:
        raise unknown("format", name, FORMATS, "Give one with --task.format; `gradus tasks --formats` lists them")
    return FORMATS[name]


def format_of_data_set(name: str) -> Format | None:
    """Returns the format of a data set on the Hugging Face Hub, `owner/name` or `owner/name/configuration`; None if the data set is not known."""
    return _HUB.get("/".join(name.split("/")[:2]).lower())
