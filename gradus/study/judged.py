"""Measures of a learned judge: calibration, best-of-n curves, and the curve of over-optimisation, as numbers and as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ExamTable:
    """A table of an evaluation. A cell without a number is None."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[float | None, ...], ...]


def calibration_error(chances: Sequence[float] | np.ndarray, outcomes: Sequence[float] | np.ndarray, bins: int = 10) -> float | None:
    """Returns the expected calibration error: the mean over predictions of |mean outcome - mean chance| of the prediction's bin.

    The bins are equal intervals of [0, 1]. Args: `chances` [n] and `outcomes` [n], both from 0 to 1. Returns None without predictions.
    Reference: Guo et al., On Calibration of Modern Neural Networks, arXiv:1706.04599, eq. 3.

    >>> round(calibration_error([0.9, 0.9, 0.2, 0.2], [1, 0, 0, 0]), 3)  # two of four are 0.4 off, two are 0.2 off
    0.3
    """
    chances, outcomes = np.asarray(chances, np.float64), np.asarray(outcomes, np.float64)
    if not len(chances):
        return None
    place = np.minimum((chances * bins).astype(int), bins - 1)
    gaps = [(place == b).sum() * abs(outcomes[place == b].mean() - chances[place == b].mean()) for b in np.unique(place)]
    return float(sum(gaps) / len(chances))


def pair_chances(scores: np.ndarray, rewards: np.ndarray) -> tuple[list[float], list[float]]:
    """Returns, for each pair of answers with different rewards, the predicted chance sigmoid(s_i - s_j), and whether answer i is better.

    Each pair appears in both orders, so the mean outcome is one half.
    """
    first, second = np.nonzero(rewards[:, None] != rewards[None, :])
    chances = 0.5 * (1 + np.tanh((scores[first] - scores[second]) / 2))
    return chances.tolist(), (rewards[first] > rewards[second]).astype(np.float64).tolist()


def auc(scores: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray) -> float | None:
    """Returns the area under the ROC curve: the chance that a right case has a higher score than a wrong case. Equal scores count one half.

    Returns None if there is no right case or no wrong case.

    >>> auc([0.9, 0.4, 0.4], [True, True, False])
    0.75
    """
    scores, right = np.asarray(scores, np.float64), np.asarray(right, bool)
    if right.all() or not right.any():
        return None
    gap = scores[right][:, None] - scores[~right][None, :]
    return float(((gap > 0) + 0.5 * (gap == 0)).mean())


def best_of(scores: Sequence[float] | np.ndarray, values: Sequence[float] | np.ndarray, n: int) -> float:
    """Returns the expected value of the answer with the highest score among n answers, which are drawn without replacement.

    If two scores are equal, the earlier answer wins. The answer of rank i (from 0) of N answers is the best of n with probability C(N - 1 - i, n - 1)
    / C(N, n).

    >>> best_of([3.0, 2.0, 1.0], [1.0, 0.0, 0.0], 2)  # the best answer is in two of the three pairs
    0.6666666666666666
    """
    scores, values = np.asarray(scores, np.float64), np.asarray(values, np.float64)
    count = len(scores)
    if not 1 <= n <= count:
        raise ValueError(f"`n` is {n}; it must be from 1 to the number of answers, {count}")
    order = np.argsort(-scores, kind="stable")
    chances = np.array([comb(count - 1 - i, n - 1) for i in range(count)], np.float64) / comb(count, n)
    return float(values[order] @ chances)


def divergence_of_best(n: int) -> float:
    """Returns log n - (n - 1) / n nats: an upper bound on the KL divergence of best-of-n from the sampler. Beirami et al., arXiv:2401.01879."""
    return math.log(n) - (n - 1) / n


def best_of_table(scored: Sequence[tuple[np.ndarray, np.ndarray]]) -> ExamTable:
    """Makes the best-of-n table: n, its KL, the judge's score and the reward of the chosen answer. Args: for each problem (scores [G], rewards [G])."""
    least = min((len(s) for s, _ in scored), default=0)
    ns = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= least]
    rows = [(float(n), divergence_of_best(n), *(float(np.mean([best_of(pair[0], pair[k], n) for pair in scored])) for k in (0, 1))) for n in ns]
    return ExamTable("best of n by the judge's score", ("n", "KL", "score", "reward"), tuple(rows))


@dataclass(frozen=True)
class Point:
    """One evaluation of a run that a learned judge rewards."""

    step: int
    divergence: float | None  # KL to the start model, nats; None if the run does not measure it
    proxy: float  # mean score of the judge in training
    gold: float  # held-out accuracy by the verifier


def curve(rows: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Returns the points of the over-optimisation curve from the metrics of a run. Only steps with a reward and a held-out accuracy give a point."""
    found = []
    for row in rows:
        proxy, gold = row.get("reward"), row.get("held_out/accuracy")
        if proxy is not None and gold is not None:
            found.append(Point(int(row["step"]), row.get("kl"), float(proxy), float(gold)))
    return found


def peak_and_fall(points: Sequence[Point]) -> tuple[Point, float]:
    """Returns the point with the highest `gold` (if there are several, the earliest), and the decrease of `gold` from this point to the last point."""
    peak = max(points, key=lambda p: p.gold)
    return peak, peak.gold - points[-1].gold


def over_optimisation_table(rows: Sequence[Mapping[str, Any]]) -> ExamTable | None:
    """Makes the table of `curve`; None if it has fewer than two points. Gao et al., Scaling Laws for Reward Model Overoptimization, arXiv:2210.10760, figure
    1.
    """
    points = curve(rows)
    if len(points) < 2:
        return None
    peak, fall = peak_and_fall(points)
    title = f"over-optimisation: the gold has its peak {peak.gold:.3f} at step {peak.step} and falls by {fall:.3f} until step {points[-1].step}"
    return ExamTable(title, ("step", "KL", "proxy", "gold"), tuple((float(p.step), p.divergence, p.proxy, p.gold) for p in points))
