"""Trains each token of a growing answer only once: in the step that sampled the token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradus.credit.gae import GAE
from gradus.types import Group, Trajectory
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.pieces import continues, new_actions
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal


def mask_of_new(trajectory: Trajectory, before_cut: int) -> np.ndarray:
    """Returns [A]: 1 for the actions of this step, else 0. The last `before_cut` actions of an answer that continues also get 0."""
    end = trajectory.actions - (before_cut if continues(trajectory) else 0)
    at = np.arange(trajectory.actions)
    return ((at >= trajectory.actions - new_actions(trajectory)) & (at < end)).astype(np.float64)


@dataclass(frozen=True)
class NewTokens:
    """Gives weight 0 to tokens that an earlier step sampled, so no loss term reads them. The other tokens get the credit of `rule`.

    This rule is for rollouts such as `Windowed`: their answers grow over several steps, and each of these steps uses them. Other trajectories keep all their
    tokens. The denominator of an average also counts the tokens with weight 0, unless it counts only weighted actions (`average.counted`).
    Reference: Fan et al., Truncated Proximal Policy Optimization, arXiv:2506.15050 (token filter).
    """

    rule: Credit = GAE(lam=1.0, whitened=False)
    before_cut: int = 0  # tokens before a cut that also get weight 0, because the value after the cut is an estimate

    def __post_init__(self) -> None:
        check_ranges(self, before_cut="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [[self._masked(c, t) for c, t in zip(row, g.trajectories, strict=True)] for row, g in zip(rows, groups, strict=True)]

    def _masked(self, credited: Credited, trajectory: Trajectory) -> Credited:
        mask = mask_of_new(trajectory, self.before_cut)
        return credited if mask.all() else credited.weighted(mask)
