"""A rollout that searches for answers near the best answer to a problem: it cuts this answer in the middle, and completes the first half again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import trajectory_name
from gradus.rollouts.in_flight import stopped
from gradus.rollouts.serialise import begun_answer, flat_prompt
from gradus.rollouts.single_turn import SingleTurn
from gradus.selection.filters import learned
from gradus.types import Context, Group, Request, Trajectory
from gradus.types.parts import World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class LocalSearch:
    """Samples `request.count` answers, cuts the best answer in the middle and completes the first half `tries` times.

    A new answer joins the group if its reward is higher than the reward of the best answer.

    Metrics: found_better, the number of added answers per group.
    """

    tries: int = 16
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, tries="[0, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        groups = await SingleTurn().run(requests, world)
        cut = {i: found for i, (r, g) in enumerate(zip(requests, groups, strict=True)) if self.tries and (found := _half(r, g, world)) is not None}
        asked = [self._request(requests[i], half, world) for i, half in cut.items()]
        chunks = await world.sample(asked) if asked else []
        tried = [
            Group(f"{groups[i].key}/search", tuple(_completed(r, n, cut[i], chunk, world) for n, chunk in enumerate(row)))
            for i, r, row in zip(cut, asked, chunks, strict=True)
        ]
        judged = dict(zip(cut, await world.judge(tried) if tried else [], strict=True))
        return [_joined(g, judged.get(i), world) for i, g in enumerate(groups)]

    def _request(self, request: Request, half: Context, world: World) -> Request:
        sampling = sampling_of(request, world)
        limited = replace(sampling, max_tokens=max(1, sampling.limit - half.actions))
        return replace(request, count=self.tries, sample=0, prompt=half, at=None, sampling=limited, tags=(*request.tags, "search"))


def _half(request: Request, group: Group, world: World) -> Context | None:
    """Returns the first half of the group's best answer; None if no answer has two tokens."""
    rated = [t for t in learned(group) if t.actions > 1 and t.failed is None]
    if not rated:
        return None
    best = max(rated, key=lambda t: t.value).contexts[0]
    count = best.actions // 2
    start = begun_answer(flat_prompt(world.prompt(request) if request.at is None else world.prompt(request).until(request.at)))
    logprobs, versions = (None if rows is None else rows[:count] for rows in (best.logprobs, best.versions))
    tokens = best.tokens[best.chosen][:count]
    return replace(start, tokens=tokens, chosen=np.ones(count, bool), logprobs=logprobs, versions=versions, temperature=best.temperature)


def _completed(request: Request, index: int, half: Context, chunk: Context, world: World) -> Trajectory:
    whole = stopped(half.then(chunk), chunk.actions, sampling_of(request, world).stops, world, request.player)
    return Trajectory(
        id=trajectory_name(world.step, request, index),
        problem=request.problem,
        contexts=(whole,),
        player=request.player,
        completion=world.text(whole.tokens[whole.chosen], request.player),
        ended=whole.ended,
        trained=request.trained,
    )


def _joined(group: Group, tried: Group | None, world: World) -> Group:
    best = max((t.value for t in learned(group) if t.failed is None), default=math.inf)
    found = {t.completion: t for t in learned(tried) if t.failed is None and t.value > best} if tried is not None else {}
    world.note("found_better", len(found))
    return group.but(trajectories=(*group.trajectories, *found.values()))
