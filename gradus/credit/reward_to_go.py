"""The reward-to-go of every action, without a critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.credit.gae import action_rewards, discounted, whiten
from gradus.credit.groups import group_relative, leave_one_out
from gradus.types import Group
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class RewardToGo:
    """A_t = (sum over s >= t of gamma^(s-t) r_s) - b. If `whitened` is set, all A_t of the batch are then shifted and scaled to mean 0 and deviation 1."""

    gamma: float = 1.0
    baseline: Literal["none", "group", "others"] = "none"  # b is 0, the mean reward of the group, or the mean reward of the group's other trajectories
    whitened: bool = True
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = [row for g in groups for row in self._rows(g)]
        done = iter(whiten(rows) if self.whitened else rows)
        return [[Credited(next(done)) for _ in g.trajectories] for g in groups]

    def _rows(self, group: Group) -> list[np.ndarray]:
        rewards = group.rewards
        centred = {"none": lambda r: r, "others": leave_one_out}.get(self.baseline, lambda r: group_relative(r, scale="none"))(rewards)
        bases = rewards - centred  # if all rewards of a group are equal, this is exactly their value, so the difference is exactly 0
        return [discounted(action_rewards(t), gamma=self.gamma) - float(b) for t, b in zip(group.trajectories, bases, strict=True)]
