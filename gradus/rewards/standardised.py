"""Scales a reward by its earlier values: subtracts the running mean, and divides by the running standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rewards.combine import Combines, check_reward, name_of
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Standardised(Combines):
    """Standardises a reward whose range changes: (value of `reward` - running mean) / running standard deviation.

    The mean and the (population) deviation are computed from all values of the run so far, including this batch. If all values are equal, the reward is 0.
    Components keep their values. If `reward` has no components, its value becomes a component under its name. Rewards at single actions are divided by the
    deviation. Failed rewards and rewards that do not apply do not change. During an evaluation, its own values are included; afterwards they are dropped.
    """

    reward: Reward = Verified()
    name: ClassVar[str] = "standardised"
    unmarked: ClassVar[bool] = True  # a reward of 1 is one deviation above the mean, not a right answer

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    def start(self) -> dict[str, float]:
        return {"count": 0, "mean": 0.0, "squares": 0.0}

    async def score(
        self, groups: Sequence[Group], signals: Signals, world: World, state: dict[str, Any]
    ) -> tuple[list[list[Judgement]], dict[str, Any]]:
        judged = await self.reward.score(groups, signals, world)
        state = including(state, [j.reward for row in judged for j in row if isinstance(j.reward, int | float)])
        mean, deviation = state["mean"], math.sqrt(state["squares"] / max(state["count"], 1))
        return [[standardised(j, mean, deviation, name_of(self.reward)) for j in row] for row in judged], state


def including(state: dict[str, Any], values: Sequence[float]) -> dict[str, Any]:
    """Adds values to the state: to the count, the mean and the sum of squared distances from the mean.

    Reference: Chan, Golub and LeVeque, Algorithms for computing the sample variance (1983), eq. 2.1.
    """
    if not values:
        return state
    new = len(values)
    mean = math.fsum(values) / new
    squares = math.fsum((v - mean) ** 2 for v in values)
    count, apart = state["count"] + new, mean - state["mean"]
    return {
        "count": count,
        "mean": state["mean"] + apart * new / count,
        "squares": state["squares"] + squares + apart * apart * state["count"] * new / count,
    }


def standardised(judgement: Judgement, mean: float, deviation: float, name: str) -> Judgement:
    """Scales a judgement. A deviation below 1e-12 times the mean counts as 0, because it is only a rounding error."""
    if not isinstance(judgement.reward, int | float):
        return judgement
    flat = deviation <= 1e-12 * max(abs(mean), 1e-300)
    scale = 0.0 if flat else 1 / deviation
    steps = tuple((c, a, label, value * scale) for c, a, label, value in judgement.steps)
    return replace(
        judgement, reward=(judgement.reward - mean) * scale, components=judgement.components or Frozen({name: judgement.reward}), steps=steps
    )
