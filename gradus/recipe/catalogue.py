"""The catalogue: the published systems that this library implements or will implement, one per line. Reading the catalogue imports no recipe.

A system runs if a recipe has its key; if not, `waits` names the part that is missing. Every recipe outside the family `bases` is a system of the
catalogue, or a variant of a system.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.jsonl")
BASES = "bases"
"""The family of the base recipes, which other recipes change. Base recipes need no line in the catalogue."""
NEAREST = 3


@dataclass(frozen=True)
class System:
    """A system, which is a line of the catalogue."""

    key: str  # the key of its recipe
    family: str
    title: str
    year: int
    waits: str = ""  # the missing part, task or policy; "": the system runs
    modality: str = ""  # the paper's kind of input, if no policy here reads this kind; the recipe then runs with another kind. "": none
    code: str = ""  # the address of the authors' code
    near: tuple[str, ...] = ()  # keys of its base and of the systems whose parts it uses
    variants: tuple[str, ...] = ()  # keys of further recipes of the same paper


def read(text: str) -> tuple[System, ...]:
    """Reads the systems from the text of a catalogue, in its order. Raises TypeError for an unknown field."""
    lines: Iterable[dict[str, Any]] = map(json.loads, text.splitlines())
    return tuple(System(**{**line, **{name: tuple(line.get(name, ())) for name in ("near", "variants")}}) for line in lines)


@functools.cache
def systems() -> Mapping[str, System]:
    """Key -> system, in the order of the file."""
    return {system.key: system for system in read(FILE.read_text(encoding="utf-8"))}


def faults(catalogue: Sequence[System], recipes: Mapping[str, str]) -> list[str]:
    """The contradictions between a catalogue and the recipes (key -> family). Each is a sentence with a remedy.

    >>> faults([System("vine", "credit", "Vine", 2024)], {})
    ['vine runs according to the catalogue, but no recipe has its key; write the missing part into waits']
    """
    found, keys = [], [system.key for system in catalogue]
    found += [f"{key} is in the catalogue twice; remove a line" for key in dict.fromkeys(keys) if keys.count(key) > 1]
    for system in catalogue:
        if system.key not in recipes and not system.waits:
            found.append(f"{system.key} runs according to the catalogue, but no recipe has its key; write the missing part into waits")
        elif system.key in recipes and system.waits:
            found.append(f'{system.key} has a recipe, but according to the catalogue it waits for "{system.waits}"; remove the recipe or the field waits')
        elif system.waits and system.modality:
            found.append(f"{system.key} has no recipe yet, so the field modality ({system.modality}) has no effect; leave out modality")
        elif recipes.get(system.key, BASES) not in (BASES, system.family):
            found.append(f"{system.key} has the family {recipes[system.key]} as a recipe, but {system.family} in the catalogue; make the two equal")
        found += [f"{system.key} names the variant {key}, which is no recipe; remove this variant" for key in system.variants if key not in recipes]
        found += [f"{system.key} names {key} in near, which is neither recipe nor system; remove it" for key in system.near if key not in {*recipes, *keys}]
    named = {*keys, *(key for system in catalogue for key in system.variants)}
    missing = [key for key, family in recipes.items() if family != BASES and key not in named]
    return found + [f"the recipe {key} is no system of the catalogue; add its line, or name it as a variant of a system" for key in missing]


def nearest_recipes(system: System, recipes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of recipes that are a good starting point for a system.

    The recipes on which the system builds come first, then the recipes of its family with the most similar description.
    Args: recipes: rows of the index.
    """
    keys = {row["key"] for row in recipes}
    own = _words(f"{system.title} {system.waits}")
    family = [row for row in recipes if row["family"] == system.family]
    shared = sorted(family, key=lambda row: -len(own & _words(row["about"])))
    return list(dict.fromkeys([*(key for key in system.near if key in keys), *(row["key"] for row in shared)]))[:NEAREST]


def _words(text: str) -> set[str]:
    return {word for word in text.lower().replace(",", " ").replace(".", " ").split() if len(word) > 3}
