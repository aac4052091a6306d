"""Answers that are sampled over several steps. The weights change between these steps: the policy of the next step continues unfinished answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import prompt_before, sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name
from gradus.rollouts.serialise import answer_of, begun_answer, kept_answer, kept_prompt, kept_request, prompt_of, request_of
from gradus.rollouts.single_turn import one_turn
from gradus.types import Context, Ended, Group, Request, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True, eq=False)
class Flight:
    """A group in progress: its request, the number of the step in which it began (`since`), its prompt and its answers so far."""

    request: Request
    since: int
    prompt: Context
    answers: tuple[Context, ...]

    def open(self, limit: int) -> list[int]:
        """Returns the indices of the unfinished answers, which were cut at the end of a part and have fewer than `limit` tokens."""
        return [i for i, a in enumerate(self.answers) if a.ended is Ended.LENGTH and a.actions < limit]


@dataclass(frozen=True)
class InFlight:
    """In each step, every answer grows by at most 1 / `parts` of its token limit. Finished groups are returned. The next step continues the other groups
    after their last tokens, with its own weights. So the tokens of an answer may come from several versions of the policy. Each token has its own version
    and log-probability, and no token is older than `parts` - 1 steps. Every group is returned within `parts` steps. A step returns on average as many
    groups as requested; the first steps return fewer or none. At test time the policy answers without interruption.
    """

    parts: int = 4  # an answer reaches its token limit after at most this number of steps; 1: no answer stays unfinished
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, parts="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def start(self) -> dict[str, Any]:
        return {"flights": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns the judged finished groups, the oldest first, and the state with the unfinished groups.

        Raises UserError if the task has an environment.
        """
        refuse_environment(world)
        flights = [*(flight_of(kept, state.get("media", {})) for kept in state["flights"]), *(launched(r, world) for r in requests)]
        flights = await advanced(flights, world, world.call("in_flight"), lambda limit: -(-limit // self.parts))
        left = [f for f in flights if f.open(limit(f, world))]
        world.note("in_flight", len(left))
        groups = [grouped(f, world) for f in flights if f not in left]
        held: dict[str, np.ndarray] = {}
        kept = [kept_flight(f, held) for f in left]
        return await world.judge(groups), {"flights": kept, **({"media": held} if held else {})}


async def advanced(flights: Sequence[Flight], world: World, call: str, part: Callable[[int], int]) -> list[Flight]:
    """Returns all flights, with one more part for every unfinished answer. All parts are sampled together.

    `part`(token limit of an answer): the largest number of new tokens. `call`: the name of the call. A second call in a step has another name, and therefore
    new random draws. Metrics: `decode_steps`, the tokens of the longest part; `idle`, the decoding steps that all slots together wait for the longest part,
    divided by the number of sampled tokens.
    """
    again = () if call.endswith("/1") else ("again", call)
    jobs = [(n, i) for n, f in enumerate(flights) for i in f.open(limit(f, world))]
    chunks = await world.sample([continued(flights[n], i, world, part, again) for n, i in jobs])
    note_waiting([chunk.actions for (chunk,) in chunks], world)
    answers = [list(f.answers) for f in flights]
    for (n, i), (chunk,) in zip(jobs, chunks, strict=True):
        stops = sampling_of(flights[n].request, world).stops
        answers[n][i] = stopped(answers[n][i].then(chunk), chunk.actions, stops, world, flights[n].request.player)
    return [replace(f, answers=tuple(row)) for f, row in zip(flights, answers, strict=True)]


def continued(flight: Flight, index: int, world: World, part: Callable[[int], int], again: tuple[str, ...]) -> Request:
    """Returns the request for the next part of an answer. `again`: tags that make the draws of a second call in a step new."""
    request, answer = named(flight, world), flight.answers[index]
    sampling = sampling_of(request, world)
    room = min(part(sampling.limit), sampling.limit - answer.actions)
    prompt = answer if answer.actions else flight.prompt
    limited = replace(sampling, max_tokens=room)
    return replace(request, count=1, sample=request.sample + index, prompt=prompt, sampling=limited, tags=(*request.tags, *again))


def note_waiting(lengths: Sequence[int], world: World) -> None:
    """Records the decoding steps, and the idle token-steps per sampled token, of parts with these lengths that are sampled in parallel."""
    if sum(lengths):
        world.note("decode_steps", max(lengths))
        world.note("idle", len(lengths) * max(lengths) / sum(lengths) - 1)


def refuse_environment(world: World) -> None:
    """Raises UserError if the task has an environment."""
    if world.task.environment is not None:
        raise UserError(f'task "{world.task.name}" has an environment, but this rollout gives answers of one turn; set --rollout Episodes')


def launched(request: Request, world: World) -> Flight:
    """Returns the flight of a new request, with empty answers."""
    prompt = prompt_before(request, world)
    return Flight(replace(request, prompt=None, at=None), world.step, prompt, (begun_answer(prompt),) * request.count)


def limit(flight: Flight, world: World) -> int:
    """Returns the token limit of an answer."""
    return sampling_of(flight.request, world).limit


def named(flight: Flight, world: World) -> Request:
    """Returns the request with its name in this step.

    If the request is from an earlier step, the number of that step is added as a tag. So the name differs from the name of a new request for the same problem.
    """
    request = flight.request
    return request if flight.since == world.step else replace(request, tags=(*request.tags, "since", flight.since))


def stopped(answer: Context, new: int, stops: Sequence[str], world: World, player: str) -> Context:
    """Cuts an answer of a player at its first stop string (`until_stop`)."""
    return until_stop(answer, new, stops, lambda tokens: world.text(tokens, player))


def until_stop(answer: Context, new: int, stops: Sequence[str], text: Callable[[np.ndarray], str]) -> Context:
    """Cuts an answer at its first stop string. This is necessary because the sampler of the last `new` tokens does not find a stop string that began before
    these tokens.

    `text` gives the text of tokens.
    """
    if not any(stop in text(answer.tokens) for stop in stops):
        return answer
    ends = range(len(answer.tokens) - new + 1, len(answer.tokens) + 1)
    count = next(n for n in ends if any(stop in text(answer.tokens[:n]) for stop in stops))
    return replace(answer.first(int(answer.chosen[:count].sum())), ended=Ended.STOP)


def grouped(flight: Flight, world: World, only: Sequence[int] | None = None) -> Group:
    """Returns the finished group, without rewards. `only`: the numbers of its answers; None: all.

    Also records the number of policy versions in each answer as a metric.
    """
    request = named(flight, world)
    answers = [(i, a) for i, a in enumerate(flight.answers) if only is None or i in only]
    for _, answer in answers:
        if answer.versions is not None:
            world.note("versions", len(np.unique(answer.versions)))
    return Group(group_name(request), tuple(one_turn(request, i, answer, world) for i, answer in answers))


def kept_flight(flight: Flight, held: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns a flight as plain state. Puts the arrays of the flight's media into `held`, by digest."""
    answers = [kept_answer(a) for a in flight.answers]
    return {"request": kept_request(flight.request, held), "since": flight.since, **kept_prompt(flight.prompt, held), "answers": answers}


def flight_of(kept: Mapping[str, Any], held: Mapping[str, np.ndarray]) -> Flight:
    """Reads a flight from plain state: the inverse of `kept_flight`."""
    prompt = prompt_of(kept, held)
    return Flight(request_of(kept["request"], held), kept["since"], prompt, tuple(answer_of(a, prompt) for a in kept["answers"]))
