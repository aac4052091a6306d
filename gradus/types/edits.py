"""Edit distances of two sequences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Returns the smallest number of insertions, deletions and replacements of single items that turn `a` into `b`. Levenshtein, 1966."""
    return edit_distances(a, b)[-1]


def edit_distances(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[int]:
    """Returns the edit distance of `a` from every prefix of `b`, beginning with the empty prefix, [len(b) + 1].

    >>> edit_distances("axc", "abcd")
    [3, 2, 2, 1, 2]
    """
    row = list(range(len(b) + 1))
    for i, item in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(before + (item != other), row[j] + 1, row[j - 1] + 1)
    return row
