"""A rollout in which one answer of each group is the problem's worked solution, and the other answers are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.demonstrations import given, solved
from gradus.rollouts.ids import group_name
from gradus.types import Group, Request, UserError
from gradus.types.parts import Rollout, World
from gradus.types.records import SOURCES


@dataclass(frozen=True)
class MixedPolicy:
    """Makes the problem's worked solution (or demonstrated episode) the last answer of every group, with the source `source`.

    A solution is judged like the other answers. A demonstrated episode is not replayed, so its reward is 1. If the request asks for only one answer, the
    group still has one sample and the solution. At test time the policy acts alone. A term of an objective reads the answers of one source. With the source
    "policy", a term that compares the answers of a group also compares the solution. A ratio needs another source, because a solution has no
    log-probabilities at sampling.
    """

    rollout: Rollout = Auto()
    source: str = "expert"  # the source of the solutions

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise UserError(f'MixedPolicy.source is "{self.source}"; choose one of {", ".join(SOURCES)}')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order.

        Raises UserError if a problem has no solution, or if `rollout` gives more or fewer groups.
        """
        asked = [replace(r, count=max(1, r.count - 1)) for r in requests]
        experts = [written(r, world, self.source) for r in asked]
        if world.task.environment is None:
            experts = await world.judge([e.but(pool=()) for e in experts])
        groups = one_each(await rolled(self.rollout, asked, world), asked, self)
        return [
            g.but(trajectories=(*g.trajectories, *e.trajectories), pool=(*g.pool, *e.pool)) for g, e in zip(groups, experts, strict=True)
        ]


def written(request: Request, world: World, source: str = "expert") -> Group:
    """Returns the solution as its own group, with the source `source`. The trajectory gets the next number after the last sample."""
    index = request.sample + request.count
    trajectory = given(request, index, solved(request, world), world, reward=1.0, component="demonstration").but(source=source)
    return Group(group_name(request), (trajectory,), pool=(1.0,))
