"""Reads repaired programs from replies: edits of files, and whole functions.

An edit is a block of six parts, each from the start of a line: "### PATH", the mark "<<<<<<< SEARCH", the text to search, the mark "=======", the text
that replaces it, and a mark of ">" signs with the word REPLACE. A mark has three to seven signs, and the words SEARCH and REPLACE are optional.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gradus.types.tags import contents

_BLOCK = re.compile(r"### *(\S+)[ \t]*\n<{3,7}(?: SEARCH)?\n(.*?)\n={3,7}\n(?:(.*?)\n)?>{3,7}(?: REPLACE)?(?=\s|\Z)", re.DOTALL)


class EditError(ValueError):
    """The error for a reply without usable edits."""


class Edit(NamedTuple):
    """One edit of one file."""

    path: str
    search: str
    replace: str


def edits_of(text: str) -> list[Edit]:
    """Returns the edits in a text, in order."""
    return [Edit(path, search, replace or "") for path, search, replace in _BLOCK.findall(text)]


def block(edit: Edit) -> str:
    """Returns the text of an edit, with short marks.

    >>> edits_of(block(Edit("a.py", " x=1", " x=2")))
    [Edit(path='a.py', search=' x=1', replace=' x=2')]
    """
    return f"### {edit.path}\n<<<\n{edit.search}\n===\n{edit.replace}\n>>>"


def applied(files: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Returns the new texts of the edited files. `files`: path -> text; a path that is not in `files` is an empty file.

    A search text must begin at the start of a line, and every occurrence is replaced. Raises EditError if there is no edit, if a search text is empty, does
    not occur, or equals its replacement.
    """
    if not edits:
        raise EditError("the reply has no edit")
    made: dict[str, str] = {}
    for path, search, replace in edits:
        text = "\n" + made.get(path, files.get(path, ""))
        if not search.strip() or search == replace:
            raise EditError(f"an edit of {path} searches nothing, or changes nothing")
        if f"\n{search}" not in text:
            raise EditError(f"{path} does not contain the searched text")
        made[path] = text.replace(f"\n{search}", f"\n{replace}")[1:]
    return made


def proposed(files: Mapping[str, str], completion: str) -> dict[str, str]:
    """Returns the new texts of the files that a reply edits. A reply has a thought in <think> and edits in <solution>.

    Raises EditError in the same cases as `applied`, and also if a tag does not occur exactly once, or if the thought is empty.
    """
    parts = contents(completion, ("think", "solution"))
    if parts is None:
        raise EditError("the reply is not a thought in <think> and edits in <solution>")
    return applied(files, edits_of(parts[1]))


def fix_of(completion: str) -> str:
    """Returns the text in <fix> of a reply that consists of <explanation> and <fix>; an empty text for any other reply.

    >>> fix_of("<explanation>add 3</explanation><fix>x=x+3</fix>"), fix_of("<fix>x=x+3</fix>")
    ('x=x+3', '')
    """
    parts = contents(completion, ("explanation", "fix"))
    return "" if parts is None else parts[1].strip("\n")


def asks(issue: str, function: str, told: str) -> str:
    """Returns the prompt for an explanation and a fix: the issue, the function, and the result of a failing test."""
    return f"{issue}\n{function}\n{told}"
