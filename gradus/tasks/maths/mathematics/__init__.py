r"""Decides whether two mathematical answers are equal: numbers, expressions, equations, inequalities, sets, tuples, intervals, matrices.

The answers are in LaTeX or in plain text. No part of a text runs as code. The length of the text bounds the work of every step. So every answer is judged in
limited time, and no answer raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from gradus.tasks.maths.mathematics.comparison import same
from gradus.tasks.maths.mathematics.extraction import answers
from gradus.tasks.maths.mathematics.notation import clean
from gradus.tasks.maths.mathematics.syntax import read
from gradus.tasks.maths.mathematics.terms import Term, Unreadable
from gradus.types import NOT_APPLICABLE, Outcome, Problem

_WORDS = re.compile(r"(?:[A-Za-z\s()]|\\text\s*\{([A-Za-z\s()]*)\})+")
_PLAIN = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")


def verify(gold: str, answer: str) -> bool:
    r"""Returns whether the answer in a text equals the answer in the gold text. Formulas are in $...$, \(...\), \[...\] or \boxed{}.

    >>> verify(r"$\frac{1}{2}$", "so it is 0.5"), verify("$x^2-1$", r"\boxed{(x+1)(x-1)}"), verify("$(1,2)$", "$[1,2]$")
    (True, True, False)
    """
    want, have = _read(gold), said(answer)
    if not want or not have:
        return False
    if want[0].strip() == have[0].strip():
        return True
    if want[1] is None or have[1] is None:
        return False
    try:
        return _words(want[0]) == _words(have[0]) != "" or same(want[1], have[1])
    except RecursionError:  # nested too deeply for this thread's stack
        return False


@lru_cache(maxsize=4096)
def _read(gold: str) -> tuple[str, Term | None] | None:
    return said(gold)


def said(text: str) -> tuple[str, Term | None] | None:
    """Returns (LaTeX, term) of the first candidate that can be read. If no candidate can be read, returns (LaTeX of the first candidate, None).
    Without candidates, returns None."""
    first: str | None = None
    for latex in answers(text):
        first = latex if first is None else first
        try:
            return latex, read(latex)
        except (Unreadable, RecursionError):
            continue
    return None if first is None else (first, None)


def _words(latex: str) -> str:
    """Returns an answer that has only letters, in lower case and without spaces; '' for any other answer."""
    if not _WORDS.fullmatch(latex):
        return ""
    return re.sub(r"\\text|[\s(){}]", "", latex).lower()


def framed(gold: str) -> str:
    """Puts a bare gold answer, such as 2\\sqrt{3}, into a box. Worked solutions, and answers with marked formulas, do not change."""
    marked = any(mark in gold for mark in ("$", "\\boxed", "\\(", "\\[", "####"))
    return gold if marked or "\n" in gold.strip() else f"\\boxed{{{gold}}}"


def mathematics(problem: Problem, completion: str) -> Outcome:
    """A verifier: 1.0 if the completion's answer equals the problem's answer, or one answer of its list; else 0.0.

    The result for a problem without an answer is NOT_APPLICABLE.
    """
    accepted = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
    golds = [str(a) for a in accepted if a is not None and not isinstance(a, dict | list | tuple)]
    if not golds:
        return NOT_APPLICABLE
    return float(any(verify(framed(gold), completion) for gold in golds))


def reward(completions: Sequence[Any], answer: Sequence[Any], **columns: Any) -> list[float | None]:
    """A reward function: compares each completion with the column `answer` as `mathematics` does. The reward is None if there is no answer to compare with.

    A completion is a text, or a chat whose last message is the answer.
    """
    values: list[float | None] = []
    for completion, gold in zip(completions, answer, strict=True):
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        value = mathematics(Problem("", "", answer=gold), text)
        values.append(value if isinstance(value, float) else None)
    return values


__all__ = ["clean", "framed", "mathematics", "read", "reward", "said", "verify"]
