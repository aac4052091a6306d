"""Sampling by another player than the learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto
from gradus.types import Group, Request
from gradus.types.parts import Task, World


@dataclass(frozen=True)
class BehaviourPolicy:
    """Sends every request to `player`. The learning player names it in `learns_from`. At test time the policy acts."""

    player: str = "generator"
    rollout: Any = Auto()

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether its trajectories need judging; `rollout` decides."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """The judged groups of `rollout`, sampled by `player`."""
        groups: list[Group] = await self.rollout.run([replace(r, player=self.player) for r in requests], world)
        return groups
