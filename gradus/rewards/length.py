"""Rewards for the length of answers.

Each length reward wraps another reward, because the same length can earn different rewards in right and in wrong answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.rewards.combine import Combines, check_reward, name_of
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def group_lengths(lengths: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray) -> np.ndarray:
    """Computes the length rewards [G] of a group. A right answer gets lambda = 1/2 - (length - shortest) / (longest - shortest).

    A wrong answer gets min(0, lambda). If all lengths are equal, all rewards are 0. Args: `lengths` [G], tokens; `right` [G].
    Reference: Kimi Team, Kimi k1.5: Scaling Reinforcement Learning with LLMs, arXiv:2501.12599, section 2.3.3.

    >>> group_lengths([100, 200, 300], [True, True, False]).tolist()
    [0.5, 0.0, -0.5]
    """
    found = np.asarray(lengths, np.float64)
    if not len(found) or found.max() == found.min():
        return np.zeros(len(found))
    rates = 0.5 - (found - found.min()) / (found.max() - found.min())
    return np.where(np.asarray(right, dtype=bool), rates, np.minimum(0.0, rates))


@dataclass(frozen=True)
class GroupLength(Combines):
    """Adds weight * length reward (see `group_lengths`) to `reward`. The reward of short right answers rises, and the reward of long answers falls.

    The length is the number of all actions of a trajectory, or of the characters of its completion. During the first part of the run, the weight is 0;
    `after` is the share of this part in the run. A
    reward that failed or does not apply does not change, and its answer does not count in the group. The component "length" is the length reward without its
    weight; the components of `reward` keep their names.
    """

    reward: Reward = Verified()
    weight: float = 1.0
    after: float = 0.0  # the share of the run's steps before the length reward is added
    characters: bool = False  # count characters of the completion, not tokens
    name: ClassVar[str] = "group_length"

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", after="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        judged = await self.reward.score(groups, signals, world)
        weight = self.weight if world.step >= self.after * world.steps else 0.0
        return [self._priced(group, row, weight) for group, row in zip(groups, judged, strict=True)]

    def _priced(self, group: Group, judged: Sequence[Judgement], weight: float) -> list[Judgement]:
        named = [replace(j, components=j.components or Frozen({name_of(self.reward): j.reward})) for j in judged]
        applies = [i for i, j in enumerate(named) if isinstance(j.reward, int | float)]
        answers = [group.trajectories[i].but(reward=named[i].reward, components=named[i].components) for i in applies]
        lengths = [len(t.completion) if self.characters else t.actions for t in answers]
        found = group_lengths(lengths, [t.right for t in answers])
        for i, value in zip(applies, found.tolist(), strict=True):
            old = named[i]
            named[i] = replace(old, reward=float(old.reward) + weight * value, components=Frozen({**old.components, "length": value}))  # type: ignore[arg-type]
        return named
