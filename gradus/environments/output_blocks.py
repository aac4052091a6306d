"""Reads from a completion the predicted output of a program, or a line that is missing in the program. Compares the output with the true output of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradus.environments.mini_python import Ran, run

HOLE = "_"
"""The line that stands for the left-out line."""


@dataclass(frozen=True)
class Scores:
    """The scores of a completion: the share of the requested blocks that are present, the score of the output (0 or 1), and the score of the errors (0 to
    1/2).
    """

    form: float
    stdout: float
    stderr: float

    @property
    def accuracy(self) -> float:
        """The mean of the scores `stdout` and `stderr`, from 0 to 3/4."""
        return (self.stdout + self.stderr) / 2

    @property
    def right(self) -> bool:
        """Whether the predicted output and errors equal the output and errors of the program."""
        return self.stdout == 1.0 and self.stderr == 0.5


def lines(text: str) -> list[str]:
    """Returns the lines of a text in which "|" ends a line."""
    return text.strip("|").split("|") if text.strip("|") else []


def blocks(completion: str, backward: bool) -> Mapping[str, str | None]:
    """Returns the requested blocks; a missing block is None.

    If `backward` is False, the output is the text after the last "=", and the errors are the text after the next "!". If `backward` is True, the line is the
    text after the first "#".

    >>> dict(blocks("a4=4!", False)), dict(blocks("=7", False)), dict(blocks("so #b=a+1", True))
    ({'stdout': '4', 'stderr': ''}, {'stdout': '7', 'stderr': None}, {'line': 'b=a+1'})
    """
    if backward:
        _, mark, line = completion.partition("#")
        return {"line": line.strip() if mark else None}
    _, mark, rest = completion.rpartition("=")
    stdout, second, stderr = rest.partition("!")
    return {"stdout": stdout.strip() if mark else None, "stderr": stderr.strip() if mark and second else None}


def overlap(predicted: str, true: str) -> float:
    """Returns the overlap of two texts: as multisets of lines, the size of their intersection divided by the size of their union. For two empty texts, the
    overlap is 1.

    >>> overlap("a|b", "b|c"), overlap("", "")
    (0.3333333333333333, 1.0)
    """
    mine, theirs = Counter(lines(predicted)), Counter(lines(true))
    every = (mine | theirs).total()
    return (mine & theirs).total() / every if every else 1.0


def compared(found: Mapping[str, str | None], true: Ran, form: float) -> Scores:
    """Returns the scores of predicted blocks. A missing block scores 0. Line breaks at the ends of the output have no effect."""
    stdout, stderr = found.get("stdout"), found.get("stderr")
    same = stdout is not None and lines(stdout) == lines(true.stdout.replace("\n", "|"))
    return Scores(form, float(same), 0.0 if stderr is None else 0.5 * overlap(stderr, true.stderr))


def scores(completion: str, meta: Mapping[str, Any]) -> Scores:
    """Returns the scores of a completion. `meta`: the columns `code` ("|" ends a line), `stdout`, `stderr` and `backward` of a problem."""
    backward, true = bool(meta["backward"]), Ran(meta["stdout"], meta["stderr"])
    found = blocks(completion[-1024:], backward)
    form = sum(value is not None for value in found.values()) / len(found)
    if not form:
        return Scores(0.0, 0.0, 0.0)
    if not backward:
        return compared(found, true, form)
    ran = run(filled(meta["code"], found["line"] or ""))
    return compared({"stdout": ran.stdout.replace("\n", "|"), "stderr": ran.stderr}, true, form)


def filled(code: str, line: str) -> str:
    """Returns a program with a line in place of its hole."""
    return "\n".join(line if text == HOLE else text for text in code.split("|"))
