"""A quadratic function of data mixtures that is fitted to the scores of runs. The module also finds the mixture with the highest predicted score."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gradus.types import Key


def seed_mixtures(count: int) -> list[tuple[float, ...]]:
    """Returns the seed mixtures of `count` data sets.

    The seed mixtures are the uniform mixture, each data set alone, and, with 3 or more data sets, each mixture that leaves one data set out.

    >>> seed_mixtures(2)
    [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)]
    """
    one = np.eye(count)
    without = (1 - one) / (count - 1) if count > 2 else np.zeros((0, count))
    return [tuple(float(v) for v in row) for row in (np.full(count, 1 / count), *one, *without)]


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The fitted function s(w) = theta . features(w), with the features 1, w_i, w_i^2, and 2 w_i w_j for i < j."""

    theta: np.ndarray

    @classmethod
    def fit(cls, mixtures: np.ndarray, scores: np.ndarray, *, ridge: float = 0.001) -> Surrogate:
        """Returns the least-squares fit. `mixtures`: [N, K] with rows of sum 1; `scores`: [N]. The ridge penalty does not apply to the constant feature."""
        x = features(np.asarray(mixtures, dtype=np.float64))
        penalty = ridge * np.eye(x.shape[1])
        penalty[0, 0] = 0.0
        return cls(np.linalg.lstsq(x.T @ x + penalty, x.T @ np.asarray(scores, dtype=np.float64), rcond=None)[0])

    def predict(self, mixtures: np.ndarray) -> np.ndarray:
        """Returns the predicted scores [N] of mixtures [N, K]."""
        return np.asarray(features(mixtures) @ self.theta)

    def best(self, count: int, *, draws: int = 20_000, steps: int = 200, rate: float = 0.05) -> np.ndarray:
        """Returns the mixture [K] with the highest predicted score.

        The search takes the best of `draws` random mixtures and the seed mixtures, then makes `steps` steps of projected gradient ascent.
        """
        drawn = -np.log(1 - Key().fold("mixtures").uniform(draws * count).reshape(draws, count))
        tried = np.concatenate([drawn / drawn.sum(1, keepdims=True), np.array(seed_mixtures(count))])
        w = tried[np.argmax(self.predict(tried))]
        for _ in range(steps):
            there = on_simplex(w + rate * self._slope(w))
            rate, w = (rate, there) if self.predict(there[None])[0] >= self.predict(w[None])[0] else (rate / 2, w)
        return w

    def _slope(self, w: np.ndarray) -> np.ndarray:
        k = len(w)
        b, squares, pairs = self.theta[1 : k + 1], self.theta[k + 1 : 2 * k + 1], self.theta[2 * k + 1 :]
        q = np.diag(squares)
        for value, (i, j) in zip(pairs, combinations(range(k), 2), strict=True):
            q[i, j] = q[j, i] = value
        return np.asarray(b + 2 * q @ w)


def features(mixtures: np.ndarray) -> np.ndarray:
    """Returns the features [N, 1 + 2 K + K (K - 1) / 2] of mixtures [N, K]."""
    columns = [np.ones(len(mixtures)), *mixtures.T, *(mixtures**2).T]
    return np.stack([*columns, *(2 * mixtures[:, i] * mixtures[:, j] for i, j in combinations(range(mixtures.shape[1]), 2))], axis=1)


def on_simplex(values: np.ndarray) -> np.ndarray:
    """Returns the point [K] with entries of at least 0 and sum 1 that is nearest to `values`. Reference: Duchi et al., Efficient Projections (2008), figure 1."""
    ordered = np.sort(values)[::-1]
    over = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - over[np.flatnonzero(ordered > over)[-1]], 0.0))


def held_out_error(mixtures: np.ndarray, scores: np.ndarray, *, ridge: float = 0.001) -> np.ndarray:
    """Returns, for every run, the prediction of a fit on all other runs minus the score of the run, [N]."""
    rows = np.arange(len(scores))
    fits = [Surrogate.fit(mixtures[rows != i], scores[rows != i], ridge=ridge) for i in rows]
    return np.array([fit.predict(mixtures[i : i + 1])[0] - scores[i] for i, fit in enumerate(fits)])
