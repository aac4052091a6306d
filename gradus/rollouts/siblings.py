"""A second group of answers to every problem, from another player or under another prompt. The second group is compared with the first group, and no
update uses the second group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Frozen, Group, Key, Problem, Request, Trajectory
from gradus.types.parts import Rollout, Task, World
from gradus.types.prompts import Prompt, prompt_of

LINK = "sibling"  # the reward of the sibling answer, in `links`


class Rewording(Protocol):
    """Another prompt for the second group, with the number of its answers."""

    @property
    def count(self) -> int: ...

    def of(self, prompt: Prompt, problem: Problem, key: Key) -> Prompt:
        """Returns the prompt that the second group answers."""
        ...


@dataclass(frozen=True)
class SiblingGroups:
    """Lets `player` answer every problem as often as the policy. `links["sibling"]` of the policy's answer i is the reward of answer i of `player`.

    With `rewording`, the second group answers another prompt of the problem, as often as the rewording says.

    If answer i of `player` has no reward, the link is None. The second groups are judged like the first groups, and stored as auxiliary groups; no
    update uses them. So the reward and accuracy of a step cover only the groups of `rollout`. Metric: `sibling_reward`.
    """

    rollout: Rollout = Auto()
    player: str = "reference"
    rewording: Rewording | None = None  # the prompt of the second group; None: the same prompt
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
        asked = [*requests, *(self._other(r, world) for r in requests)]
        judged = one_each(await rolled(self.rollout, asked, world), asked, self)
        own, others = judged[: len(requests)], judged[len(requests) :]
        world.also([g.but(trajectories=tuple(t.but(trained=False) for t in g.trajectories)) for g in others])
        rewards = [t.value for g in others for t in g.trajectories if t.failed is None]
        if rewards:
            world.note("sibling_reward", sum(rewards) / len(rewards))
        return [linked(group, other) for group, other in zip(own, others, strict=True)]

    def _other(self, request: Request, world: World) -> Request:
        prompt, count = request.prompt, request.count
        if self.rewording is not None:
            key = world.key.fold("rewording", request.problem.id)
            prompt, count = self.rewording.of(prompt_of(request, world.task.system), request.problem, key), self.rewording.count
        return replace(request, player=self.player, prompt=prompt, count=count, tags=(*request.tags, "sibling"), trained=False)


def linked(group: Group, other: Group) -> Group:
    """Returns the group with new links: answer i gets the reward of the other group's answer i, or None if there is no such reward."""

    def of(t: Trajectory, i: int) -> Trajectory:
        sibling = other.trajectories[i] if i < len(other.trajectories) else None
        return t.but(links=Frozen({**t.links, LINK: sibling.value if sibling is not None and sibling.failed is None else None}))

    return group.but(trajectories=tuple(of(t, i) for i, t in enumerate(group.trajectories)))
