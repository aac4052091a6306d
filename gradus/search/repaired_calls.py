"""Repairs failed calls at test time: the episode goes back to before a failed call, and the player writes the call again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.environment_calls import closed
from gradus.rollouts.episodes import Episodes, Played, Seat, refuse_long, sample_turn, trajectory
from gradus.rollouts.failed_calls import call_failed, check_calls, kept_tokens, with_stops
from gradus.rollouts.ids import group_name
from gradus.types import Context, Ended, Failed, Group, Problem, Request, Trajectory
from gradus.types.parts import Task, Turn, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class RepairedCalls:
    """Plays episodes. If a call fails, the call, its error and the last `cut` tokens of the thought before it are dropped, and the player continues from there.

    An episode has at most `tries` such repairs. After that, the player sees the errors. A dropped call does not count as a turn. Metric: `repairs` per episode.
    """

    cut: int = 100
    tries: int = 4
    play: Episodes = Episodes()

    def __post_init__(self) -> None:
        check_ranges(self, cut="[0, inf)", tries="[0, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if failed calls of the task cannot be written again."""
        check_calls(self, task)

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the repaired episode of one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` repaired episodes of each problem."""
        prompts: dict[bytes, Context] = {}
        seats = [Seat(request, i, world, prompts) for request in requests for i in range(request.count)]
        made = iter(await asyncio.gather(*(self._episode(seat) for seat in seats)))
        return await world.judge([Group(group_name(r), tuple(next(made) for _ in range(r.count))) for r in requests])

    async def _episode(self, seat: Seat) -> Trajectory:
        environment: Any = seat.world.task.environment
        async with self.play.running(environment, seat) as episode, AsyncExitStack() as copies:
            if isinstance(episode, Failed):
                asked = self.play.prompt_of(Played((Turn(""),)), seat)
                return trajectory(seat, Played((Turn(""),), contexts=(asked,), ended=Ended.FAILED, failure=episode))
            return trajectory(seat, await self._play(episode, seat, copies))

    async def _play(self, episode: Any, seat: Seat, copies: AsyncExitStack) -> Played:
        """Plays the episode to its end, with repairs."""
        played, world, player = Played((episode.first,)), seat.world, seat.request.player
        repairs = 0
        for turn in range(min(self.play.max_turns, seat.request.turns or self.play.max_turns)):
            prompt = self.play.prompt_of(played, seat)
            if len(prompt.sequence) >= world.context_length(player):
                refuse_long(prompt, seat, turn)
                played = replace(played, ended=Ended.CONTEXT)
                break
            spare = self._copy(episode, seat, turn, repairs, copies)
            sampled = await sample_turn(seat, turn, prompt)
            action = world.said(sampled, len(prompt.sequence), player)
            answer = await self.play.answered(episode, action, seat, turn)
            while spare is not None and call_failed(answer):
                repairs += 1
                episode, spare = spare, self._copy(spare, seat, turn, repairs, copies)
                where = replace(seat, request=replace(seat.request, tags=(*seat.request.tags, "repair", repairs)))
                sampled = await self._again(sampled, prompt, str(action), where, turn)
                action = world.said(sampled, len(prompt.sequence), player)
                answer = await self.play.answered(episode, action, where, turn)
            played, over = self.play.after(played, seat, prompt, sampled, action, answer)
            if over:
                break
        world.note("repairs", repairs)
        return played

    def _copy(self, episode: Any, seat: Seat, turn: int, repairs: int, copies: AsyncExitStack) -> Any:
        """Returns a copy of the episode for the next repair; None if no repair is left. `copies` closes the copy."""
        if repairs >= self.tries:
            return None
        request = seat.request
        made = episode.fork(seat.world.key.fold("repair", request.problem.id, *request.tags, request.sample + seat.index, turn, repairs))
        copies.push_async_callback(closed, made, self.play.timeout)
        return made

    async def _again(self, sampled: Context, prompt: Context, action: str, where: Seat, turn: int) -> Context:
        """Returns the action that the player writes in place of a failed one, sampled after `prompt`. The kept tokens are its first actions."""
        request, world = where.request, where.world
        kept = kept_tokens(sampled.sequence[len(prompt.sequence) :], action, self.cut, where)
        (rest,) = await world.fork(
            sampled, len(prompt.sequence) + kept, 1, problem=request.problem, tags=(*request.tags, request.sample + where.index, turn),
            sampling=with_stops(request, world), player=request.player, trained=request.trained,
        )  # fmt: skip
        return sampled.first(kept).then(rest)
