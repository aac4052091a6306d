"""The worked solution that a problem brings as one of its group's answers, compared with those that were sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.demonstrations import given, solved
from gradus.rollouts.ids import group_name
from gradus.types import Group, Request
from gradus.types.parts import Rollout, World


@dataclass(frozen=True)
class MixedPolicy:
    """Of every group's answers the last is the problem's worked solution (or demonstrated episode), with the source "expert".

    It is judged like the others; a demonstrated episode, which was played before, has the reward 1. A group of one is sampled and has the
    solution beside it. At test time the policy acts alone.
    """

    rollout: Rollout = Auto()

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """One judged group a request, in their order. Raises UserError for a problem without a solution, and where `rollout` gives other groups."""
        asked = [replace(r, count=max(1, r.count - 1)) for r in requests]
        experts = [written(r, world) for r in asked]
        if world.task.environment is None:
            experts = await world.judge([e.but(pool=()) for e in experts])
        groups = one_each(await rolled(self.rollout, asked, world), asked, self)
        return [
            g.but(trajectories=(*g.trajectories, *e.trajectories), pool=(*g.pool, *e.pool)) for g, e in zip(groups, experts, strict=True)
        ]


def written(request: Request, world: World) -> Group:
    """The solution as a group of its own, named as the sample after the last."""
    index = request.sample + request.count
    trajectory = given(request, index, solved(request, world), world, reward=1.0, component="demonstration")
    return Group(group_name(request), (trajectory,), pool=(1.0,))
