"""A greedy answer in addition to the samples of every problem, for comparison only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Group, Request
from gradus.types.parts import Rollout, World


@dataclass(frozen=True)
class WithGreedyBaseline:
    """Adds one trajectory to the end of every group of `rollout`.

    The greedy trajectory is sampled at temperature 0, and is judged like the other trajectories; no update uses it.
    """

    rollout: Rollout = Auto()
    gives: ClassVar[frozenset[str]] = frozenset({"probes"})

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order; all samples are drawn together. Raises UserError if `rollout` gives more or fewer groups."""
        asked = [*requests, *(greedy(r, world) for r in requests)]
        judged = one_each(await rolled(self.rollout, asked, world), asked, self)
        return [joined(group, probe) for group, probe in zip(judged[: len(requests)], judged[len(requests) :], strict=True)]


def greedy(request: Request, world: World) -> Request:
    """Returns a request for one sample at temperature 0; no update uses this sample."""
    sampling = replace(sampling_of(request, world), temperature=0.0)
    return replace(request, count=1, sampling=sampling, tags=(*request.tags, "greedy"), trained=False)


def joined(group: Group, probe: Group) -> Group:
    """Returns the group with the trajectories of `probe` added at the end. The group's pool is unchanged."""
    return group.but(trajectories=(*group.trajectories, *probe.trajectories))
