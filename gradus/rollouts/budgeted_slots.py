"""Answers in a fixed number of slots, with a fixed number of new tokens per step. The policy of the next step continues unfinished answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.in_flight import Flight, continued, flight_of, grouped, kept_flight, launched, limit, refuse_environment, stopped
from gradus.types import Group, Request
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

RETIRED = -1
"""The age of an answer that was given up."""

Place = tuple[int, int]
"""The number of a flight (an unfinished group), and the number of an answer in this group."""


@dataclass(frozen=True)
class BudgetedSlots:
    """Decodes `slots` answers in parallel until the step has `tokens` new tokens. A slot whose answer is finished begins the next answer at once.

    The number of new tokens of a step is at least `tokens` and below `tokens` + `slots`, if enough answers are requested. Unfinished answers keep their slots and
    continue in the next step, with its weights. If an answer is still unfinished after `retention` steps, the answer is retired: it is discarded, and its
    group is returned without it. A group is returned when each of its answers is finished or retired. If no answer to a request has begun, the request is
    dropped. At test time the
    policy answers without interruption.
    Metrics: in_flight (number of unfinished groups), retired (number of retired answers), decode_steps, idle (decoding steps of empty slots, per new token),
    versions.
    """

    tokens: int = 1024  # new tokens per step
    slots: int | None = 64  # None: the number of answers that the step requests
    retention: int = 5  # number of steps; 1: an answer that is unfinished at the end of its first step is retired
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, tokens="[1, inf)", slots="[1, inf)", retention="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def start(self) -> dict[str, Any]:
        return {"flights": []}

    async def run(self, requests: Sequence[Request], world: World, state: Mapping[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns the complete groups (judged, the oldest first) and the state with the incomplete groups. Raises UserError if the task has an environment."""
        refuse_environment(world)
        kept = state["flights"]
        flights = [*(flight_of(k, state.get("media", {})) for k in kept), *(launched(r, world) for r in requests)]
        ages = [*(list(k["ages"]) for k in kept), *([0] * r.count for r in requests)]
        slots = sum(r.count for r in requests) if self.slots is None else self.slots
        work = Work(flights, ages, world, world.call("budgeted_slots"))
        await work.decode(slots, self.tokens)
        world.note("retired", work.age(self.retention))
        begun = [n for n, f in enumerate(flights) if any(a.actions for a in work.flights[n].answers) or n < len(kept)]
        left = [n for n in begun if work.open(n)]
        world.note("in_flight", len(left))
        done = [(n, [i for i, age in enumerate(ages[n]) if age != RETIRED]) for n in begun if n not in left]
        held: dict[str, np.ndarray] = {}
        stored = [{**kept_flight(work.flights[n], held), "ages": list(ages[n])} for n in left]
        groups = [grouped(work.flights[n], world, finished) for n, finished in done if finished]
        return await world.judge(groups), {"flights": stored, **({"media": held} if held else {})}


@dataclass
class Work:
    """The answers of a step. `ages`: for every answer, the number of steps that ended before the answer was finished, or RETIRED."""

    flights: list[Flight]
    ages: list[list[int]]
    world: World
    call: str  # the name of the call of the rollout
    calls: int = 0  # calls of the sampler so far
    spent: int = 0  # new tokens so far
    clock: dict[Place, int] = field(default_factory=dict)  # for each busy slot: its answer -> decoding steps so far
    free: list[int] = field(default_factory=list)  # for each free slot: the decoding step at which it became free

    def open(self, n: int) -> list[int]:
        """Returns the answers of a flight that are neither finished nor retired."""
        return [i for i in self.flights[n].open(limit(self.flights[n], self.world)) if self.ages[n][i] != RETIRED]

    async def decode(self, slots: int, budget: int) -> None:
        """Decodes until `budget` new tokens are sampled or no answer is left. Decodes in rounds. At the start of a round all busy slots are at
        the same decoding step."""
        waiting = [(n, i) for n in range(len(self.flights)) for i in self.open(n)]
        self.clock = {(n, i): 0 for n, i in waiting if self.flights[n].answers[i].actions}
        queue = [place for place in waiting if place not in self.clock]
        self.free = [0] * max(0, slots - len(self.clock))
        target = 0
        while self.spent < budget:
            self._fill(queue, target + 1)
            if not self.clock:
                break
            target += -(-(budget - self.spent) // len(self.clock))
            while any(at < target for at in self.clock.values()):
                await self._sample(target)
                self._fill(queue, target)
        if self.spent:
            steps = max([*self.clock.values(), *self.free])
            self.world.note("decode_steps", steps)
            self.world.note("idle", (len(self.clock) + len(self.free)) * steps / self.spent - 1)

    def age(self, retention: int) -> int:
        """Adds one step to the age of every begun, unfinished answer. Returns the number of answers that are now retired."""
        gone = 0
        for n, i in self.clock:
            self.ages[n][i] += 1
            if self.ages[n][i] >= retention:
                self.ages[n][i] = RETIRED
                gone += 1
        return gone

    def _fill(self, queue: list[Place], target: int) -> None:
        """Puts waiting answers into the slots that became free before step `target`; the slot that became free first gets the first answer."""
        for at in sorted(at for at in self.free if at < target)[: len(queue)]:
            self.free.remove(at)
            self.clock[queue.pop(0)] = at

    async def _sample(self, target: int) -> None:
        """Continues every answer up to step `target`, if its slot has not reached this step yet. Finished answers leave their slots."""
        jobs = [place for place, at in self.clock.items() if at < target]
        first = not self.calls and self.call.endswith("/1")
        again = () if first else ("again", f"{self.call}/{self.calls}")
        self.calls += 1
        asked = [continued(self.flights[n], i, self.world, _part(target - self.clock[n, i]), again) for n, i in jobs]
        for (n, i), (chunk,) in zip(jobs, await self.world.sample(asked), strict=True):
            flight = self.flights[n]
            stops = sampling_of(flight.request, self.world).stops
            answer = stopped(flight.answers[i].then(chunk), chunk.actions, stops, self.world, flight.request.player)
            self.flights[n] = replace(flight, answers=(*flight.answers[:i], answer, *flight.answers[i + 1 :]))
            self.spent += chunk.actions
            at = self.clock[n, i] + chunk.actions
            if i in self.open(n):
                self.clock[n, i] = at
            else:
                del self.clock[n, i]
                self.free.append(at)


def _part(room: int) -> Callable[[int], int]:
    """Returns the argument `part` of `continued`: at most `room` new tokens, for any token limit of the answer."""
    return lambda limit: room
