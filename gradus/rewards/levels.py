"""A reward that counts only if another reward reaches a bound: for example, a verdict counts only if the answer has the required format."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rewards.combine import Combines, check_reward, name_of
from gradus.types import Failed, Frozen, Group, NotApplicable, UserError
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_judgements
from gradus.types.signals import Signal


@dataclass(frozen=True)
class GatedReward(Combines):
    """The value of `then` if `first` is at least `least`, else 0. If `first` does not apply, `then` alone gives the value.

    The components are the value of `first` under its name, and the components of `then`. The components are present even if `first` is below `least`. So the
    accuracy is still computed from the verdicts. Rewards at single actions come from `then`. The reward has failed if `first` failed. It has also failed if
    `then` failed, unless the reward is 0 because of `first`.
    """

    first: Reward
    then: Reward
    least: float = 1.0
    name: ClassVar[str] = "gate"

    def __post_init__(self) -> None:
        check_ranges(self, least="(-inf, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys((*self.first.needs, *self.then.needs)))

    def check(self, task: Task) -> None:
        check_reward(self.first, task)
        check_reward(self.then, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Judges all trajectories by `first` and `then`. Raises UserError if `then` has a component with the name of `first`."""
        first, then = await asyncio.gather(*(part.score(groups, signals, world) for part in (self.first, self.then)))
        for part, rows in ((self.first, first), (self.then, then)):
            check_judgements(part, rows, groups)
        return [[self._judged(a, b) for a, b in zip(one, two, strict=True)] for one, two in zip(first, then, strict=True)]

    def _judged(self, first: Judgement, then: Judgement) -> Judgement:
        name = name_of(self.first)
        own = dict(then.components) or {name_of(self.then): then.reward}
        if name in own:
            raise UserError(f"GatedReward: both parts give the component {name}; use two different rewards")
        components = Frozen({name: first.reward, **own})
        if isinstance(first.reward, Failed):
            return Judgement(replace(first.reward, reason=f"{name}: {first.reward.reason}"), components)
        if isinstance(first.reward, NotApplicable) or first.reward >= self.least:
            return replace(then, components=components)
        return Judgement(0.0, components, extra=then.extra)
