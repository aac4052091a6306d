"""Rollouts of later steps, which run while earlier steps update the weights (`Ahead`).

The event loop of the run does all work except two kinds: one thread draws the samples, and another thread runs the updates. PyTorch works in both threads at
the same time. The rollouts have their own copies of all players. So the result does not depend on which thread is faster.

A checkpoint contains the requests of the steps whose rollouts have begun, and the weights of these rollouts. A run that continues from a checkpoint
samples these rollouts again, with the same result.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradus.rollouts.serialise import kept_request, request_of
from gradus.training.admission import admitted_until
from gradus.training.memory import Memory
from gradus.training.twins import PLACE, checked, copies, put, thread, weights_of
from gradus.types import Group, Request
from gradus.types.systems import Ahead

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run
    from gradus.training.world import RunWorld


@dataclass(frozen=True, eq=False)
class Arrived:
    """The rollout of a step: its groups, its `World`, and the new states of the parts that made the rollout."""

    groups: list[Group]
    states: dict[str, Any]
    world: RunWorld


class Pipeline:
    """The rollouts that have begun, by step. Each rollout waits for the end of the rollout before it."""

    def __init__(self, run: Run) -> None:
        self.run, self.restarts = run, run.numbers["restarts"]
        self.players = copies(run, 0)
        self.memory = Memory({**run.memory.apart("rollout").states, **run.memory.apart("reward").states})
        self.threads = {use: thread(use) for use in ("rollout", "update")}
        self.tasks: dict[int, asyncio.Task[Arrived]] = {}
        self.requests: dict[int, list[Request]] = {}

    async def arrivals(self, recipe: Recipe, world: RunWorld) -> tuple[list[Request], list[Group]]:
        """Returns the requests and the judged groups of a step. Begins the rollouts of later steps, and waits for the rollout of this step."""
        assert isinstance(recipe.system, Ahead)
        waiting = self.run.memory.states.setdefault(PLACE, {"part": type(recipe.system).__name__, "state": {"steps": {}, "media": {}}})["state"]
        for step, kept in waiting["steps"].items():
            if int(step) not in self.tasks:  # the run continues from a checkpoint
                self._begin(recipe, self._world(recipe, int(step)), [request_of(r, waiting["media"]) for r in kept])
        last = None if self.run.budget is not None else self.run.began + self.run.length - 1
        for step in range(world.step, admitted_until(world.step, recipe.system.steps, last) + 1):
            if str(step) not in waiting["steps"]:
                coming = self._world(recipe, step)
                requests = await coming.more(recipe.setting.prompts)
                waiting["steps"][str(step)] = [kept_request(checked(r), waiting["media"]) for r in requests]
                self.run.history.setdefault(PLACE, []).append({"step": step, **weights_of(self.run)})
                self._begin(recipe, coming, requests)
        arrived = await self.tasks.pop(world.step)
        world.take(arrived.world)
        self.run.memory.states.update(arrived.states)
        del waiting["steps"][str(world.step)]
        return self.requests.pop(world.step), arrived.groups

    @property
    def queue(self) -> dict[str, int]:
        """Returns the number of begun rollouts, and the number of finished rollouts."""
        finished = sum(task.done() for task in list(self.tasks.values()))
        return {"running": len(self.tasks) - finished, "finished": finished}

    def close(self) -> None:
        """Cancels the rollouts that have begun."""
        for task in self.tasks.values():
            task.cancel()
        for each in self.threads.values():
            each.shutdown(wait=False, cancel_futures=True)

    def _world(self, recipe: Recipe, step: int) -> RunWorld:
        return self.run.world(recipe, "train", step=step, players=self.players, memory=self.memory, thread=self.threads["rollout"])

    def _begin(self, recipe: Recipe, world: RunWorld, requests: list[Request]) -> None:
        weights = next(entry for entry in reversed(self.run.history[PLACE]) if entry["step"] == world.step)
        before = self.tasks.get(max(self.tasks, default=-1))
        self.requests[world.step] = requests
        self.tasks[world.step] = asyncio.ensure_future(self._rolled(recipe, world, requests, weights, before))

    async def _rolled(
        self, recipe: Recipe, world: RunWorld, requests: Sequence[Request], weights: Mapping[str, Any], before: asyncio.Task[Arrived] | None
    ) -> Arrived:
        if before is not None:
            await asyncio.wait([before])
        for name, player in self.players.items():
            if name in weights["updates"]:
                put(player, weights["weights"][name], weights["updates"][name])
        with self.run.activity.on("rollout"):
            groups = await self.memory.call("rollout", recipe.rollout, "run", requests, world)
            groups = [*groups, *await world.aside()]
        return Arrived(groups, copy.deepcopy(self.memory.states), world)
