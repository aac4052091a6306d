"""Many answers, one kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.acting import Acting
from gradus.types import Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import World


@dataclass(frozen=True)
class BestOf:
    """Samples `count` answers and keeps the one with the highest reward, the earliest of equals; those whose reward failed come last.

    It asks the recipe's reward at test time: with a verifier that knows the answer, its accuracy is pass@count and no measure of the policy.
    """

    count: int = 8
    rollout: Any = Acting()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"best of: count is {self.count}; it must be 1 or more")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """The best of `count` answers to one problem."""
        (group,) = await self.run([Request(problem)], world)
        return group.trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """`request.count` answers to each problem, each the best of `count` of its own."""
        wide = [replace(r, count=r.count * self.count, sample=r.sample * self.count) for r in requests]
        groups = await self.rollout.run(wide, world)
        return [g.but(trajectories=tuple(best(g.trajectories[i : i + self.count]) for i in starts(g, self.count))) for g in groups]


def starts(group: Group, count: int) -> range:
    """Where each set of `count` answers begins."""
    return range(0, len(group.trajectories), count)


def best(trajectories: Sequence[Trajectory]) -> Trajectory:
    """The one with the highest reward, the earliest of equals."""
    return max(trajectories, key=lambda t: t.value if t.failed is None else float("-inf"))
