"""Reads the paper that a recipe follows. The docstring of the recipe's file names the paper.

A recipe's docstring has a paragraph `Reference: AUTHORS, TITLE, arXiv:NUMBER, ...`. The paragraph may also begin with `References:`. A paper that is
not on arXiv has the form `AUTHORS, TITLE, VENUE, YEAR`. The first entry, up to a semicolon, is the paper. Every other arXiv number in the paragraph
is a work on which the paper builds.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

from gradus.recipe import registry
from gradus.runtime.user_code import split_spec
from gradus.types import UserError

_PARAGRAPH = re.compile(r"^References?:\s+(.+?)(?:\n\s*\n|\Z)", re.M | re.S)
_ON_ARXIV = re.compile(r"(?P<authors>[^,;]+), (?P<title>[^;]+?), arXiv:(?P<arxiv>\d{4}\.\d{4,5})")
_ELSEWHERE = re.compile(r"(?P<authors>[^,;]+), (?P<title>[^;]+?), (?:(?P<venue>[^;]+?),? )?(?P<year>(?:19|20)\d\d)\b")
_NUMBER = re.compile(r"(?<![\d.])\d{4}\.\d{5}(?!\d)")


@dataclass(frozen=True)
class Reference:
    """A paper.

    `arxiv`: its arXiv number; None: the paper is not on arXiv, see `venue`. `further`: the arXiv numbers of the works on which the paper builds.
    """

    authors: str
    title: str
    year: int
    arxiv: str | None = None
    venue: str = ""
    further: tuple[str, ...] = ()


def read_reference(docstring: str) -> Reference | None:
    """Reads the reference in a docstring; None if the docstring has no reference of this form.

    >>> read_reference("X.\\n\\nReference: Doe et al., On Steps, arXiv:2401.00001, eq. 2; Roe, arXiv:2302.00002.")
    Reference(authors='Doe et al.', title='On Steps', year=2024, arxiv='2401.00001', venue='', further=('2302.00002',))
    """
    paragraph = _PARAGRAPH.search(docstring)
    if paragraph is None:
        return None
    text = " ".join(paragraph[1].split())
    first = text.partition(";")[0]
    found = _ON_ARXIV.match(first) or _ELSEWHERE.match(first)
    if found is None:
        return None
    paper = found.groupdict()
    number = paper.get("arxiv")
    year = 2000 + int(number[:2]) if number else int(paper["year"])
    further = tuple(n for n in dict.fromkeys(_NUMBER.findall(text)) if n != number)
    return Reference(paper["authors"], paper["title"], year, number, paper.get("venue") or "", further)


def authors_of(paper: Reference) -> tuple[str, ...]:
    """All authors as `Last, First`, in the paper's order. An organisation is in braces. The list is empty if authors.json does not contain the paper."""
    return _authors().get(paper.arxiv or paper.title, ())


@functools.cache
def _authors() -> dict[str, tuple[str, ...]]:
    """arXiv number -> authors. For a paper without such a number: title -> authors."""
    text = Path(__file__).with_name("authors.json").read_text(encoding="utf-8")
    return {paper: tuple(names) for paper, names in json.loads(text).items()}


def reference_of(name: str) -> tuple[str, Reference | None]:
    """The recipe's key and the reference in its file, which is not imported. Raises UserError for an unknown recipe."""
    key, text = docstring_of(name)
    return key, read_reference(text)


def docstring_of(name: str) -> tuple[str, str]:
    """The recipe's key and the docstring of its file, which is not imported. Raises UserError for an unknown recipe."""
    if ".py" in name:
        path, key = split_spec(name, "recipe")
        return key, _docstring(path)
    modules = registry.recipe_modules()
    if name not in modules:
        raise registry.no_recipe(name)
    spec = importlib.util.find_spec(modules[name].partition(":")[0])
    if spec is None or spec.origin is None:
        raise UserError(f'recipe "{name}" comes from {modules[name]}, but this module is missing; install the package of this module again')
    return name, _docstring(Path(spec.origin))


def _docstring(path: Path) -> str:
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as Python ({error}); fix the file") from None
