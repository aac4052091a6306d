"""Two rollouts in one step, each on its own problems: for example, one samples from the policy, and the other gives worked solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.demonstrations import Demonstrations
from gradus.types import Group, Request
from gradus.types.parts import Rollout, Task, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Beside:
    """Runs `rollout`, and then `other` on further problems. `share` is the share of all requested samples that comes from `other`.

    With 256 samples of `rollout` and a share of 0.2, `other` gives 64. Updates use the groups of `other`, but these groups are auxiliary
    (`Group.aside`): they have their own metrics. At test time `rollout` acts alone.
    """

    rollout: Rollout = Auto()
    other: Rollout = Demonstrations()
    share: float = 0.2  # share of `other` in the samples of both rollouts; 0: `other` gives none
    count: int = 1  # samples of `other` per problem; a demonstration is one sample

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1)", count="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of `rollout`, then the groups of `other`. If the curriculum has no more problems, there are fewer groups of `other`."""
        groups = await rolled(self.rollout, requests, world)
        problems = beside(sum(r.count for r in requests), share=self.share, count=self.count)
        asked = await world.more(problems) if problems else []
        more = [replace(r, count=self.count, tags=(*r.tags, "beside")) for r in asked]
        found = await rolled(self.other, more, world) if more else []
        world.note("beside", sum(len(g.trajectories) for g in found))
        return [*groups, *(g.but(aside=True) for g in found)]


def beside(own: int, *, share: float, count: int) -> int:
    """Returns the rounded number of problems for `other`. With `count` samples per problem, these problems together have the share `share` of all samples.
    `own` is the number of samples of the first rollout.
    """
    return round(own * share / (1 - share) / count)
