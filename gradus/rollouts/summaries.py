"""Episodes with a bounded working context: if the history gets too long, the player writes a summary, and continues from the first prompt and the summary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.environment_calls import gate
from gradus.rollouts.episodes import Episodes, Played, Seat, refuse_long, sample_turn, trajectory
from gradus.rollouts.ids import group_name
from gradus.rollouts.turns import acted, begun, instruction, opening
from gradus.types import Context, Ended, Failed, Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Environment, Episode, Task, Turn, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Working:
    """The working context: `grown` ends with the last action (None: no action since the last reset), and `told` is the next observation.

    `before` is the working context before the last action and its observation; None: there is no action since the last reset.
    """

    told: str
    grown: Context | None = None
    before: Working | None = None


@dataclass(frozen=True)
class Summarised:
    """Plays episodes with a working context of at most `limit` tokens before each action.

    If the next prompt would be longer, the last action and its observation are dropped from the context, and the player reads `ask` and writes a summary. Then
    the context consists of the first prompt, `title` and the summary. A summary is an action of the player. An episode has at most `most` summaries; if it needs
    another one, it ends as truncated, without an answer. Each working context is a context of the trajectory, from its reset to its summary. If no prompt is
    longer than `limit`, the trajectories are as in `Episodes`. The link `summaries` is the number of summaries. The link `unfinished` is true if the episode
    reached the limit of turns, of summaries or of the model's context. Metrics: summaries, working (tokens of the longest prompt of an action).
    """

    limit: int = 4096  # largest number of tokens of the working context
    most: int = 7
    at_test: int | None = None  # `most` in evaluation; None: the same number as in training
    ask: str = "Summarise all known facts, so that you can continue from the summary alone."
    title: str = "Summary so far: "
    play: Episodes = Episodes(max_turns=100)
    gives: ClassVar[frozenset[str]] = frozenset({"turns", "summaries"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", most="[0, inf)", at_test="[0, inf)")
        if self.play.history is not None:
            raise UserError(f"Summarised.play.history is {self.play.history}, but the context grows until its summary; set --rollout.play.history none")

    @property
    def test(self) -> Summarised:
        return self if self.at_test is None else replace(self, most=self.at_test, at_test=None)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player does not read and write text."""
        if not task.of_text:
            raise UserError(f"Summarised asks for summaries in words, but the player of task {task.name} writes no text; set --rollout Episodes")

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request. Raises UserError if the task has no environment."""
        environment = world.task.environment
        if environment is None:
            raise UserError(f'task "{world.task.name}" has no environment, but summaries shorten episodes; take a task of many turns, such as search_qa')
        through: AbstractAsyncContextManager[Any] = gate(environment)
        seats = [Seat(request, i, world, {}, through) for request in requests for i in range(request.count)]
        made = iter(await asyncio.gather(*(self._episode(environment, seat) for seat in seats)))
        return await world.judge([Group(group_name(r), tuple(next(made) for _ in range(r.count))) for r in requests])

    async def _episode(self, environment: Environment, seat: Seat) -> Trajectory:
        async with self.play.running(environment, seat) as episode:
            if isinstance(episode, Failed):
                lost = Played((Turn(""),))
                return trajectory(seat, replace(lost, contexts=(self.play.prompt_of(lost, seat),), ended=Ended.FAILED, failure=episode))
            played, summaries, longest = await self._play(episode, seat)
        seat.world.note("summaries", summaries)
        seat.world.note("working", longest)
        made = trajectory(seat, played)
        over = made.ended in (Ended.ENVIRONMENT, Ended.FAILED) or played.turns[-1].truncated
        return made.but(links=Frozen({**made.links, "summaries": summaries, "unfinished": not over}))

    async def _play(self, episode: Episode, seat: Seat) -> tuple[Played, int, int]:
        """Plays an episode. Returns the episode with all its working contexts, the number of its summaries, and the tokens of its longest prompt."""
        first = words_of(episode.first, seat)
        working, longest, played = Working(first), 0, Played((episode.first,))
        done: list[Context] = []
        for t in range(min(self.play.max_turns, seat.request.turns or self.play.max_turns)):
            prompt = shown(working, seat)
            if len(prompt.sequence) > self.limit and working.before is not None:
                if len(done) == self.most:
                    break
                context, summary = await self._summary(working.before, len(done), t, seat)
                done.append(context)
                working = Working(f"{first}\n{self.title}{summary}")
                prompt = shown(working, seat)
            if len(prompt.sequence) >= seat.world.context_length(seat.request.player):
                refuse_long(prompt, seat, t)
                played = replace(played, ended=Ended.CONTEXT)
                break
            longest = max(longest, len(prompt.sequence))
            sampled = await sample_turn(seat, t, prompt)
            action = seat.world.said(sampled, len(prompt.sequence), seat.request.player)
            answer = await self.play.answered(episode, action, seat, t)
            turn = Turn("") if isinstance(answer, Failed) else answer
            grown = acted(prompt, sampled, t, played.turns[-1], turn)
            working = Working(words_of(turn, seat), grown, replace(working, before=None))
            played = replace(played, turns=(*played.turns, turn), actions=(*played.actions, action))
            if isinstance(answer, Failed):
                played = replace(played, ended=Ended.FAILED, failure=answer)
            elif turn.terminated or turn.truncated or sampled.ended is Ended.CONTEXT:
                played = replace(played, ended=Ended.ENVIRONMENT if turn.terminated else Ended.TRUNCATED if turn.truncated else Ended.CONTEXT)
            else:
                continue
            break
        last = working.grown if working.grown is not None else shown(working, seat)
        return replace(played, contexts=(*done, last)), len(done), longest

    async def _summary(self, working: Working, number: int, turn: int, seat: Seat) -> tuple[Context, str]:
        """Returns the working context with its summary, and the text of the summary."""
        prompt = shown(replace(working, told=f"{working.told}\n{self.ask}"), seat)
        tags = (*seat.request.tags, "summary", number)
        asked = replace(seat.request, count=1, prompt=prompt, at=None, tags=tags, sample=seat.request.sample + seat.index)
        ((sampled,),) = await seat.world.sample([asked])
        text = str(seat.world.said(sampled, len(prompt.sequence), seat.request.player))
        return acted(prompt, sampled, turn, Turn(working.told), Turn("")), text.strip()


def words_of(turn: Turn, seat: Seat) -> str:
    """Returns the observation of a turn. Raises UserError if it is not a text."""
    if not isinstance(turn.observation, str):
        raise UserError(f'task "{seat.world.task.name}" shows more than text, but Summarised keeps only text; set --rollout Episodes')
    return turn.observation


def shown(working: Working, seat: Seat) -> Context:
    """Returns the context from which the player acts next."""
    request, world = seat.request, seat.world
    if working.grown is not None:
        return working.grown.then(world.follow(working.told, working.grown, request.player))
    opened = world.opening(opening(instruction(request, world.task.system), working.told), request.player)
    return begun(opened)
