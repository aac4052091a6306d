"""The answer of `gradus explain`: a value and the places that set it."""

from __future__ import annotations

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
