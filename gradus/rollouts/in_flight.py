"""Answers that go on being written while the weights change: what a step does not finish is gone on with by the next one's policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name
from gradus.rollouts.serialise import answer_of, begun_answer, flat_prompt, kept_answer, kept_request, request_of
from gradus.rollouts.single_turn import one_turn
from gradus.types import Context, Ended, Group, Request, UserError, prompt_context
from gradus.types.parts import World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True, eq=False)
class Flight:
    """A group that is being written: its request, the step in which it began, its prompt, its answers so far."""

    request: Request
    since: int
    prompt: Context
    answers: tuple[Context, ...]

    def open(self, limit: int) -> list[int]:
        """The answers that are not finished: cut by a part's end, with room for more."""
        return [i for i, a in enumerate(self.answers) if a.ended is Ended.LENGTH and a.actions < limit]


@dataclass(frozen=True)
class InFlight:
    """Every step each answer grows by a part of its limit; groups that are finished are returned, the others stay in flight.

    The next step goes on with them at the token where they stand, under the weights that it finds. So the tokens of an answer may come from
    several versions of the policy, each with its own version and log-probability, and none is older than `parts` - 1 steps. Every group comes
    back within `parts` steps: on average as many as are asked for, in the first steps fewer or none. At test time the policy answers in one go.
    """

    parts: int = 4  # steps over which an answer as long as its limit is written; 1: in one go, and nothing is ever in flight
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, parts="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def start(self) -> dict[str, Any]:
        return {"flights": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """The judged groups that are finished, oldest first, and those in flight. Raises UserError where the task is played over many turns."""
        if world.task.environment is not None:
            raise UserError(f'task "{world.task.name}" is played in an environment, but this rollout has one turn; set --rollout Episodes')
        flights = [*(flight_of(kept) for kept in state["flights"]), *(launched(r, world) for r in requests)]
        flights = await self._advanced(flights, world)
        left = [f for f in flights if f.open(limit(f, world))]
        world.note("in_flight", len(left))
        groups = [grouped(f, world) for f in flights if f not in left]
        return await world.judge(groups), {"flights": [kept_flight(f) for f in left]}

    async def _advanced(self, flights: Sequence[Flight], world: World) -> list[Flight]:
        """All flights with every unfinished answer one part longer, sampled together."""
        jobs = [(n, i) for n, f in enumerate(flights) for i in f.open(limit(f, world))]
        chunks = await world.sample([self._next(flights[n], i, world) for n, i in jobs])
        answers = [list(f.answers) for f in flights]
        for (n, i), (chunk,) in zip(jobs, chunks, strict=True):
            stops = (flights[n].request.sampling or world.sampling).stops
            answers[n][i] = stopped(grown(answers[n][i], chunk), chunk.actions, stops, world, flights[n].request.player)
        return [replace(f, answers=tuple(row)) for f, row in zip(flights, answers, strict=True)]

    def _next(self, flight: Flight, index: int, world: World) -> Request:
        request, answer = named(flight, world), flight.answers[index]
        sampling = request.sampling or world.sampling
        room = min(-(-sampling.max_tokens // self.parts), sampling.max_tokens - answer.actions)
        prompt = answer if answer.actions else flight.prompt
        return replace(request, count=1, sample=request.sample + index, prompt=prompt, sampling=replace(sampling, max_tokens=room))


def launched(request: Request, world: World) -> Flight:
    """A group of which nothing is written yet."""
    prompt = flat_prompt(world.prompt(request) if request.at is None else prompt_context(world.prompt(request).sequence[: request.at]))
    return Flight(replace(request, prompt=None, at=None), world.step, prompt, (begun_answer(prompt),) * request.count)


def limit(flight: Flight, world: World) -> int:
    """The most tokens of an answer."""
    return (flight.request.sampling or world.sampling).max_tokens


def named(flight: Flight, world: World) -> Request:
    """The request under the name that it has in this step: one that began earlier says when, for its problem may come again."""
    request = flight.request
    return request if flight.since == world.step else replace(request, tags=(*request.tags, "since", flight.since))


def grown(answer: Context, new: Context) -> Context:
    """The answer with the tokens that were sampled after it."""
    return replace(
        answer,
        tokens=np.concatenate([answer.tokens, new.tokens]),
        chosen=np.concatenate([answer.chosen, new.chosen]),
        logprobs=_joined(answer.logprobs, new.logprobs),
        versions=_joined(answer.versions, new.versions),
        temperature=new.temperature,
        ended=new.ended,
    )


def _joined(old: np.ndarray | None, new: np.ndarray | None) -> np.ndarray | None:
    return None if old is None or new is None else np.concatenate([old, new])


def stopped(answer: Context, new: int, stops: Sequence[str], world: World, player: str) -> Context:
    """The answer cut where its text first holds a stop string that began before its last `new` tokens, and so was not seen by who sampled them."""
    if not any(stop in world.text(answer.tokens, player) for stop in stops):
        return answer
    ends = range(len(answer.tokens) - new + 1, len(answer.tokens) + 1)
    count = next(n for n in ends if any(stop in world.text(answer.tokens[:n], player) for stop in stops))
    logprobs, versions = (None if rows is None else rows[:count] for rows in (answer.logprobs, answer.versions))
    return replace(
        answer, tokens=answer.tokens[:count], chosen=answer.chosen[:count], logprobs=logprobs, versions=versions, ended=Ended.STOP
    )


def grouped(flight: Flight, world: World) -> Group:
    """The finished group, not yet judged; notes from how many versions of the policy its answers come."""
    request = named(flight, world)
    for answer in flight.answers:
        if answer.versions is not None:
            world.note("versions", len(np.unique(answer.versions)))
    return Group(group_name(request), tuple(one_turn(request, i, answer, world) for i, answer in enumerate(flight.answers)))


def kept_flight(flight: Flight) -> dict[str, Any]:
    """A flight as plain state."""
    answers = [kept_answer(a) for a in flight.answers]
    return {"request": kept_request(flight.request), "since": flight.since, "prompt": flight.prompt.sequence, "answers": answers}


def flight_of(kept: Mapping[str, Any]) -> Flight:
    """The inverse of `kept_flight`."""
    prompt = prompt_context(kept["prompt"])
    return Flight(request_of(kept["request"]), kept["since"], prompt, tuple(answer_of(a, prompt) for a in kept["answers"]))
