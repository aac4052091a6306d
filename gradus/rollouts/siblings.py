"""Samples a second group of answers to every problem, for a comparison with the first group. No update uses the second group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Frozen, Group, Request, Trajectory
from gradus.types.parts import Rollout, Task, World

LINK = "sibling"  # the reward of the sibling answer, in `links`


@dataclass(frozen=True)
class SiblingGroups:
    """Lets `player` answer every problem as often as the policy. `links["sibling"]` of the policy's answer i is the reward of answer i of `player`.

    If answer i of `player` has no reward, the link is None. The second groups are judged like the first groups, and stored as auxiliary groups; no
    update uses them. So the reward and accuracy of a step cover only the groups of `rollout`. Metric: `sibling_reward`.
    """

    rollout: Rollout = Auto()
    player: str = "reference"
    gives: ClassVar[frozenset[str]] = frozenset({"siblings"})
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request; all groups are sampled together. Raises UserError if `rollout` gives more or fewer groups."""
        return await with_siblings(requests, [replace(r, player=self.player) for r in requests], self, world)


async def with_siblings(requests: Sequence[Request], second: Sequence[Request], part: Any, world: World) -> list[Group]:
    """Returns the judged groups of `requests`, each linked to the group of its request in `second`.

    `part.rollout` samples all groups together. The second groups are stored as auxiliary groups, and no update uses them. Raises UserError if the rollout
    gives more or fewer groups.
    """
    asked = [*requests, *(replace(r, tags=(*r.tags, "sibling"), trained=False) for r in second)]
    judged = one_each(await rolled(part.rollout, asked, world), asked, part)
    own, others = judged[: len(requests)], judged[len(requests) :]
    world.also([g.but(trajectories=tuple(t.but(trained=False) for t in g.trajectories)) for g in others])
    rewards = [t.value for g in others for t in g.trajectories if t.failed is None]
    if rewards:
        world.note("sibling_reward", sum(rewards) / len(rewards))
    return [linked(group, other) for group, other in zip(own, others, strict=True)]


def linked(group: Group, other: Group) -> Group:
    """Returns the group with new links: answer i gets the reward of the other group's answer i, or None if there is no such reward."""

    def of(t: Trajectory, i: int) -> Trajectory:
        sibling = other.trajectories[i] if i < len(other.trajectories) else None
        return t.but(links=Frozen({**t.links, LINK: sibling.value if sibling is not None and sibling.failed is None else None}))

    return group.but(trajectories=tuple(of(t, i) for i, t in enumerate(group.trajectories)))
