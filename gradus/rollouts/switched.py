"""Answers that one policy begins and another policy ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of, single
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.ruled import Ruled
from gradus.rollouts.token_rules import GuidedByQ
from gradus.types import Context, Group, Request, Trajectory
from gradus.types.parts import World
from gradus.types.rules import TokenRule


@dataclass(frozen=True)
class SwitchedRollIn:
    """Samples answers: `rule` draws the first h tokens (h is random), and the policy draws the other tokens.

    The number h is a uniform random number below the length of an answer that `rule` draws alone.
    """

    rule: TokenRule = GuidedByQ()
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Any:
        """The rollout of evaluation: `rule` draws all tokens."""
        return Ruled(self.rule, Auto())

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request. Only the tokens after the first h are actions."""
        singles = single(requests)
        led = [replace(r, how=self.rule, tags=(*r.tags, "guided"), trained=False) for r in singles]
        guided = [contexts[0] for contexts in await world.sample(led)]
        switches = [switch_of(r, c.actions, world) for r, c in zip(singles, guided, strict=True)]
        asked = [self._roll_out(r, c, h, world) for r, c, h in zip(singles, guided, switches, strict=True)]
        answers = [contexts[0] for contexts in await world.sample(asked)]
        rows = iter([self._trajectory(*row, world) for row in zip(singles, guided, switches, answers, strict=True)])
        return await world.judge([Group(group_name(r), tuple(next(rows) for _ in range(r.count))) for r in requests])

    def _roll_out(self, request: Request, guided: Context, switch: int, world: World) -> Request:
        sampling = sampling_of(request, world)
        at = len(guided.sequence) - guided.actions + switch
        return replace(request, prompt=guided, at=at, sampling=replace(sampling, max_tokens=sampling.limit - switch))

    def _trajectory(self, request: Request, guided: Context, switch: int, answer: Context, world: World) -> Trajectory:
        tokens = np.concatenate([guided.tokens[guided.chosen][:switch], answer.tokens])
        return Trajectory(
            id=trajectory_name(world.step, request, 0),
            problem=request.problem,
            contexts=(answer,),
            player=request.player,
            completion=world.text(tokens, request.player),
            ended=answer.ended,
            trained=request.trained,
        )


def switch_of(request: Request, length: int, world: World) -> int:
    """Returns h of one answer, uniform in 0 .. length - 1; 0 if `length` is 0. The run, the step and the answer determine h."""
    key = world.key.fold("switch", request.player, request.problem.id, *request.tags, request.sample)
    return int(key.uniform()[()] * length)
