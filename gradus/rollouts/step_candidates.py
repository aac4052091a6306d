"""Samples several next steps at a given state. A state is a problem and a partial answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.spans import check_text
from gradus.types import Context, Frozen, Group, Problem, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import Task, World

STATE, LAST = "state", "last"  # column of a problem: tokens of the answer so far; link of a trajectory: whether its step ends the answer


@dataclass(frozen=True)
class StepCandidates:
    """Lets `player` sample next steps at the problem's `state`. A step ends with the text `stop`, or with the end of the answer.

    The last step of an answer is judged with the whole text, and has the link `last` with the value True. Other steps are not judged; their reward is 0.
    """

    stop: str = " "
    player: str = "reference"
    columns: ClassVar[frozenset[str]] = frozenset({STATE})
    names_players: ClassVar[tuple[str, ...]] = ("player",)
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Auto:
        return Auto()

    def __post_init__(self) -> None:
        if not self.stop:
            raise UserError("StepCandidates.stop is empty; give the text that ends a step, such as a blank or a line break")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group of `request.count` steps per request."""
        asked = [self._from_state(r, world) for r in requests]
        drawn = await world.sample(asked)
        groups = [
            Group(group_name(a), tuple(self._step(r, a, i, c, world) for i, c in enumerate(row)))
            for r, a, row in zip(requests, asked, drawn, strict=True)
        ]
        ends = [g.but(trajectories=tuple(t for t in g.trajectories if t.links[LAST])) for g in groups]
        judged = {t.id: t for g in await world.judge([g for g in ends if g.trajectories]) for t in g.trajectories}
        for t in (t for g in groups for t in g.trajectories):
            world.note(LAST, float(t.links[LAST]))
        return [g.but(trajectories=tuple(judged.get(t.id, t) for t in g.trajectories), pool=()) for g in groups]

    def _from_state(self, request: Request, world: World) -> Request:
        said, start = state_of(request.problem), world.prompt(request)
        sampling = sampling_of(request, world)
        limit = replace(sampling, max_tokens=max(1, sampling.limit - len(said)), stops=(*sampling.stops, self.stop))
        prompt = prompt_context(np.concatenate([start.sequence, said]), start.shown)
        return replace(request, player=self.player, prompt=prompt, sampling=limit, tags=(*request.tags, STATE, short(said)))

    def _step(self, request: Request, asked: Request, index: int, context: Context, world: World) -> Trajectory:
        before, said = state_of(request.problem), context.sequence[context.action_positions]
        return Trajectory(
            id=trajectory_name(world.step, asked, index),
            problem=request.problem,
            contexts=(context,),
            player=self.player,
            completion=world.text(np.concatenate([before, said]), self.player),
            reward=0.0,
            ended=context.ended,
            links=Frozen({LAST: self.stop not in world.text(said, self.player)}),
        )


def short(tokens: np.ndarray) -> str:
    """Returns a short name of tokens; different tokens have different names."""
    return hashlib.blake2b(tokens.tobytes(), digest_size=6).hexdigest()


def state_of(problem: Problem) -> np.ndarray:
    """Returns the tokens of the problem's `state`, int32. Raises UserError if `state` is not a list of tokens."""
    found = problem.meta.get(STATE)
    if isinstance(found, str) or not isinstance(found, Sequence) or not all(isinstance(token, int) for token in found):
        raise UserError(
            f'problem {problem.id}: "{STATE}" is {found!r}; it must be a list of token numbers; a stage with makes=StepStates() writes such lists'
        )
    return np.array(found, np.int32)
