"""Lanes play several episodes at the same time, one episode per lane. Each step plays a segment of every episode. An episode that is not over at
the end of a step continues in the next step."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.environment_calls import started, stepped
from gradus.rollouts.episodes import Episodes, abandoned
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.turns import acted, begun
from gradus.runtime.activity import ENVIRONMENT, doing
from gradus.types import Ended, Failed, FailureKind, Frozen, Group, Key, Request, Trajectory, UserError
from gradus.types.control import check_arrays
from gradus.types.environments import Restorable
from gradus.types.kept import group_of, kept_group
from gradus.types.parts import Episode, Task, Turn, World
from gradus.types.ranges import check_ranges


@dataclass
class Running:
    """One unfinished episode: its request, its key, its last turn, and the actions so far."""

    request: Request
    key: Key
    episode: Episode
    turn: Turn
    actions: list[Any]


@dataclass(frozen=True)
class Lanes:
    """Makes one lane per sample of a request, and plays `length` turns in each lane per step. A lane plays one episode after another.

    A trajectory is a segment of one episode. A segment ends with ENVIRONMENT (the episode is over), TRUNCATED (the environment cut the episode off), LENGTH
    (the step is over) or FAILED (the environment failed). After LENGTH the episode continues in the next step. The context of a segment shows the observation
    after its last action, unless the segment failed. Every segment begins a new context, so a recurrent policy remembers only the current segment.
    Between steps a `Restorable` episode is kept as its snapshot. Any other episode is kept as its actions, and the next step plays them again.
    """

    length: int = 128  # turns of every lane per step
    timeout: float = 300.0  # seconds that the environment may take per turn, and to start
    most: int = 1000  # largest number of turns of an episode at test time
    gives: ClassVar[frozenset[str]] = frozenset({"turns"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, length="[1, inf)", timeout="(0, inf)", most="[1, inf)")

    @property
    def test(self) -> Episodes:
        """The rollout of evaluation, which plays whole episodes."""
        return Episodes(self.most, timeout=self.timeout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's environment does not show arrays."""
        check_arrays(self, task)

    def start(self) -> dict[str, Any]:
        return {"lanes": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns one judged group per request, and the state with the open episodes.

        Raises UserError if the task has no environment that shows arrays.
        """
        if world.task.environment is None:
            raise UserError(f'task "{world.task.name}" has no environment, but lanes need an environment; take a task for controllers, such as cartpole')
        places = [(request, i) for request in requests for i in range(request.count)]
        before = [*state["lanes"], *([None] * (len(places) - len(state["lanes"])))]
        played = await asyncio.gather(*(self._lane(request, i, kept, world) for (request, i), kept in zip(places, before, strict=False)))
        found: dict[int, list[Trajectory]] = {}
        for (request, _), (trajectories, _) in zip(places, played, strict=True):
            found.setdefault(id(request), []).extend(trajectories)
        groups = [Group(group_name(request), tuple(found[id(request)])) for request in requests]
        lanes = [kept for _, kept in played]
        return await world.judge(groups), {"lanes": [*lanes, *before[len(lanes) :]]}

    async def _lane(self, request: Request, index: int, kept: Any, world: World) -> tuple[list[Trajectory], Any]:
        """Plays one step of a lane. Returns the lane's segments, and its open episode as plain state (None: no episode is open)."""
        running = None if not kept else await self._restored(kept, request, world)
        out: list[Trajectory] = []
        turn = 0
        while turn < self.length:
            name = f"{trajectory_name(world.step, request, index)}/{len(out)}"
            if running is None:
                begun_ = await self._begun(request, index, name, world)
                if isinstance(begun_, Failed):
                    out.append(Trajectory(name, request.problem, (), request.player, reward=begun_, ended=Ended.FAILED, trained=request.trained))
                    break
                running = begun_
            piece, turn, running = await self._piece(running, name, turn, request, index, world)
            out.append(piece)
        return out, None if running is None else _written(running)

    async def _piece(
        self, running: Running, name: str, turn: int, request: Request, index: int, world: World
    ) -> tuple[Trajectory, int, Running | None]:
        """Plays from turn number `turn` of the step to the end of the episode or of the step.

        Returns the trajectory, the number of the next turn, and the episode if it continues, else None.
        """
        player = running.request.player
        context = begun(world.opening(running.turn.observation, player))
        rewards: list[float] = []
        ended, failure = Ended.LENGTH, None
        while turn < self.length:
            tags, sample = (*request.tags, "lane", turn), request.sample + index
            asked = replace(request, count=1, prompt=context, at=None, tags=tags, sample=sample)
            sampled = (await world.sample([asked]))[0][0]
            action = world.said(sampled, len(context.sequence), player)
            answer = await self._answered(running.episode, action, f"environment/{name}/{turn}", request, world)
            if isinstance(answer, Failed):
                context, ended, failure = acted(context, sampled, turn, running.turn, Turn("")), Ended.FAILED, answer
                break
            context = acted(context, sampled, turn, running.turn, answer)
            context = context.then(world.follow(answer.observation, context, player))
            running = replace(running, turn=answer, actions=[*running.actions, action])
            rewards.append(answer.reward)
            turn += 1
            if answer.terminated or answer.truncated:
                ended = Ended.ENVIRONMENT if answer.terminated else Ended.TRUNCATED
                break
        problem = running.request.problem
        links = Frozen({"episode": f"{problem.id}/{running.key.value:016x}", "turns": len(rewards), "return": math.fsum(rewards)})
        made = Trajectory(
            name, problem, (replace(context, ended=ended),), player, reward=failure, ended=ended, trained=request.trained, links=links
        )
        return made, self.length if failure else turn, running if ended is Ended.LENGTH else None

    async def _begun(self, request: Request, index: int, name: str, world: World) -> Running | Failed:
        key = world.key.fold("lane", name, request.problem.id, *request.tags, request.sample + index)
        call = f"environment/{name}/start"
        with doing(ENVIRONMENT), world.waiting("the environment to start", f"problem {request.problem.id}", abandoned(world, call)):
            known = world.fact(call)
            episode = await started(world.task.environment, request.problem, key, world, self.timeout) if known is None else Failed.read(known)  # type: ignore[arg-type]
        if isinstance(episode, Failed):
            if episode.kind is FailureKind.TIMEOUT and known is None:
                world.decide(call, episode.told)
            return episode
        return Running(replace(request, count=1), key, episode, _of_arrays(episode.first, world), [])

    async def _answered(self, episode: Episode, action: Any, call: str, request: Request, world: World) -> Turn | Failed:
        if (known := world.fact(call)) is not None:
            return Failed.read(known)
        with doing(ENVIRONMENT), world.waiting("the environment", f"problem {request.problem.id}", abandoned(world, call)):
            answer = await stepped(episode, action, ("policy", request.player), self.timeout)
        if isinstance(answer, Failed) and answer.kind is FailureKind.TIMEOUT:
            world.decide(call, answer.told)
        return answer

    async def _restored(self, kept: Mapping[str, Any], request: Request, world: World) -> Running:
        """Restores the open episode of a lane. Raises UserError if the episode cannot be started or played again."""
        problem = group_of(kept["problem"]).trajectories[0].problem
        key, environment = Key(int(kept["key"])), world.task.environment
        episode: Any = await started(environment, problem, key, world, self.timeout)  # type: ignore[arg-type]
        if isinstance(episode, Failed):
            raise UserError(f"the episode of problem {problem.id} cannot be started again: {episode.reason}; fix the environment, then resume the run")
        turn = Turn({name: np.asarray(rows) for name, rows in kept["observation"].items()}, state=kept["state"])
        if kept["snapshot"] is not None:
            episode.restore(kept["snapshot"])
        for action in kept["actions"]:
            answer = await stepped(episode, action, ("policy", request.player), self.timeout)
            if isinstance(answer, Failed):
                raise UserError(f"the episode of problem {problem.id} cannot be played again: {answer.reason}; fix the environment, then resume the run")
        return Running(replace(request, problem=problem, count=1), key, episode, turn, list(kept["actions"]))


def _written(running: Running) -> dict[str, Any]:
    """Returns an open episode as plain state."""
    restorable = isinstance(running.episode, Restorable)
    problem = Trajectory("", running.request.problem, ())
    assert isinstance(running.turn.observation, Mapping)
    return {
        "problem": kept_group(Group("", (problem,))),
        "key": running.key.value,
        "observation": {name: np.asarray(rows) for name, rows in running.turn.observation.items()},
        "state": running.turn.state,
        "snapshot": running.episode.snapshot() if restorable else None,  # type: ignore[attr-defined]
        "actions": [] if restorable else running.actions,
    }


def _of_arrays(turn: Turn, world: World) -> Turn:
    if not isinstance(turn.observation, Mapping):
        raise UserError(
            f'lanes are for environments that show arrays, but task "{world.task.name}" shows text; set --rollout Episodes, or take a task for controllers'
        )
    return turn


