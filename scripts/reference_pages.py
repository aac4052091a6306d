"""Writes the tables of docs/parts.md between their marks: python -m scripts.reference_pages (`make index`).

`<!-- generated: parts -->` begins the tables, `<!-- end of generated -->` ends them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ("parts.md",)
MARKED = re.compile(r"(?<=^<!-- generated: )(\w+)([^>]*?)( -->\n)(?:.*?)(?=^<!-- end of generated -->$)", re.M | re.S)
PLACES = {  # place -> a method of its parts, and an argument of this method
    "curriculum": ("choose", "source"),
    "curriculum.allot": ("divide", "counts"),
    "rollout": ("run", "requests"),
    "rollout.sampler": ("path", "self"),
    "rollout.rule": ("more", "groups"),
    "reward": ("score", "groups"),
    "selection": ("keep", "groups"),
    "credit": ("assign", "groups"),
    "objective.TERM": ("loss", "outputs"),
    "objective.policy.ratio": ("log_ratio", "logprobs"),
    "objective.policy.trust": ("losses", "log_ratio"),
    "objective.policy.weight": ("factors", "old"),
    "objective.policy.average": ("coefficients", "batch"),
    "objective.policy.likeness": ("logprob", "error"),
    "objective.TERM.score": ("scores", "logprobs"),
    "objective.TERM.link": ("losses", "chosen"),
    "update": ("apply", "players"),
    "optimizer": ("build", "parameters"),
    "schedule": ("at", "recipe"),
    "search": ("solve", "problem"),
    "study": ("measure", "run"),
}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def plain(text: str) -> str:
    """Text as Markdown that shows it unchanged; `code` in backticks stays code."""
    parts = re.split(r"(`[^`]+`)", text)
    marks = r"(\*(?=\S)|(?<=\S)\*|(?<!\w)_|_(?!\w)|<(?=[\w/!])|\\)"
    return "".join(part if i % 2 else re.sub(marks, r"\\\1", part) for i, part in enumerate(parts))


def parts() -> str:
    """A table for each place of a recipe: the parts, the first sentence of each docstring, its fields with their defaults, its file."""
    return "\n\n".join(f"## {place}\n\n{table(['part', 'description', 'fields', 'file'], rows(of))}" for place, of in places().items())


@functools.cache
def places() -> dict[str, dict[str, type]]:
    """The classes of the parts by name, for each place of a recipe."""
    from gradus.recipe.overrides import part_modules
    from gradus.types import players

    classes = {name: getattr(importlib.import_module(module), name) for name, module in sorted(part_modules().items())}
    found = {place: {n: c for n, c in classes.items() if takes(c, *asked)} for place, asked in PLACES.items()}
    return {**found, "players.NAME.model": {c.__name__: c for c in get_args(players.Model) if c is not str}}


def takes(cls: type, method: str, argument: str) -> bool:
    """Whether a class has this method with this argument."""
    own = getattr(cls, method, None)
    protocol = getattr(cls, "_is_protocol", False)
    return callable(own) and not protocol and argument in inspect.signature(own).parameters


def rows(classes: dict[str, type]) -> list[list[str]]:
    return [
        [f"`{name}`", plain(summary(cls)), ", ".join(defaults(cls)), f"`{file_of(cls)}`"] for name, cls in sorted(classes.items())
    ]


def summary(thing: Any) -> str:
    """The first line of a docstring, with the rest of a sentence that goes on in the next lines."""
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    line, _, rest = paragraph.partition("\n")
    if line.endswith(".") or not rest:
        return line if line.endswith(".") else f"{line.rstrip(',:')}."
    sentence, _, _ = f"{' '.join(rest.split())} ".partition(". ")
    return f"{line} {sentence.strip().rstrip('.')}."


def defaults(cls: type) -> Iterator[str]:
    """Every field of a part as `name=default`; a field without default is its name."""
    for field in dataclasses.fields(cls):
        value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        yield f"`{field.name}`" if value is dataclasses.MISSING else f"`{field.name}={shown(value)}`"


def shown(value: Any) -> str:
    """A default in few words: a part by its class, a function by its name."""
    if inspect.isroutine(value):
        return value.__name__
    return f"{type(value).__name__}()" if dataclasses.is_dataclass(value) else repr(value)


def file_of(thing: Any) -> str:
    return Path(inspect.getsourcefile(thing) or "").relative_to(DOCS.parent).as_posix()


GENERATED = {"parts": parts}


def filled(text: str) -> str:
    """A page with new text between its marks."""
    return MARKED.sub(lambda found: f"{found[1]}{found[2]}{found[3]}\n{GENERATED[found[1]]()}\n\n", text)


if __name__ == "__main__":
    for page in PAGES:
        path = DOCS / page
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {path}")
