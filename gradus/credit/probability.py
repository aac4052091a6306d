"""A factor for the advantage of an action, computed from the action's probability at sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.types import Group, Trajectory, UserError
from gradus.types.parts import Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class ByProbability:
    """The factor alpha p + 1 - alpha, where p is the probability of the action at sampling. Yang et al., arXiv:2505.12929."""

    alpha: float = 0.3
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, 1]")

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        return [[self.alpha * probabilities(t) + 1 - self.alpha for t in g.trajectories] for g in groups]


def probabilities(trajectory: Trajectory) -> np.ndarray:
    """Returns the probability at sampling of every action, [A]. Raises UserError for text that no policy sampled."""
    rows = [c.logprobs for c in trajectory.contexts]
    if any(row is None for row in rows):
        raise UserError(
            f"ByProbability: {trajectory.id} has no log-probabilities, because the policy did not sample this text; let the policy sample the "
            "answer, or set --credit GroupRelative"
        )
    return np.exp(np.concatenate([np.asarray(row, np.float64) for row in rows]))
