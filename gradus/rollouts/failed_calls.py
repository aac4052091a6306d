"""Plays episodes with tools, and writes failed calls again: from before a failed call, the player continues several times to its next call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.clones import Remembering
from gradus.rollouts.environment_calls import closed
from gradus.rollouts.episodes import Episodes, Played, Seat, trajectory
from gradus.rollouts.ids import group_name
from gradus.rollouts.turns import acted, begun
from gradus.types import Context, Ended, Failed, Frozen, Group, Request, Sampling, Trajectory, UserError
from gradus.types.parts import Task, Turn, World
from gradus.types.ranges import check_ranges


def thought_before(action: str, environment: Any) -> str:
    """Returns the part of an action before its call: the longest beginning without which the environment reads the same call."""
    form, tools = environment.form, environment.listed
    said = form.read(action, tools)
    return action[: next((i for i in range(len(action), 0, -1) if form.read(action[i:], tools) == said), 0)]


def kept_tokens(own: np.ndarray, action: str, cut: int, seat: Seat) -> int:
    """Returns the number of tokens before the rewritten part: those of the thought before the call, without the last `cut` tokens.

    `own`: the tokens of the action. `action`: its text.
    """
    world, player = seat.world, seat.request.player
    thought = thought_before(action, world.task.environment)
    return max(0, max(k for k in range(len(own)) if thought.startswith(world.text(own[:k], player))) - cut)


def call_failed(turn: Turn | Failed) -> bool:
    """Returns whether a call of this turn failed."""
    return isinstance(turn, Turn) and any(not ok for _, ok in turn.calls)


def with_stops(request: Request, world: World) -> Sampling:
    """Returns the sampling settings of a request, with the strings that end an action."""
    sampling = sampling_of(request, world)
    stops = getattr(world.task.environment, "stops", ())
    return replace(sampling, stops=tuple(dict.fromkeys((*sampling.stops, *stops))))


def check_calls(part: object, task: Task) -> None:
    """Raises UserError if the task's environment has no form of calls, or if its episodes cannot be copied."""
    environment: Any = task.environment
    if not hasattr(environment, "form") or not getattr(environment, "forks", False):
        raise UserError(
            f'{type(part).__name__} writes failed calls again, but the environment of task "{task.name}" has no tools whose sessions can be copied; give '
            "the recipe an `environment` of the class Tools with tools that have `forks = True`, such as Python"
        )


@dataclass(frozen=True)
class FailedCall:
    """A failed call: its episode, the turn, and the state in which the player writes it again."""

    seat: Seat
    origin: str  # the episode
    turn: int
    before: Turn  # the observation before the action with the call
    begin: int  # number of tokens before this action
    prompt: Context  # the tokens before the part that is written again
    episode: Any  # a copy of the environment's episode before the action


@dataclass(frozen=True)
class RetriedCalls:
    """Plays episodes by `play`. From before each failed call, the player writes the end of the thought and the call again, `request.count` times. These
    continuations are an auxiliary group: the reward is 1 if the call runs, and 0 if it fails.

    The last `cut` tokens of the thought before the call are dropped. A continuation has only its new tokens as actions, and ends with its call. A continuation
    without a call is left out. In a step there are at most `most` auxiliary groups per requested problem, drawn at random among the failed calls. Metrics:
    `ran` (share of the calls of the episodes that run), `retried` (auxiliary groups per problem), `retried/ran` (share of the continuations whose call runs).
    """

    cut: int = 100  # tokens of the thought before the call that are written again
    most: float = 1.0  # auxiliary groups per requested problem, at most; 0: none
    play: Episodes = Episodes()
    gives: ClassVar[frozenset[str]] = frozenset({"turns"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, cut="[0, inf)", most="[0, inf)")
        if self.play.history is not None:
            raise UserError(f"RetriedCalls.play.history is {self.play.history}; set it to None, because a continuation needs the whole episode before it")

    @property
    def test(self) -> Episodes:
        return self.play

    def check_task(self, task: Task) -> None:
        """Raises UserError if failed calls of the task cannot be written again."""
        check_calls(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group of episodes per request."""
        prompts: dict[bytes, Context] = {}
        seats = [Seat(request, i, world, prompts) for request in requests for i in range(request.count)]
        async with AsyncExitStack() as stack:
            found = await asyncio.gather(*(self._played(seat, stack) for seat in seats))
            failed = [one for _, row in found for one in row]
            order = world.key.fold("failed calls").permutation(len(failed))[: int(self.most * len(requests) + 1e-9)]
            groups = await asyncio.gather(*(self._retried(failed[i]) for i in sorted(order.tolist())))
        world.also([group for group in groups if group.trajectories])
        world.note("retried", len(groups) / max(1, len(requests)))
        made = iter([t for t, _ in found])
        return await world.judge([Group(group_name(r), tuple(next(made) for _ in range(r.count))) for r in requests])

    async def _played(self, seat: Seat, stack: AsyncExitStack) -> tuple[Trajectory, list[FailedCall]]:
        """Plays an episode. Returns the episode and its failed calls. `stack` closes the copies of its states."""
        world, environment = seat.world, seat.world.task.environment
        async with self.play.running(environment, seat) as episode:  # type: ignore[arg-type]
            if isinstance(episode, Failed):
                asked = self.play.prompt_of(Played((Turn(""),)), seat)
                return trajectory(seat, Played((Turn(""),), contexts=(asked,), ended=Ended.FAILED, failure=episode)), []
            kept: Any = Remembering(episode, world.key.fold("retry", seat.request.problem.id, *seat.request.tags, seat.request.sample + seat.index))
            try:
                played = await self.play.go_on(Played((episode.first,)), kept, seat)
            finally:
                for copy in kept.copies:
                    stack.push_async_callback(closed, copy, self.play.timeout)
        made = trajectory(seat, played)
        for turn in played.turns[1:]:
            for _, ok in turn.calls:
                world.note("ran", float(ok))
        return made, [self._failed(t, made, played, kept.copies[t], seat) for t, turn in enumerate(played.turns[1:]) if call_failed(turn)]

    def _failed(self, turn: int, made: Trajectory, played: Played, episode: Any, seat: Seat) -> FailedCall:
        context = played.contexts[-1]
        positions = context.action_positions[context.streams["turn"] == turn]
        kept = kept_tokens(context.sequence[positions], str(played.actions[turn]), self.cut, seat)
        prompt = begun(context.until(int(positions[kept])))
        return FailedCall(seat, made.id, turn, played.turns[turn], int(positions[0]), prompt, episode)

    async def _retried(self, call: FailedCall) -> Group:
        """Returns the group of the continuations of one failed call."""
        request, world = call.seat.request, call.seat.world
        tags = ("retry", *request.tags, request.sample + call.seat.index, call.turn)
        at = len(call.prompt.sequence)
        drawn = await world.fork(
            call.prompt, at, request.count, problem=request.problem, tags=tags, sampling=with_stops(request, world), player=request.player,
            trained=request.trained,
        )  # fmt: skip
        made = await asyncio.gather(*(self._tried(call, i, one) for i, one in enumerate(drawn)))
        return Group(f"{call.origin}/call/{call.turn}", tuple(t for t in made if t is not None))

    async def _tried(self, call: FailedCall, index: int, sampled: Context) -> Trajectory | None:
        """Returns one judged continuation; None if it has no call."""
        request, world = call.seat.request, call.seat.world
        seat = replace(call.seat, request=replace(request, tags=(*request.tags, "retry", call.seat.index, call.turn)), index=index)
        action = world.said(sampled, call.begin, request.player)
        copy = call.episode.fork(world.key.fold("retried", call.origin, call.turn, index))
        try:
            turn = await self.play.answered(copy, action, seat, call.turn)
        finally:
            await closed(copy, self.play.timeout)
        made = Trajectory(
            f"{call.origin}/call/{call.turn}/{index}", request.problem, (sampled,), request.player, str(action), ended=sampled.ended,
            trained=request.trained, links=Frozen(origin=call.origin),
        )  # fmt: skip
        if isinstance(turn, Failed):
            return made.but(reward=turn)
        if not turn.calls:
            return None
        ran = float(not call_failed(turn))
        world.note("retried/ran", ran)
        links: dict[str, Any] = {**made.links, "calls": tuple((call.turn, *one) for one in turn.calls)}
        return made.but(reward=ran, contexts=(acted(call.prompt, sampled, call.turn, call.before, turn),), links=Frozen(links))
