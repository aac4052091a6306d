"""A rollout in which a player other than the learner samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.auto import Auto, rolled
from gradus.types import Group, Request
from gradus.types.parts import Rollout, Task, World


@dataclass(frozen=True)
class BehaviourPolicy:
    """In training, sends every request to `player`; in evaluation, the policy acts. Another player learns from these samples if its field `learns_from` names
    `player`.
    """

    player: str = "generator"
    rollout: Rollout = Auto()
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of `rollout`, which `player` samples."""
        return await rolled(self.rollout, [replace(r, player=self.player) for r in requests], world)
