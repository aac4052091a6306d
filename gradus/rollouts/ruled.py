"""A rollout in which a token rule draws the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.token_rules import Rounded
from gradus.types import Context, Group, Request
from gradus.types.parts import Rollout, Task, World
from gradus.types.rules import TokenRule


class _Ruled:
    """A `World` in which the rule draws the samples of its first player."""

    def __init__(self, world: World, rule: TokenRule) -> None:
        self._world, self._rule = world, rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def sample(self, requests: Sequence[Request]) -> list[list[Context]]:
        rule = self._rule
        return await self._world.sample([replace(r, how=rule) if r.player == rule.players[0] and r.how is None else r for r in requests])


def ruled(world: World, rule: TokenRule) -> World:
    """Returns a `World` in which the rule draws the samples of its first player. The key of every draw stays the same."""
    made: Any = _Ruled(world, rule)
    return made


@dataclass(frozen=True)
class Ruled:
    """Runs `rollout`, but `rule` draws every sample of the first player of the rule. The rule also draws in evaluation, unless `only_training` is True."""

    rule: TokenRule = Rounded()
    rollout: Rollout = Auto()
    only_training: bool = False

    @property
    def test(self) -> Any:
        inner = getattr(self.rollout, "test", self.rollout)
        return inner if self.only_training else replace(self, rollout=inner)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of `rollout`."""
        return await rolled(self.rollout, requests, ruled(world, self.rule))
