"""Sampling on until the step has as many useful groups as it asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto, rolled
from gradus.selection.filters import Mixed, without_failures
from gradus.types import Group, Request
from gradus.types.parts import Rollout, Selection, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_kept


@dataclass(frozen=True)
class DynamicSampling:
    """Asks the curriculum for further problems until as many groups as were asked for would be kept, or `rounds` are done.

    Each round asks for as many problems as are still missing, so no useful group is thrown away. All groups are returned, those that
    would be dropped too; the recipe's selection drops them.
    """

    rollout: Rollout = Auto()
    until: Selection = Mixed()  # a selection: a group counts that it keeps
    rounds: int = 10  # rounds of sampling at most, the first included

    def __post_init__(self) -> None:
        check_ranges(self, rounds="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """The judged groups of all rounds. Problems of later rounds carry the tags "refill" and the round: their draws are their own."""
        groups = await rolled(self.rollout, requests, world)
        for index in range(1, self.rounds):
            whole = without_failures(groups)
            kept = self.until.keep(whole, world.key)
            check_kept(self.until, kept, whole, world.key)
            missing = len(requests) - len(kept[0])
            asked = await world.more(missing) if missing > 0 else []
            if not asked:
                break
            groups += await rolled(self.rollout, [replace(r, tags=(*r.tags, "refill", index)) for r in asked], world)
        return groups
