"""Sampling on until the step has as many useful groups as it asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto
from gradus.selection.filters import Mixed, without_failures
from gradus.types import Group, Request, without_aside
from gradus.types.parts import World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class DynamicSampling:
    """Asks the curriculum for further problems until as many groups as were asked for would be kept, or `rounds` are done.

    Each round asks for as many problems as are still missing, so no useful group is thrown away. All groups are returned, those that
    would be dropped too; the recipe's selection drops them.
    """

    rollout: Any = Auto()
    until: Any = Mixed()  # a selection: a group counts that it keeps
    rounds: int = 10  # rounds of sampling at most, the first included

    def __post_init__(self) -> None:
        check_ranges(self, rounds="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """The judged groups of all rounds. Problems of later rounds carry the tags "refill" and the round: their draws are their own."""
        groups: list[Group] = list(await self.rollout.run(requests, world))
        for index in range(1, self.rounds):
            missing = len(requests) - len(self.until.keep(without_failures(without_aside(groups)), world.key)[0])
            asked = await world.more(missing) if missing > 0 else []
            if not asked:
                break
            groups += await self.rollout.run([replace(r, tags=(*r.tags, "refill", index)) for r in asked], world)
        return groups
