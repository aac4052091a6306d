"""Trains a value model to predict the value of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.types import Group
from gradus.types.parts import Credited, Signals
from gradus.types.signals import Signal


@dataclass(frozen=True)
class PromptReturns:
    """Gives every action a return, the mean reward of the group. Only the first action of each answer has a weight.

    So a value model learns the value of the prompt alone.

    Reference: Gao et al., Prompt Curriculum Learning, arXiv:2510.01135.
    """

    needs: ClassVar[tuple[Signal, ...]] = ()
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[_at_start(t.actions, float(g.rewards.mean())) for t in g.trajectories] for g in groups]


def _at_start(actions: int, value: float) -> Credited:
    weights = np.zeros(actions)
    weights[:1] = 1.0
    return Credited(np.zeros(actions), np.full(actions, value), weights)
