"""Comparison of two SQL queries by their words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradus.rewards.overlap import jaccard

_TOKEN = re.compile(r"\w+|[^\s\w]")


def tokens(query: str) -> list[str]:
    """Returns the words and signs of a query, in lower case.

    >>> tokens("SELECT a.b FROM a")
    ['select', 'a', '.', 'b', 'from', 'a']
    """
    return _TOKEN.findall(query.lower())


def schema_overlap(said: str, due: str, names: Sequence[str]) -> float:
    """Returns the Jaccard index of the names that the two queries use. A name is used if it is a token of the query.

    >>> schema_overlap("SELECT a FROM t", "SELECT a FROM t WHERE b = 1", ["t", "a", "b"])
    0.6666666666666666
    """
    known = {name.lower() for name in names}
    return jaccard(known & set(tokens(said)), known & set(tokens(due)))
