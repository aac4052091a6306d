"""Two measures of the order in which a masked model fills in an answer. Both measure the similarity of this order to left-to-right order.

The measures come from arXiv:2506.20639, section 4. The denominators of the measures are our own definition.
"""

from __future__ import annotations

import numpy as np


def places(order: np.ndarray) -> np.ndarray:
    """Returns the positions of an answer in the order in which they were filled in. `order` [A] is the step of each position. Positions that were filled in
    the same step are in order from left to right.
    """
    return np.argsort(order, kind="stable")


def local_at(order: np.ndarray, k: int) -> float:
    """Returns local@k, over the steps after the first k.

    local@k is the share of these steps in which the last k + 1 filled positions are neighbours, from left to right.

    >>> local_at(np.array([0, 1, 2, 3]), 1), local_at(np.array([3, 2, 1, 0]), 1)
    (1.0, 0.0)
    """
    at = places(order)
    follows = np.diff(at) == 1
    runs = [bool(follows[s - k : s].all()) for s in range(k, len(at))]
    return float(np.mean(runs)) if runs else float("nan")


def global_at(order: np.ndarray, k: int) -> float:
    """Returns global@k: the share of steps that fill in one of the k leftmost hidden positions. The result is 1 if k is the length of the answer.

    >>> global_at(np.array([0, 1, 2, 3]), 1), global_at(np.array([3, 2, 1, 0]), 2)
    (1.0, 0.5)
    """
    at = places(order)
    ahead = [int((at[s:] < place).sum()) for s, place in enumerate(at)]
    return float(np.mean([hidden < k for hidden in ahead]))
