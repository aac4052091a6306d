"""Estimators for evaluation: unbiased pass@k, the majority vote, and bootstrap intervals over problems or over seeds and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from gradus.types import Key

DRAWS = 10_000
"""Number of bootstrap resamples."""

_AT_ONCE = 4_000_000  # number of random numbers that are drawn at a time


@dataclass(frozen=True)
class Interval:
    """A mean and the bounds of its interval. The bounds are None for a single number of a kind that is not bounded, such as a length."""

    mean: float
    low: float | None
    high: float | None
    level: float
    kind: str = "bootstrap"
    count: int | None = None  # number of problems


def pass_at_k(samples: int, right: int, k: int) -> float:
    """Estimates the probability that at least one of k samples is right: 1 - C(n - c, k) / C(n, k).

    The estimate is unbiased. Here n is the number of samples, and c the number of right samples.

    Raises: ValueError unless 0 <= c <= n and 1 <= k <= n. Reference: Chen et al., Evaluating Large Language Models Trained on Code, arXiv:2107.03374, eq. 1.
    The function computes a product of k factors, to avoid large binomials.

    >>> pass_at_k(samples=4, right=1, k=2)  # 1 - C(3, 2) / C(4, 2) = 1 - 3 / 6
    0.5
    """
    if not 0 <= right <= samples:
        raise ValueError(f"the number of right answers is {right}; it must be from 0 to the number of samples, {samples}")
    if k < 1:
        raise ValueError(f"k of pass@k is {k}; it must be 1 or more")
    if k > samples:
        raise ValueError(f"pass@{k} needs at least {k} samples per problem, but there are {samples}; give more samples, or a smaller k")
    none = 1.0
    for i in range(k):
        none *= max(samples - right - i, 0) / (samples - i)
    return 1.0 - none


def majority(answers: Sequence[Hashable | None], right: Sequence[bool]) -> float:
    """Returns 1 if the most frequent answer is right, and 0 if this answer is wrong.

    If several answers are equally frequent, returns the share of right samples among them.

    Args: `answers`: one per sample; a sample without an answer has None and no vote. `right`: whether each sample is right. Returns: 0 if no sample has an
    answer. If only some samples of an answer are marked as right, the value of the answer is its share of right samples.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    most = max(votes.values())
    first = {answer for answer, count in votes.items() if count == most}
    return sum(bool(ok) for answer, ok in zip(answers, right, strict=True) if answer in first) / (most * len(first))


def bootstrap(values: Sequence[float] | np.ndarray, *, level: float = 0.95, draws: int = DRAWS, key: Key | None = None) -> Interval:
    """Returns the mean of the values, one per problem, and its percentile interval. The bootstrap resamples problems with replacement.

    Reference: Efron, Bootstrap Methods: Another Look at the Jackknife, Annals of Statistics 7, 1979. With a single problem, the interval has width 0.
    """
    values = np.asarray(values, dtype=np.float64)
    return paired_bootstrap(values[None, :], np.zeros((1, len(values))), level=level, draws=draws, key=key)


def paired_bootstrap(a: np.ndarray, b: np.ndarray, *, level: float = 0.95, draws: int = DRAWS, key: Key | None = None) -> Interval:
    """Returns the mean of a - b and its percentile interval.

    The bootstrap resamples seeds and problems with replacement, in the same way for a and b.

    Args: a, b [S, P]: one value for each seed and problem. Both arrays have the same seeds and problems.
    Raises: ValueError if the shapes differ, are not [S, P], or are empty.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 2 or a.size == 0:
        raise ValueError(f"paired values must have the same shape [seeds, problems] and must not be empty; their shapes are {a.shape} and {b.shape}")
    if not 0 < level < 1:
        raise ValueError(f"`level` is {level}; it must be above 0 and below 1")
    difference, key = a - b, key or Key()
    means = np.empty(draws)
    step = max(1, _AT_ONCE // sum(difference.shape))
    for start in range(0, draws, step):
        count = min(step, draws - start)
        of_seeds = _counts(key.fold("seeds", start), count, difference.shape[0])
        of_problems = _counts(key.fold("problems", start), count, difference.shape[1])
        means[start : start + count] = ((of_seeds @ difference) * of_problems).sum(axis=1) / difference.size
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(difference.mean()), float(low), float(high), level)


def _counts(key: Key, draws: int, size: int) -> np.ndarray:
    """Returns the number of times that each of `size` items occurs in `size` draws with replacement, float64 [draws, size]."""
    chosen = (key.uniform(draws, size) * size).astype(np.int64)
    flat = chosen + size * np.arange(draws)[:, None]
    return np.bincount(flat.ravel(), minlength=draws * size).reshape(draws, size).astype(np.float64)
