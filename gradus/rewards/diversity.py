"""Measures how much texts and answers differ: the novelty of descriptions, the overlap of boxes, the disagreement of answers, and distinct n-grams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gradus.types.answers import answered

_NUMBER = r"(-?[0-9]{1,9}(?:\.[0-9]{0,9})?)"
_BOX = re.compile(rf"\[\s*{_NUMBER}\s*,\s*{_NUMBER}\s*,\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\]")


def between(text: str, opening: str, closing: str) -> str:
    """Returns the words between the last `opening` and the next `closing`, with single spaces; "" if one of the marks is missing."""
    _, found, rest = text.rpartition(opening)
    inside, ended, _ = rest.partition(closing)
    return " ".join(inside.split()) if found and ended else ""


def novelty(descriptions: Sequence[str]) -> list[float]:
    """Returns, for each description, 1 - the largest Jaccard overlap of its words with another description.

    The novelty of an empty description is 0. If there is no other description, or all others are empty, the novelty is 1.
    """
    words = [frozenset(d.split()) for d in descriptions]
    overlaps = [[len(w & v) / len(w | v) for j, v in enumerate(words) if j != i and v] if w else [1.0] for i, w in enumerate(words)]
    return [1.0 - max(row, default=0.0) for row in overlaps]


def box(text: str) -> tuple[float, ...] | None:
    """Returns the last box [left, top, right, bottom] of a text; None if the text has no box.

    >>> box("the dog is at [0, 1.5, 2, 3]")
    (0.0, 1.5, 2.0, 3.0)
    """
    found = _BOX.findall(text)
    return tuple(float(n) for n in found[-1]) if found else None


def overlap(one: str, other: str) -> float:
    """Returns the intersection over union of the last boxes [left, top, right, bottom] of two answers.

    If an answer has no box, the overlap is 1 for equal answers, else 0.
    """
    first, second = box(one), box(other)
    if first is None or second is None:
        return float(answered(one) == answered(other))
    (a, b, c, d), (e, f, g, h) = first, second
    shared = max(0.0, min(c, g) - max(a, e)) * max(0.0, min(d, h) - max(b, f))
    whole = (c - a) * (d - b) + (g - e) * (h - f) - shared
    return shared / whole if whole > 0 else float(first == second)


def disagreement(answers: Sequence[str]) -> float:
    """Returns 1 minus the mean overlap of all pairs of answers; 0 for fewer than two answers."""
    pairs = [overlap(one, other) for one, other in combinations(answers, 2)]
    return 1.0 - float(np.mean(pairs)) if pairs else 0.0


def distinct_share(sequences: Sequence[Sequence[int]], n: int = 3) -> float:
    """Returns the number of distinct n-grams of all sequences, divided by the number of all n-grams; 0 if there is none.

    >>> distinct_share([[1, 2, 3, 4], [1, 2, 3, 4]])
    0.5
    """
    found = [tuple(s[i : i + n]) for s in sequences for i in range(len(s) - n + 1)]
    return len(set(found)) / len(found) if found else 0.0
