"""Rollouts of later steps, which run while earlier steps update the weights (`Ahead`).

The event loop of the run does all work except two kinds: one thread draws the samples, and another thread runs the updates. PyTorch works in both threads at
the same time. The rollouts have their own copies of all players. So no result depends on which thread is faster.

A checkpoint contains the requests of the steps whose rollouts have begun, and the weights of these rollouts. A run that continues from a checkpoint
samples these rollouts again, with the same result.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from gradus.players.learner import Learner
from gradus.rollouts.serialise import kept_request, request_of
from gradus.training.memory import Memory
from gradus.training.nested_state import stateful
from gradus.types import Group, Request, UserError
from gradus.types.players import Lagged, MovingAverage
from gradus.types.returned import named

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run
    from gradus.training.world import RunWorld

T = TypeVar("T")
PLACE = "system"
"""The place of the waiting requests in the run's memory, and of their weights in the run's history."""


@dataclass(frozen=True, eq=False)
class Arrived:
    """The rollout of a step: its groups, the new states of the parts that made it, and the world in which it ran."""

    groups: list[Group]
    states: dict[str, Any]
    world: RunWorld


class Pipeline:
    """The rollouts that have begun, by step. Each rollout waits for the end of the rollout before it."""

    def __init__(self, run: Run) -> None:
        self.run, self.restarts = run, run.numbers["restarts"]
        self.players = {name: twin(player) for name, player in run.players.items()}
        self.memory = Memory({**run.memory.apart("rollout").states, **run.memory.apart("reward").states})
        self.threads = {use: thread(use) for use in ("rollout", "update")}
        self.tasks: dict[int, asyncio.Task[Arrived]] = {}
        self.requests: dict[int, list[Request]] = {}

    async def arrivals(self, recipe: Recipe, world: RunWorld) -> tuple[list[Request], list[Group]]:
        """Returns the requests and the judged groups of a step. Begins the rollouts of later steps, and waits for the rollout of this step."""
        assert recipe.system is not None
        waiting = self.run.memory.states.setdefault(PLACE, {"part": type(recipe.system).__name__, "state": {"steps": {}, "media": {}}})["state"]
        for step, kept in waiting["steps"].items():
            if int(step) not in self.tasks:  # the run continues from a checkpoint
                self._begin(recipe, self._world(recipe, int(step)), [request_of(r, waiting["media"]) for r in kept])
        for step in range(world.step, self._until(world.step + recipe.system.steps) + 1):
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

    def close(self) -> None:
        """Cancels the rollouts that have begun."""
        for task in self.tasks.values():
            task.cancel()
        for each in self.threads.values():
            each.shutdown(wait=False, cancel_futures=True)

    def _until(self, step: int) -> int:
        """Returns the last step whose rollout may begin: `step`, or the last step of the run."""
        return step if self.run.budget is not None else min(step, self.run.began + self.run.length - 1)

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
        groups = await self.memory.call("rollout", recipe.rollout, "run", requests, world)
        groups = [*groups, *await world.aside()]
        return Arrived(groups, copy.deepcopy(self.memory.states), world)


async def arrivals(run: Run, recipe: Recipe, world: RunWorld) -> tuple[list[Request], list[Group]]:
    """Returns the requests of a step and the judged groups of its rollout, with auxiliary groups. If the recipe has a system, the rollout may have begun earlier."""
    if recipe.system is not None:
        if run.pipeline is None or run.pipeline.restarts != run.numbers["restarts"]:
            check_ahead(run)
            end(run)
            run.pipeline = Pipeline(run)
        return await run.pipeline.arrivals(recipe, world)
    requests = await world.more(recipe.setting.prompts)
    groups = await run.memory.call("rollout", recipe.rollout, "run", requests, world)
    return requests, [*groups, *await world.aside()]


async def beside(run: Run, work: Callable[[], T]) -> T:
    """Does work that changes weights. If the recipe has a system, the rollouts of later steps continue at the same time."""
    if run.pipeline is None:
        return work()
    return await asyncio.get_running_loop().run_in_executor(run.pipeline.threads["update"], work)


def passed(run: Run, step: int) -> None:
    """Drops the weights with which the rollout of a finished step was sampled."""
    if PLACE in run.history:
        run.history[PLACE] = [entry for entry in run.history[PLACE] if entry["step"] > step]


def end(run: Run) -> None:
    """Ends the rollouts that have begun, if there are any."""
    if run.pipeline is not None:
        run.pipeline.close()
        run.pipeline = None


def thread(use: str) -> ThreadPoolExecutor:
    """Returns one thread for `use`. In the new thread, PyTorch uses the same number of threads as in the calling thread, so the results have the same bytes."""
    return ThreadPoolExecutor(1, f"gradus-{use}", initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),))


def twin(player: Learner) -> Learner:
    """Returns a frozen player with a copy of the weights."""
    policy = player.policy.clone()
    policy.network.requires_grad_(False)
    made = Learner(player.name, replace(player.spec, objective=None), policy, player.rule, player.setting)
    put(made, {}, player.updates)
    return made


def moving(run: Run) -> Iterator[str]:
    """Yields the names of the players whose weights may change during the run. If the schedule declares events, every player may change."""
    events = bool(getattr(run.recipe.schedule, "causes", ()))
    yield from (name for name, p in run.players.items() if events or p.learns or isinstance(p.spec.model, (Lagged, MovingAverage)))


def weights_of(run: Run) -> dict[str, Any]:
    """Returns copies of the weights that may change, and the numbers of updates, by player."""
    chosen = list(moving(run))
    weights = {name: {n: w.detach().clone() for n, w in run.players[name].policy.network.named_parameters()} for name in chosen}
    return {"updates": {name: run.players[name].updates for name in chosen}, "weights": weights}


def put(player: Learner, weights: Mapping[str, Tensor], updates: int) -> None:
    """Gives a player these weights and this number of updates."""
    mine = dict(player.policy.network.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            mine[name].copy_(weight)
    player.updates = updates


def checked(request: Request) -> Request:
    """Returns the request. Raises UserError if the request continues a context, because such a request cannot be stored."""
    if request.prompt is not None or request.at is not None:
        raise UserError(
            f"the curriculum requests problem {request.problem.id} with another prompt or context, but system Ahead stores only the problem; leave out --system"
        )
    return request


def check_ahead(run: Run) -> None:
    """Raises UserError if the run cannot sample rollouts in advance."""
    recipe = run.recipe
    learning = [named(part, "learn") for place in ("rollout", "reward") for _, part in stateful(place, getattr(recipe, place)) if hasattr(part, "learn")]
    engines = [name for name, p in run.players.items() if p.spec.engine is not None]
    reason = (
        "the run has stages" if run.stages is not None
        else f"{learning[0]} changes the state of the {'rollout or reward'} after each step" if learning
        else f"players.{engines[0]} samples with {type(run.players[engines[0]].spec.engine).__name__}" if engines
        else "the run has several processes" if any(hasattr(p.policy, "_crew") for p in run.players.values())
        else ""
    )
    if reason:
        raise UserError(f"system Ahead cannot sample in advance, because {reason}; leave out --system")
