"""Laws of replay. A law draws some of the kept units, and gives each drawn unit its weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gradus.types import Key
from gradus.types.ranges import check_ranges


class Law(Protocol):
    """Draws from n kept units. The units are in the order of their age, with the oldest first."""

    def draw(self, count: int, priorities: np.ndarray, key: Key) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of the drawn units, int64 [k], and their weights, float64 [k]. The number k is `count`, or less if the law draws no unit twice.

        `priorities` is [n], with n at least 1. An index may occur several times.
        """
        ...


@dataclass(frozen=True)
class Uniform:
    """Draws every unit with equal probability. If `again` is False, the law draws min(count, n) different units."""

    again: bool = False  # whether one draw may contain a unit several times

    def draw(self, count: int, priorities: np.ndarray, key: Key) -> tuple[np.ndarray, np.ndarray]:
        n = len(priorities)
        found = (key.uniform(count) * n).astype(np.int64) if self.again else key.permutation(n)[: min(count, n)].astype(np.int64)
        return found, np.ones(len(found))


@dataclass(frozen=True)
class Newest:
    """Draws the newest units."""

    def draw(self, count: int, priorities: np.ndarray, key: Key) -> tuple[np.ndarray, np.ndarray]:
        n = len(priorities)
        found = np.arange(max(0, n - count), n)
        return found, np.ones(len(found))


def priority_weights(chances: np.ndarray, drawn: np.ndarray, *, correction: float) -> np.ndarray:
    """Computes the importance weights (n P(i))^-correction of the drawn units, divided by the largest weight of all units.

    Args: `chances` [n], all above 0 with the sum 1; `drawn` int64 [k], the indices of the drawn units.  Returns: float64 [k] in (0, 1].
    Reference: Schaul et al., Prioritized Experience Replay, arXiv:1511.05952, section 3.4. The paper divides by the largest weight of the
    mini-batch.
    """
    weights = (len(chances) * chances) ** -correction
    return weights[drawn] / weights.max()


@dataclass(frozen=True)
class Priority:
    """Draws units with repetition, with probability P(i) = p_i^power / sum_k p_k^power. Here p = priority + floor. Weights correct the bias of the draw.

    Reference: Schaul et al., Prioritized Experience Replay, arXiv:1511.05952, eq. 1 and section 3.4.
    """

    power: float = 0.6  # 0: all units have equal probability
    correction: float = 0.4  # 0: no correction by weights; 1: the weights remove the whole bias
    floor: float = 1e-6

    def __post_init__(self) -> None:
        check_ranges(self, power="[0, inf)", correction="[0, 1]", floor="(0, inf)")

    def draw(self, count: int, priorities: np.ndarray, key: Key) -> tuple[np.ndarray, np.ndarray]:
        powered = (np.maximum(priorities, 0) + self.floor) ** self.power
        chances = powered / powered.sum()
        edges = chances.cumsum()
        found = np.searchsorted(edges / edges[-1], key.uniform(count), side="right").clip(max=len(chances) - 1)
        return found.astype(np.int64), priority_weights(chances, found, correction=self.correction)
