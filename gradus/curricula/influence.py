"""Chooses problems whose gradients agree with the gradients of held-out problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def influence(pool: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Returns the mean cosine of every row of `pool` [n, d] with the rows of `held_out` [m, d], float64 [n]. A row of zeros has cosine 0.

    >>> influence(np.array([[2.0, 0.0], [0.0, -1.0]]), np.array([[1.0, 0.0], [0.0, 3.0]])).tolist()
    [0.5, -0.5]
    """
    return np.asarray(_unit(pool) @ _unit(held_out).mean(0))


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def chosen_by_influence(values: Sequence[float] | np.ndarray, sources: Sequence[str], keep: float) -> list[int]:
    """Chooses, in each source, the share `keep` (rounded up) with the largest values. Leaves out sources with a negative mean. Returns the indices in order.

    >>> chosen_by_influence([0.1, 0.3, -0.5, 0.2], ["a", "a", "b", "b"], 0.5)
    [1]
    """
    values, out = np.asarray(values, np.float64), list[int]()
    for source in dict.fromkeys(sources):
        own = np.array([i for i, s in enumerate(sources) if s == source])
        if values[own].mean() >= 0:
            out += own[np.argsort(-values[own], kind="stable")[: math.ceil(keep * len(own))]].tolist()
    return sorted(out)
