"""The discounted cumulative gain of a ranking, and its normalised form."""

from __future__ import annotations

import math
from collections.abc import Sequence


def dcg(grades: Sequence[float]) -> float:
    """Returns the discounted cumulative gain sum_k grade_k / log2(k + 1), for ranks k from 1 on.

    Reference: Jarvelin & Kekalainen, ACM TOIS 20(4), 2002. Here the gains are linear.
    """
    return sum(grade / math.log2(k + 1) for k, grade in enumerate(grades, start=1))


def ndcg(grades: Sequence[float], *, empty: float = 1.0) -> float:
    """Returns the DCG of the grades in the order of a ranking, divided by the DCG of the best order. The result is in [0, 1]. If all grades are 0, the result
    is `empty`.

    >>> round(ndcg([0, 2]), 4), ndcg([2, 0]), round(ndcg([2, 0, 1]), 4)
    (0.6309, 1.0, 0.9502)
    """
    best = dcg(sorted(grades, reverse=True))
    return dcg(grades) / best if best else empty
