"""A search that drafts an answer, lets two refiners rewrite the draft, and keeps the candidate with the highest score of a model of outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of, single
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.demonstrations import told
from gradus.rollouts.ids import group_name
from gradus.rollouts.spans import rows_of
from gradus.rollouts.step_repairs import RepairDraft, refining
from gradus.types import Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Value
from gradus.types.spans import STEPS, Marking, scores_at_ends

WAYS = ("draft", "sample", "global", "local")


@dataclass(frozen=True)
class BestRefinement:
    """Drafts greedily, refines the draft, and keeps the candidate with the highest score of `orm`; the earliest if scores are equal.

    `ways` makes the candidates: "draft" and "sample" (a sampled answer) by the policy, "global" and "local" by the refiners, greedily.
    """

    ways: tuple[str, ...] = ("draft", "global", "local")
    threshold: float = 0.5  # the mark goes before the first step with a smaller score
    marking: Marking = STEPS
    orm: str = "orm"
    sorm: str = "sorm"
    names_players: ClassVar[tuple[str, ...]] = ("orm", "sorm")

    def __post_init__(self) -> None:
        check_ranges(self, threshold="(0, 1)")
        if not self.ways or not set(self.ways) <= set(WAYS):
            raise UserError(f"BestRefinement.ways is {self.ways}; give one or more of {', '.join(WAYS)}")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the best candidate for one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` answers per problem. All answers of a problem are equal, unless `ways` has "sample"."""
        rows = await self.candidates(single(requests), world)
        chosen = iter([row[pick] for row, pick in zip(rows, await self.picks(rows, world), strict=True)])
        return [Group(group_name(r), tuple(next(chosen) for _ in range(r.count))) for r in requests]

    async def candidates(self, requests: Sequence[Request], world: World) -> list[list[Trajectory]]:
        """Returns one judged candidate per way for each request."""
        drafts = await self._greedy([replace(r, tags=(*r.tags, "draft")) for r in requests], world)
        pairs = list(zip(requests, drafts, strict=True))
        columns = []
        for place, way in enumerate(self.ways):
            if way == "sample":
                asked = [replace(r, tags=(*r.tags, way, place)) for r in requests]
                columns.append([g.trajectories[0] for g in one_each(await rolled(Auto(), asked, world), asked, self)])
                continue
            shown: Sequence[str | None] = [None if way == "draft" or not t.actions else t.completion for t in drafts]
            if way == "local":
                shown = await self._marked(pairs, world)
            asked = [refining(r, f"{way}_refiner", text, world) for r, text in zip(requests, shown, strict=True) if text is not None]
            made = iter(await self._greedy(asked, world))
            columns.append([t if text is None else next(made) for t, text in zip(drafts, shown, strict=True)])
        return [list(row) for row in zip(*columns, strict=True)]

    async def picks(self, rows: Sequence[Sequence[Trajectory]], world: World) -> list[int]:
        """Returns the number of the best candidate of each row. ORM reads every candidate after the plain prompt of its problem."""
        plain = [Request(t.problem, player=self.orm) for row in rows for t in row]
        read = [told(world.prompt(r), t.completion, r, world) for r, t in zip(plain, (t for row in rows for t in row), strict=True)]
        scores = iter([float(row[-1]) for row in await world.score(read, Value(), self.orm)])
        return [int(np.argmax([next(scores) for _ in row])) for row in rows]

    async def _marked(self, pairs: Sequence[tuple[Request, Trajectory]], world: World) -> list[str | None]:
        """Returns the draft with the mark before its first bad step; None if no step is bad."""
        drafts = [RepairDraft(r, t, rows_of(self.marking, t, world)[0]) for r, t in pairs]
        rows = await world.score([t.contexts[0] for _, t in pairs], Value(), self.sorm)
        limit = math.log(self.threshold / (1 - self.threshold))  # of the value before the sigmoid
        bad = [np.flatnonzero(scores_at_ends(row, d.row) < limit) for row, d in zip(rows, drafts, strict=True)]
        return [d.marked(int(steps[0]), world) if len(steps) else None for d, steps in zip(drafts, bad, strict=True)]

    async def _greedy(self, requests: Sequence[Request], world: World) -> list[Trajectory]:
        asked = [replace(r, sampling=replace(sampling_of(r, world), temperature=0.0)) for r in requests]
        return [g.trajectories[0] for g in one_each(await rolled(Auto(), asked, world), asked, self)] if asked else []
