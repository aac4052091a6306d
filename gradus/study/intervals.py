"""Intervals of means over few problems. Each problem gives one value, which is the mean over the problem's answers.

A percentile bootstrap of n equal values has width 0, even for n = 1. So other intervals are used:
- right or wrong, one answer per problem: Clopper and Pearson's exact interval. The coverage of this interval is at least the required level for every
  n.
- shares in [0, 1], several answers per problem: two problems with share 0 and two with share 1 are added (Agresti and Coull's "plus four" for proportions).
With the added problems, the width is above 0. For large n, they have almost no weight.
- numbers without bounds (rewards, lengths): Student's t interval. A single problem has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from gradus.study.passk import Interval

FEW = 30
"""If there are fewer problems, a run and an evaluation print a warning."""

_HALVINGS = 60  # number of halvings of [0, 1], enough for the precision of float64


def of_shares(values: Sequence[float] | np.ndarray, level: float = 0.95) -> Interval:
    """Returns the mean of the values and its interval. `values` has one number in [0, 1] per problem.

    The interval is exact if all values are 0 or 1; else the interval uses four added problems.
    """
    values = np.asarray(values, dtype=np.float64)
    if np.isin(values, (0.0, 1.0)).all():
        low, high = clopper_pearson(int(values.sum()), len(values), level)
        return Interval(float(values.mean()), low, high, level, "Clopper-Pearson", len(values))
    low, high = plus_four(values, level)
    return Interval(float(values.mean()), low, high, level, "plus four", len(values))


def of_numbers(values: Sequence[float] | np.ndarray, level: float = 0.95) -> Interval:
    """Returns the mean of the values, one per problem, and Student's t interval. For a single problem, low and high are None."""
    values = np.asarray(values, dtype=np.float64)
    mean, count = float(values.mean()), len(values)
    if count == 1:
        return Interval(mean, None, None, level, "Student", 1)
    half = student_quantile((1 + level) / 2, count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, level, "Student", count)


def clopper_pearson(right: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Returns the exact interval (low, high) of a proportion, from `right` successes in `count` trials.

    If each trial succeeds with the chance `low`, the probability of at least `right` successes is (1 - level) / 2. If each trial succeeds with the chance
    `high`, the probability of at most `right` successes is also (1 - level) / 2. `low` is 0 if `right` is 0, and `high` is 1 if `right` is `count`.

    Reference: Clopper and Pearson, The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial, Biometrika 26, 1934.
    Raises: ValueError unless 0 <= right <= count and count is at least 1.

    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 3)
    (0.0, 0.308)
    """
    if not 0 <= right <= count or count < 1:
        raise ValueError(f"the number of right answers is {right} and the number of answers is {count}; give 0 <= right <= count, and a count of at least 1")
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else _at_least(right, count, tail)
    high = 1.0 if right == count else 1.0 - _at_least(count - right, count, tail)  # by symmetry, from the number of failures
    return low, high


def plus_four(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Returns the normal interval of a mean of values in [0, 1]. The values 0, 0, 1, 1 are added, and the bounds are limited to [0, 1].

    Reference: Agresti and Coull, Approximate Is Better than "Exact" for Interval Estimation of Binomial Proportions, The American
    Statistician 52, 1998. If all values are 0 or 1, this is the adjusted Wald interval of the paper. For other values, it uses the standard deviation of all
    values.
    """
    more = np.concatenate([values, [0.0, 0.0, 1.0, 1.0]])
    half = NormalDist().inv_cdf((1 + level) / 2) * float(more.std()) / math.sqrt(len(more))
    return max(0.0, float(more.mean()) - half), min(1.0, float(more.mean()) + half)


def student_quantile(chance: float, freedom: int) -> float:
    """Returns the quantile of Student's t distribution for a probability in [0.5, 1).

    >>> round(student_quantile(0.975, 9), 3)
    2.262
    """
    angle = _root(lambda x: 0.5 + _student(x * math.pi / 2, freedom) / 2 > chance) * math.pi / 2
    return math.tan(angle) * math.sqrt(freedom)


def few(problems: int) -> str | None:
    """Returns a warning if an evaluation has fewer than `FEW` problems, else None.

    The warning names half the width of the 95 % interval, computed for a share of right answers of 1/2.
    """
    if problems >= FEW or problems < 1:
        return None
    low, high = clopper_pearson(problems // 2, problems)
    held = f"{problems} held-out problem{'s' * (problems != 1)}"
    return f"{held}: the accuracy is uncertain by about {(high - low) / 2:.2f}"


def _root(passed: Callable[[float], bool]) -> float:
    """Finds a number in [0, 1] by bisection. `passed` is true above this number, and false below it."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return (low + high) / 2


def _at_least(least: int, count: int, probability: float) -> float:
    """Returns the chance p for which P(X >= least) is `probability`, if X is binomial(count, p)."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])  # logarithms of the factorials
    k = np.arange(least, count + 1)
    ways = factorials[count] - factorials[k] - factorials[count - k]
    return _root(lambda p: bool(np.exp(ways + k * math.log(p) + (count - k) * math.log1p(-p)).sum() > probability))


def _student(angle: float, freedom: int) -> float:
    """Returns P(|t| < tan(angle) * sqrt(freedom)) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (1.0, 1.0) if freedom % 2 == 0 else (cosine, cosine if freedom > 1 else 0.0)
    for k in range(2 if freedom % 2 else 1, freedom - 1, 2):
        term *= cosine**2 * k / (k + 1)
        total += term
    return sine * total if freedom % 2 == 0 else 2 / math.pi * (angle + sine * total)
