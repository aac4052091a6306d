"""The value of a partial answer: the output of a value head, the reward, or the mean reward of continuations to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from gradus.rollouts.values import Start, continued, mean_reward
from gradus.types import Group, Trajectory
from gradus.types.contexts import after_prompt
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Value


class NodeValue(Protocol):
    """Gives the values of partial answers."""

    async def values(self, beginnings: Sequence[Trajectory], world: World) -> tuple[list[float], int]:
        """Returns one value per partial answer in `beginnings`, and the number of sampled tokens.

        A partial answer is a trajectory with one context. If it is already a whole answer, its link `over` is true.
        """
        ...


@dataclass(frozen=True)
class PlayerValue:
    """The value that the value head of `player` reads after the last token of the partial answer."""

    player: str = "value"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    async def values(self, beginnings: Sequence[Trajectory], world: World) -> tuple[list[float], int]:
        rows = await world.score([after_prompt(t.contexts[0]) for t in beginnings], Value(), self.player)
        return [float(row[-1]) for row in rows], 0


@dataclass(frozen=True)
class RewardOfText:
    """The reward of the text, as if the answer ended here; 0 if the reward fails. The reward of the recipe is used: a verifier or a reward model."""

    async def values(self, beginnings: Sequence[Trajectory], world: World) -> tuple[list[float], int]:
        (judged,) = await world.judge([Group(f"{beginnings[0].id}/texts", tuple(beginnings))])
        return [t.value if t.failed is None else 0.0 for t in judged.trajectories], 0


@dataclass(frozen=True)
class MeanOfContinuations:
    """The mean reward of `count` continuations to the end of the answer. An answer that has ended has its own reward."""

    count: int = 4

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    async def values(self, beginnings: Sequence[Trajectory], world: World) -> tuple[list[float], int]:
        found = await asyncio.gather(*(self._value(t, world) for t in beginnings))
        return [value for value, _ in found], sum(tokens for _, tokens in found)

    async def _value(self, t: Trajectory, world: World) -> tuple[float, int]:
        if t.links.get("over"):
            (value,), _ = await RewardOfText().values([t], world)
            return value, 0
        context = t.contexts[0]
        made = await continued(Start(t, context, len(context.sequence)), self.count, world.sampling, world)
        return mean_reward(made, world), sum(one.actions for one in made)
