"""Moves answers from the longer prompt under which they were sampled to the plain prompt of their problem. So training and evaluation use the same prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.mismatched_prompts import exchanged
from gradus.types import Context, Group, Request, UserError
from gradus.types.parts import Rollout, World
from gradus.types.records import SOURCES
from gradus.types.signals import LogProb


@dataclass(frozen=True)
class Reprompted:
    """If a request has its own prompt, the answers to it get the plain prompt of the problem. Answers to other requests do not change.

    With another source than "policy", the answers have no log-probabilities at sampling, because they were sampled under another prompt. With the source
    "policy", the player computes the log-probabilities after the plain prompt, and a ratio uses these as the old log-probabilities. Works for answers of one
    turn.
    """

    rollout: Rollout = Auto()
    source: str = "expert"  # the source of the moved answers; a term of the objective reads one source
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise UserError(f'Reprompted.source is "{self.source}"; choose one of {", ".join(SOURCES)}')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        return [
            g if r.prompt is None else await reprompted(g, world.prompt(replace(r, prompt=None, at=None)), world, source=self.source)
            for r, g in zip(requests, groups, strict=True)
        ]


@dataclass(frozen=True)
class AlsoReprompted:
    """Adds to the answers of `rollout` a copy of every right answer under the plain prompt of its problem. The copies are auxiliary groups of another source.

    Only answers to requests with their own prompt get copies. Metric: `copies`, the number of copies per request with its own prompt.
    """

    rollout: Rollout = Auto()
    source: str = "expert"  # the source of the copies
    plays: ClassVar[str] = "answers"
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        if self.source not in SOURCES or self.source == "policy":
            raise UserError(f'AlsoReprompted.source is "{self.source}"; choose one of {", ".join(s for s in SOURCES if s != "policy")}')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`, unchanged."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        for r, g in zip(requests, groups, strict=True):
            if r.prompt is not None:
                right = tuple(t.but(id=f"{t.id}/plain") for t in g.trajectories if t.right)
                world.note("copies", len(right))
                if right:
                    copies = g.but(key=f"{g.key}/plain", trajectories=right, pool=())
                    world.also([await reprompted(copies, world.prompt(replace(r, prompt=None, at=None)), world, source=self.source)])
        return groups


async def reprompted(group: Group, prompt: Context, world: World, *, source: str = "policy") -> Group:
    """Returns the group with `prompt` before every answer. The other values of an answer stay, such as its reward, its end and the versions of its weights.

    Source "policy": the answers keep their source, and get their log-probabilities after `prompt`. Other sources: the answers have no log-probabilities.
    """
    moved = [[exchanged(c, prompt, world.context_length(t.player)) if c.actions else c for c in t.contexts] for t in group.trajectories]
    if source != "policy":
        kept = [[replace(m, ended=c.ended) for m, c in zip(row, t.contexts, strict=True)] for row, t in zip(moved, group.trajectories, strict=True)]
        return group.but(trajectories=tuple(t.but(contexts=tuple(row), source=source) for t, row in zip(group.trajectories, kept, strict=True)))
    rows = iter(await world.score([c for row in moved for c in row], LogProb(), group.trajectories[0].player))
    done = [
        tuple(replace(m, logprobs=next(rows).astype(np.float32), versions=c.versions, ended=c.ended) for m, c in zip(row, t.contexts, strict=True))
        for row, t in zip(moved, group.trajectories, strict=True)
    ]
    return group.but(trajectories=tuple(t.but(contexts=row) for t, row in zip(group.trajectories, done, strict=True)))
