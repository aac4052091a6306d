"""A reward of an episode: 1 for a right answer and -1 for a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rewards.environment import EnvironmentReturn
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class RightOrWrong:
    """Gives 1 for a right answer and -1 for a wrong answer. Subtracts `fails` if any call of a tool failed.

    An answer is right if the environment's return is at least 1. An episode without an answer is wrong.
    """

    fails: float = 0.0
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, fails="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t.links.get("calls", ()), j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, calls: Sequence[tuple[int, str, bool]], plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, float | int):
            return plain
        verdict = 1.0 if plain.reward >= 1 else -1.0
        penalty = -self.fails if any(not ok for _, _, ok in calls) else 0.0
        return replace(plain, reward=verdict + penalty, components=Frozen({**plain.components, "verdict": verdict, "failed_call": penalty}))
