"""A reward without labels: the most frequent answer of a group replaces the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group, Trajectory
from gradus.types.answers import answered, most_common_answer
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


def agreement(completions: Sequence[str], *, missing: bool = False) -> list[float]:
    """Returns 1 for each completion with the most common answer, and 0 for all others.

    If several answers are equally common, the one that occurs first wins. A completion without an answer has no vote and gets 0. With `missing`, all
    completions without an answer vote for the same answer, and get 1 if this vote wins.

    >>> agreement(["=3", "=3", "=5", "2+1=3", "="])
    [1.0, 1.0, 0.0, 1.0, 0.0]
    """
    winner = most_common_answer(completions, missing=missing)
    return [float((winner is not None or missing) and answered(text) == winner) for text in completions]


@dataclass(frozen=True)
class MajorityReward(Combines):
    """1 for an answer that equals the most frequent answer of its group, else 0. The right answer is not read.

    An answer whose rollout failed has no vote. The metric `majority_share` is the share of the group's answers that equal the most frequent one.
    """

    missing: bool = False  # whether completions without a final answer vote together, as one answer
    name: ClassVar[str] = "agreement"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # the majority may be wrong

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [self.values(g.trajectories) for g in groups]
        for row in found:
            world.note("majority_share", sum(row) / max(len(row), 1))
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]

    def values(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Returns the rewards of one group. A failed answer gets 0, and still counts as failed."""
        return agreement([t.completion if t.reward is None or t.failed is None else "" for t in trajectories], missing=self.missing)
