"""A rule for `Allot`: divides the answers of a step among its problems. The division makes the variance of the gradient of rejection sampling as small as
possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.types import Group, Request, Trajectory
from gradus.types.parts import World
from gradus.types.ranges import check_ranges


def variance_weights(norms: np.ndarray, rates: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
    """Returns w_i = G_i / sqrt(p_i + alpha / p_i^(beta - 1)), float64 [n]; 0 if p_i or G_i is 0. Args: `norms` G and `rates` p [n]."""
    safe = np.where(rates > 0, rates, 1.0)
    return np.where(rates > 0, norms / np.sqrt(safe + alpha / safe ** (beta - 1.0)), 0.0)


def proportional(weights: np.ndarray, total: int) -> np.ndarray:
    """Divides `total` in proportion to the weights, rounded by the largest remainders: int64 [n]. Zeros if all weights are 0.

    >>> proportional(np.array([1.411, 2.742]), 16).tolist()
    [5, 11]
    """
    if not weights.sum() > 0:
        return np.zeros(len(weights), np.int64)
    exact = total * weights / weights.sum()
    out = np.floor(exact).astype(np.int64)
    rest = exact - out
    rest[weights == 0] = -1.0  # a problem without weight gets nothing
    out[np.argsort(-rest, kind="stable")[: total - int(out.sum())]] += 1
    return out


@dataclass(frozen=True)
class GradientVariance:
    """Distributes the requested number of further answers over the problems, by success rates and gradient norms that are estimated from the answers
    so far.

    A problem without a right answer gets no further answers. Failed answers count neither as right nor as wrong.
    Reference: Yao et al., GVM-RAFT, arXiv:2505.02391, algorithms 1 and 2.
    """

    alpha: float = 0.001
    beta: float = 2.0
    probes: ClassVar[bool] = True  # only this rule uses the answers of the first round
    asks_right: ClassVar[str] = "UntilUnequal"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)", beta="[0, inf)")

    async def more(self, groups: Sequence[Group], requests: Sequence[Request], world: World) -> list[int]:
        judged = [[t for t in g.trajectories if t.failed is None] for g in groups]
        right = [[t for t in row if t.right] for row in judged]
        rates = np.array([len(some) / max(len(row), 1) for some, row in zip(right, judged, strict=True)])
        norms = await mean_norms(right, world)
        weights = variance_weights(norms, rates, alpha=self.alpha, beta=self.beta)
        return [int(n) for n in proportional(weights, sum(r.count for r in requests))]


async def mean_norms(rows: Sequence[Sequence[Trajectory]], world: World) -> np.ndarray:
    """Returns for each row the mean over its trajectories of the gradient norm, float64 [n]; 0 for an empty row.

    If a trajectory has several contexts, its norm is the root of the sum of their squared norms.
    """
    contexts = [c for row in rows for t in row for c in t.contexts]
    left = iter(await world.gradients(contexts) if contexts else ())
    each = [[np.sqrt(sum(float(next(left)) ** 2 for _ in t.contexts)) for t in row] for row in rows]
    return np.array([np.mean(row) if row else 0.0 for row in each], dtype=np.float64)
