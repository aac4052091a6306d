"""Groups that are sampled without a pause while the steps update the weights (`Streaming`).

Every worker has its own copies of the players, and draws its samples in its own thread. The clock decides the order of the finished groups, and the
version of the weights for each group. Before a step trains on its groups, it stores these decisions as a fact. If a step is repeated, the fact is already
known. The step then samples the same groups with the same versions, and reads no clock.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradus.rollouts.serialise import kept_request, request_of
from gradus.runtime.activity import FOR_REQUESTS, doing
from gradus.training.admission import admitted_until, dealt, due, first_finished, newest_finished, next_request, stale_of, too_old
from gradus.training.between_tokens import Changing, Diary
from gradus.training.changing import changing
from gradus.training.memory import Memory
from gradus.training.pace import Pace
from gradus.training.singles import check_singly, members, put_together, released, sampled_alone
from gradus.training.twins import PLACE, checked, copies, put, thread, weights_of
from gradus.types import Frozen, Group, Request

if TYPE_CHECKING:
    from gradus.players.learner import Learner
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run
    from gradus.training.world import RunWorld
    from gradus.types.systems import Streaming

CALL = "train/stream"
"""The name of the fact with a step's groups."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """A finished group of a request, with its auxiliary groups, the version of its oldest token, and the `World` of its rollout."""

    version: int
    groups: list[Group]
    world: RunWorld
    changes: Mapping[str, Any] = field(default_factory=dict)  # the samples with tokens of other versions (`between_tokens.Diary.stored`)
    lost: tuple[Mapping[str, int], ...] = ()  # the tokens, by purpose, of earlier groups of the request that were too old

    def decision(self, number: int) -> list[Any]:
        """Returns the decisions of the clock about this group, as plain values: the request and the version, and the changes and the lost tokens if there are
        any."""
        more = {name: value for name, value in (("changes", self.changes), ("lost", self.lost)) if value}
        return [number, self.version, *([more] if more else [])]


@dataclass(eq=False)
class Assigned:
    """A request that a worker samples now: the version of the weights, the weights, and the start time."""

    version: Mapping[str, Any]
    began: float
    copies: int = 0  # number of workers that sample the request


class Stream:
    """The admitted requests of a run, by number, and the workers that sample them."""

    def __init__(self, run: Run, system: Streaming) -> None:
        self.run, self.system, self.restarts = run, system, run.numbers["restarts"]
        self.threads = {"update": thread("update"), **{f"worker-{i}": thread(f"worker-{i}") for i in range(system.workers)}}
        self.players = [self._copies(i) for i in range(system.workers)]
        self.requests: dict[int, tuple[int, Request]] = {}  # number -> (the step for which it was chosen, the request)
        self.home: dict[int, int] = {}  # request -> its group; the two numbers differ only if a worker samples single answers
        self.running: dict[int, Assigned] = {}
        self.done: dict[int, Sampled] = {}  # in the order in which they finished
        self.tasks: list[asyncio.Task[None]] = []
        self.work, self.ready = asyncio.Event(), asyncio.Event()  # `work`: there may be a request to sample; `ready`: a group has finished
        self.lost: dict[int, list[Mapping[str, int]]] = {}  # request -> the tokens of its groups that were too old, by purpose
        self.loaded: dict[int, int] = {}  # worker -> the version of its weights
        self.recipe, self.pace = run.recipe, Pace(system.workers)
        self.dropped = 0  # groups that were too old
        if system.unit == "answer":
            check_singly(run.recipe.rollout)

    @property
    def queue(self) -> dict[str, int]:
        """Returns the numbers of waiting, running and finished requests, and of groups that were dropped because of their age."""
        running, done = len(self.running), len(self.done)
        waiting = max(len(self.requests) - running - done, 0)
        return {"waiting": waiting, "running": running, "finished": done, "dropped": self.dropped}

    def _copies(self, worker: int) -> dict[str, Learner]:
        """Returns the players of a worker. With `interrupt`, each player whose weights change takes new weights while it samples."""
        made = copies(self.run, worker)
        for name in changing(self.run) if self.system.interrupt else ():
            made[name].policy = Changing(made[name], lambda: self.run.history[PLACE][-1], self._version)
        return made

    def _version(self, step: int) -> Mapping[str, Any]:
        """Returns the published weights of a step."""
        return next(version for version in self.run.history[PLACE] if version["step"] == step)

    async def arrivals(self, recipe: Recipe, world: RunWorld) -> tuple[list[Request], list[Group]]:
        """Returns the requests and the judged groups of a step, in the order of their requests. Admits later requests."""
        self.recipe = recipe
        state = self.run.memory.states.setdefault(PLACE, {"part": "Streaming", "state": {"admitted": {}, "waiting": {}, "media": {}}})["state"]
        self._publish(world.step)
        await self._admit(state, world.step)
        count = state["admitted"].pop(str(world.step), 0)
        known = world.fact(CALL)
        chosen = await (self._obeyed(json.loads(known)) if known else self._finished(count, world))
        if known is None:
            world.decide(CALL, json.dumps([sampled.decision(number) for number, sampled in chosen.items()]))
        self._count(list(chosen.values()), world)
        for number in chosen:
            del state["waiting"][str(number)]
        requests = [self.requests.pop(number)[1] for number in chosen]
        home = {number: self.home.pop(number) for number in chosen}
        if self.system.unit == "answer":
            groups, aside = put_together({number: sampled.groups for number, sampled in chosen.items()}, home)
            return requests, [*await world.judge(groups), *aside]
        return requests, [group for sampled in chosen.values() for group in sampled.groups]

    def _count(self, chosen: Sequence[Sampled], world: RunWorld) -> None:
        """Adds the tokens and the notes of the chosen groups to the step. Also counts the tokens of the groups that were too old."""
        for sampled in chosen:
            world.note("staleness", world.step - sampled.version)
            world.take(sampled.world)
            for purpose, tokens in (item for spent in sampled.lost for item in spent.items()):
                world.spent[purpose] = world.spent.get(purpose, 0) + tokens
            if any(each.lost for each in chosen):
                world.note("stale", len(sampled.lost))
            for context in (c for g in sampled.groups for t in g.trajectories for c in t.contexts if self.system.interrupt and c.actions):
                if context.versions is not None:
                    world.note("versions", len(np.unique(context.versions)))

    def close(self) -> None:
        """Cancels the groups that have begun."""
        for task in self.tasks:
            task.cancel()
        for each in self.threads.values():
            each.shutdown(wait=False, cancel_futures=True)

    def _publish(self, step: int) -> None:
        """Copies the current weights, if they are due at this step. Drops weights that are too old to be used."""
        versions = self.run.history.setdefault(PLACE, [])
        if due(step, versions[-1]["step"] if versions else None, self.system.publish_every):
            versions.append({"step": step, **weights_of(self.run)})
        self.run.history[PLACE] = [v for v in versions if not too_old(v["step"], step, self.system.staleness)]

    async def _admit(self, state: dict[str, Any], now: int) -> None:
        """Chooses the requests of all steps up to `now` + staleness. After a restart, reads the requests that were waiting."""
        for number, kept in state["waiting"].items():
            self.requests.setdefault(int(number), (kept["step"], request_of(kept["request"], state["media"])))
            self.home.setdefault(int(number), kept.get("home", int(number)))
        last = admitted_until(now, self.system.staleness, None if self.run.budget is not None else self.run.began + self.run.length - 1)
        for step in range(max((int(s) for s in state["admitted"]), default=now - 1) + 1, last + 1):
            coming = await self._world(0, step).more(self.recipe.setting.prompts)
            first = state.setdefault("next", 0)
            parts = members(coming, first) if self.system.unit == "answer" else list(enumerate(coming, start=first))
            for number, (home, request) in enumerate(parts, start=first):
                self.requests[number], self.home[number] = (step, request), home
                state["waiting"][str(number)] = {"step": step, "home": home, "request": kept_request(checked(request), state["media"])}
            state["next"], state["admitted"][str(step)] = first + len(parts), len(coming)
        self.work.set()

    async def _finished(self, count: int, world: RunWorld) -> dict[int, Sampled]:
        """Waits for the first `count` groups that are not too old. A group that is too old is sampled again."""
        if not self.tasks:
            self.tasks = [asyncio.ensure_future(self._work(i)) for i in range(self.system.workers)]
        while True:
            for number in stale_of({n: sampled.version for n, sampled in self.done.items()}, world.step, self.system.staleness):
                self.lost.setdefault(number, []).append(self.done.pop(number).world.spent)
                self.dropped += 1
                self.work.set()
            if (chosen := self._chosen(count)) is not None:
                return {number: replace(self.done.pop(number), lost=tuple(self.lost.pop(number, ()))) for number in chosen}
            self.ready.clear()
            ready = asyncio.ensure_future(self.ready.wait())
            await asyncio.wait([ready, *self.tasks], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            for task in self.tasks:
                if task.done():
                    task.result()  # raises the error of a worker

    def _chosen(self, count: int) -> list[int] | None:
        """Returns the finished requests that a step trains on; None if fewer than `count` are finished."""
        if self.system.unit == "answer":
            return released(list(self.done), self.home, count)
        if self.system.trains_on == "newest":
            return newest_finished({number: sampled.version for number, sampled in self.done.items()}, count)
        return first_finished(self.done, count)

    async def _work(self, worker: int) -> None:
        """Samples one group after another, with the newest published weights."""
        with self.run.activity.on(f"worker-{worker}"):
            await self._groups(worker)

    async def _groups(self, worker: int) -> None:
        while True:
            number = self._next(worker)
            if number is None:
                self.work.clear()
                with suppress(TimeoutError), doing(FOR_REQUESTS):
                    await asyncio.wait_for(self.work.wait(), self._patience(worker))
                continue
            self.pace.begin(worker, time.monotonic())
            assigned = self.running.setdefault(number, Assigned(self.run.history[PLACE][-1], time.monotonic()))
            assigned.copies += 1
            sampled = await self._sampled(number, assigned.version, worker)
            self.pace.end(worker, sum(t.actions for group in sampled.groups for t in group.trajectories), time.monotonic())
            if self.system.dispatch == "speed":
                self.work.set()  # the expected times at which workers become free have changed
            if self.running.get(number) is assigned:  # otherwise another worker was faster
                del self.running[number]
                self.done[number] = sampled
                self.ready.set()

    def _next(self, worker: int) -> int | None:
        """Returns the next request that a worker samples (`admission.next_request`). A request is late after the deadline."""
        free = sorted(number for number in self.requests if number not in self.running and number not in self.done)
        if self.system.dispatch == "speed":
            workers = dealt(len(free), self.pace.free_in(time.monotonic()), self.pace.expected())
            free = [number for number, its in zip(free, workers, strict=True) if its == worker]
        late = None if self.system.deadline is None else time.monotonic() - self.system.deadline
        return next_request(free, {number: (assigned.began, assigned.copies) for number, assigned in self.running.items()}, late)

    def _patience(self, worker: int) -> float | None:
        """Returns a time in seconds. After this time, an idle worker looks for a request again, even if nothing has changed. None: never."""
        if self.system.dispatch == "idle":
            return self.system.deadline
        own = max(self.pace.expected()[worker], 0.05)
        return own if self.system.deadline is None else min(own, self.system.deadline)

    async def _sampled(self, number: int, version: Mapping[str, Any], worker: int, changes: Mapping[str, Any] | None = None) -> Sampled:
        """Samples and judges the group of a request with the weights of a version. `changes`: known changes of the weights within the group."""
        step, request = self.requests[number]
        diary = Diary(changes, version["step"])
        if self.system.interrupt:
            for player in self.players[worker].values():
                if isinstance(player.policy, Changing):
                    player.policy.diary = diary
        elif self.loaded.get(worker) != version["step"]:
            for name, updates in version["updates"].items():
                put(self.players[worker][name], version["weights"][name], updates)
            self.loaded[worker] = version["step"]
        world = self._world(worker, step, f"{number}/")
        if self.system.unit == "answer":
            groups = await sampled_alone(self.recipe.rollout, request, world)
        else:
            groups = await Memory().call("rollout", self.recipe.rollout, "run", [request], world)
        return Sampled(diary.oldest, [*groups, *await world.aside()], world, diary.stored())

    async def _obeyed(self, decided: Sequence[Sequence[Any]]) -> dict[int, Sampled]:
        """Samples the groups that a stored fact names, with the versions of the weights from this fact."""

        async def again(worker: int, number: int, version: int, more: Mapping[str, Any] = Frozen()) -> Sampled:
            sampled = await self._sampled(number, self._version(version), worker, more.get("changes", {}))
            return replace(sampled, lost=tuple(more.get("lost", ())))

        async def share(worker: int) -> list[tuple[int, Sampled]]:
            with self.run.activity.on(f"worker-{worker}"):
                return [(one[0], await again(worker, *one)) for one in decided[worker :: self.system.workers]]

        shares = await asyncio.gather(*(share(worker) for worker in range(self.system.workers)))
        found = dict(pair for pairs in shares for pair in pairs)
        return {number: found[number] for number, *_ in decided}

    def _world(self, worker: int, step: int, label: str = "") -> RunWorld:
        own = {"players": self.players[worker], "memory": Memory(), "thread": self.threads[f"worker-{worker}"], "label": label}
        return self.run.world(self.recipe, "train", step=step, **own)
