"""Differences between arms over seeds and problems: estimate, interval, the chance that one arm is better, and verdicts for many pairs.

A bootstrap over three seeds draws from only three values, so it finds false differences. For this reason, the interval of a difference is Student's interval.
The number of seeds gives the degrees of freedom. The width covers the randomness of the seeds and of the problems:

    d[s, p] = a[s, p] - b[s, p]                     seed s of S, problem p of P, the same for both arms
    d[s, p] = mean + seed[s] + problem[p] + rest[s, p]
    Ms = P var_s(mean_p d)      Mp = S var_p(mean_s d)      Mr = the mean square of the rest, with (S - 1)(P - 1) degrees
    se^2 = (max(Ms, Mr) + max(Mp - Mr, 0)) / (S P)  the second term: other problems might have been asked
    interval: mean d +- t(S - 1) * se

Ms and Mp both contain the variance of the rest, so Mp - Mr counts it once. Ms is at least Mr in expectation. By chance, Ms can be smaller, for example if
a few seeds have equal means. Then Mr replaces it. For se as a whole, the degrees of freedom are those of the seeds, although the second term has more degrees
of freedom. So the
interval can be too wide, but not too narrow (`python -m benchmarks.compare_same`). Verdicts for many pairs are corrected by Holm's method (A Simple
Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """The mean of a - b, its 95 % interval (None with a single seed), the chance that a is better, and the two-sided p-value."""

    mean: float
    low: float | None
    high: float | None
    chance: float | None
    p: float | None


def difference(a: np.ndarray, b: np.ndarray, level: float = 0.95) -> Difference:
    """The difference of two arms.

    Args: a, b float64 [seeds, problems], or [seeds, 1] for one number per run. Raises ValueError for other shapes.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or a.ndim != 2 or not a.size:
        raise ValueError(f"the results of two arms must have the same shape [seeds, problems] and must not be empty; their shapes are {a.shape} and {b.shape}")
    d = a - b
    seeds = len(d)
    mean = float(d.mean())
    if seeds < 2:
        return Difference(mean, None, None, None, None)
    error = float(np.sqrt(_variance(d)))
    return _student(mean, error, seeds - 1, level)


def over_problems(a: np.ndarray, b: np.ndarray, level: float = 0.95) -> Difference:
    """The difference of two single runs over the same problems.

    The interval of this difference does not contain the randomness of training. Args: a, b float64 [problems].
    """
    d = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if len(d) < 2:
        return Difference(float(d.mean()), None, None, None, None)
    return _student(float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d))), len(d) - 1, level)


def _student(mean: float, error: float, freedom: int, level: float) -> Difference:
    """Student's interval of a mean with this standard error."""
    from scipy import special

    if error == 0.0:
        certain = 0.5 if mean == 0 else float(mean > 0)
        return Difference(mean, mean, mean, certain, 1.0 if mean == 0 else 0.0)
    half = float(special.stdtrit(freedom, (1 + level) / 2)) * error
    chance = float(special.stdtr(freedom, mean / error))
    return Difference(mean, mean - half, mean + half, chance, 2 * min(chance, 1 - chance))


def _variance(d: np.ndarray) -> float:
    """The variance of the mean of d [seeds, problems] for random seeds and random problems; the docstring of this file has the formula."""
    seeds, problems = d.shape
    of_seeds = problems * d.mean(1).var(ddof=1)
    if problems < 2:
        return float(of_seeds / seeds)
    of_problems = seeds * d.mean(0).var(ddof=1)
    rest = ((d - d.mean(1, keepdims=True) - d.mean(0, keepdims=True) + d.mean()) ** 2).sum() / ((seeds - 1) * (problems - 1))
    return float((max(of_seeds, rest) + max(of_problems - rest, 0.0)) / d.size)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Corrects the p-values for their number. None stays None and does not count.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((p, i) for i, p in enumerate(values) if p is not None)
    out: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        out[i] = highest
    return out


def area(curve: Sequence[Sequence[float]], amount: float) -> float | None:
    """The mean height of a curve [[spent, score]] from 0 to `amount`, by the trapezoid rule. The curve is continued to the end with its last score.

    >>> area([[0, 0.0], [50, 1.0]], 100)
    0.75
    """
    if not curve:
        return None
    x, y = np.array([point[0] for point in curve]), np.array([point[1] for point in curve])
    if x[-1] < amount:
        x, y = np.append(x, amount), np.append(y, y[-1])
    wide = float(x[-1] - x[0])
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / wide) if wide > 0 else float(y[-1])
