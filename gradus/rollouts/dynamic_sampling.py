"""Repeated sampling until the step has the requested number of useful groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from gradus.rollouts.auto import Auto, rolled
from gradus.selection.filters import Mixed, without_failures
from gradus.types import Group, Request, without_aside
from gradus.types.parts import Rollout, Selection, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_kept


@dataclass(frozen=True)
class DynamicSampling:
    """Samples more problems of the curriculum in up to `rounds` rounds, until the selection `until` would keep the requested number of groups.

    Each round asks only for the missing number of problems, so no useful group is discarded. All groups are returned, even groups that `until` would drop;
    the recipe's own selection drops these groups.
    """

    rollout: Rollout = Auto()
    until: Selection = Mixed()  # a selection; only the groups that it keeps are counted
    rounds: int = 10  # largest number of rounds of sampling, including the first

    def __post_init__(self) -> None:
        check_ranges(self, rounds="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of all rounds."""
        return (await refilled(requests, self.rollout, self.until, world, rounds=self.rounds))[0]


async def refilled(
    requests: Sequence[Request], rollout: Rollout, until: Selection, world: World, *, rounds: int | None = None, most: float = math.inf
) -> tuple[list[Group], int]:
    """Samples until `until` keeps as many groups as were requested. Returns the judged groups of all rounds, and the number of sampled problems.

    `rounds`: the largest number of rounds; None: no limit. `most`: the largest number of sampled problems per requested problem. In later rounds, the
    requests have two tags, "refill" and the number of the round, and therefore other random draws.
    """
    groups, sampled = await rolled(rollout, requests, world), len(requests)
    limit = most if math.isinf(most) else int(most * len(requests))
    for index in count(1) if rounds is None else range(1, rounds):
        whole = without_failures(without_aside(groups))
        kept = until.keep(whole, world.key)
        check_kept(until, kept, whole, world.key)
        missing = int(min(len(requests) - len(kept[0]), limit - sampled))
        asked = await world.more(missing) if missing > 0 else []
        if not asked:
            break
        sampled += len(asked)
        groups += await rolled(rollout, [replace(r, tags=(*r.tags, "refill", index)) for r in asked], world)
    return groups, sampled
