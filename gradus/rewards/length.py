"""Rewards for the length of answers.

Each length reward wraps another reward, because the same length can earn different rewards in right and in wrong answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.types import Group
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


def lengths_of(group: Group) -> np.ndarray:
    """Returns the numbers of actions [G] of the trajectories."""
    return np.array([t.actions for t in group.trajectories], np.float64)


def right_of(group: Group) -> np.ndarray:
    """Returns [G], bool: whether each trajectory is right."""
    return np.array([t.right for t in group.trajectories], bool)


def cosine(lengths: Sequence[float] | np.ndarray, limit: float, *, first: float, last: float) -> np.ndarray:
    """Returns last + (first - last) (1 + cos(pi L / limit)) / 2: `first` at length 0, `last` at length `limit`. Args: `lengths` [G], tokens.

    Reference: Yeo et al., Demystifying Long Chain-of-Thought Reasoning in LLMs, arXiv:2502.03373, section 4.2.

    >>> cosine([0, 50, 100], 100, first=2.0, last=1.0).tolist()
    [2.0, 1.5, 1.0]
    """
    found = np.asarray(lengths, np.float64)
    return last + 0.5 * (first - last) * (1 + np.cos(np.pi * found / limit))


@dataclass(frozen=True)
class CosineLength(Combines):
    """A reward that follows a cosine of the length: one curve for right answers, and one for wrong answers. An answer at the limit gets `exceeds`.

    `right` and `wrong` are the rewards at length 0 and just below the limit. With the defaults a short right answer is better than a long right answer, and a
    long wrong answer is better than a short wrong answer. `reward` only says which answers are right. The component "length" is the reward.
    """

    reward: Reward = Verified()
    limit: int | None = None  # limit in tokens; None: the limit of an answer
    right: tuple[float, float] = (2.0, 1.0)
    wrong: tuple[float, float] = (-10.0, 0.0)
    exceeds: float | None = -10.0  # reward of an answer at the limit; None: no special value
    margin: int = 0  # `exceeds` begins this number of tokens before the limit
    name: ClassVar[str] = "cosine_length"

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", margin="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    def values(self, lengths: np.ndarray, right: np.ndarray, limit: int) -> np.ndarray:
        """Returns the rewards [G]."""
        capped = np.minimum(lengths, limit)
        either = np.where(right, *(cosine(capped, limit, first=ends[0], last=ends[1]) for ends in (self.right, self.wrong)))
        return either if self.exceeds is None else np.where(lengths + self.margin >= limit, self.exceeds, either)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        limit = self.limit or world.sampling.limit

        def rule(judged: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
            found = [self.values(lengths_of(g), right_of(g), limit) for g in judged]
            return [(values, {"length": values}) for values in found]

        return await reshaped(self.reward, groups, signals, world, rule)
