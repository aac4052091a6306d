"""A pipeline of sub-batches: while the simulator steps one part of the episodes, the policy samples the actions of the next part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from gradus.rollouts.lanes import Lanes
from gradus.types import Context, Group, Key, Problem, Request, UserError
from gradus.types.environments import Many
from gradus.types.parts import Episode, Task, Turn, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Pipelined:
    """Plays the episodes of `rollout` in `parts` sub-batches. The policy and the simulator each work on one sub-batch at a time, but not on the same
    one.

    With 1 part, policy and simulator take turns. With 2 parts, the simulator steps one half while the policy samples for the other half; then they exchange
    the halves. All episodes that wait in a sub-batch are sampled together and stepped together. If the environment has `step_many`, one call steps the
    episodes of a sub-batch; otherwise their steps run at the same time. Keys determine all draws, so the trajectories are the same for any number of parts.

    Time is saved only if the simulator works outside of this thread: in a process, on a GPU, or behind a network. At test time `rollout` plays without
    sub-batches. Reference: Zang et al., RLinf-VLA, arXiv:2510.06710 (hybrid allocation with a fine-grained pipeline).
    """

    rollout: Any = Lanes()  # plays the episodes
    parts: int = 2
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, parts="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if `rollout` cannot play the task."""
        check = getattr(self.rollout, "check_task", None)
        if check is not None:
            check(task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of `rollout`."""
        if world.task.environment is None:
            raise UserError(f'task "{world.task.name}" has no environment, but a pipeline needs one; take a task of many turns, such as frozen_lake')
        made: Any = _Staged(world, self.parts)
        groups: list[Group] = await self.rollout.run(requests, made)
        return groups


class _Stage:
    """A resource that serves one sub-batch at a time: the policy, or the simulator. Calls that wait in the same sub-batch are served together."""

    def __init__(self, serve: Callable[[Sequence[Any]], Coroutine[Any, Any, Sequence[Any]]]) -> None:
        self.serve, self.free = serve, asyncio.Lock()
        self.waiting: dict[int, list[tuple[Any, asyncio.Future[Any]]]] = {}
        self.running: set[asyncio.Task[None]] = set()

    async def ask(self, part: int, call: Any) -> Any:
        """Returns the result of one call of a sub-batch."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        calls = self.waiting.setdefault(part, [])
        calls.append((call, future))
        if len(calls) == 1:
            task = asyncio.ensure_future(self._served(part))
            self.running.add(task)  # the event loop itself keeps only a weak reference to a task
            task.add_done_callback(self.running.discard)
        return await future

    async def _served(self, part: int) -> None:
        for _ in range(_TURNS):  # meanwhile the other episodes of the sub-batch make their calls
            await asyncio.sleep(0)
        async with self.free:
            calls = self.waiting.pop(part)
            asked = [(call, future) for call, future in calls if not future.done()]  # a call that was cancelled is done
            try:
                results: Sequence[Any] = await self.serve([call for call, _ in asked])
            except Exception as error:
                results = [error] * len(asked)
            for (_, future), result in zip(asked, results, strict=True):
                if not future.done():
                    future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)


_TURNS = 3  # rounds of the event loop


class _Staged:
    """A `World` with two stages: one for samples, and one for the steps of the environment. Every task of the event loop belongs to one sub-batch."""

    def __init__(self, world: World, parts: int) -> None:
        self._world, self._parts = world, parts
        self._of: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._policy, self._simulator = _Stage(self._sampled), _Stage(self._stepped)
        environment: Any = _StagedEnvironment(world.task.environment, self)
        self.task = replace(world.task, environment=environment)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def part(self) -> int:
        """Returns the sub-batch of the current task. Tasks join the sub-batches in turn."""
        task = asyncio.current_task()
        return self._of.setdefault(task, len(self._of) % self._parts)

    async def sample(self, requests: Sequence[Request]) -> list[list[Context]]:
        found: list[list[Context]] = await self._policy.ask(self.part(), requests)
        return found

    async def stepped(self, episode: Episode, action: Any) -> Turn:
        """Returns the turn after an action. This method has another name than `World.step`, because `World.step` is the number of the training step."""
        turn: Turn = await self._simulator.ask(self.part(), (episode, action))
        return turn

    async def _sampled(self, calls: Sequence[Sequence[Request]]) -> list[list[list[Context]]]:
        found = iter(await self._world.sample([request for requests in calls for request in requests]))
        return [[next(found) for _ in requests] for requests in calls]

    async def _stepped(self, calls: Sequence[tuple[Episode, Any]]) -> Sequence[Any]:
        environment = self._world.task.environment
        if isinstance(environment, Many):
            turns = await environment.step_many([episode for episode, _ in calls], [action for _, action in calls])
            if len(turns) != len(calls):
                who = f"{type(environment).__name__}.step_many"
                raise UserError(f"{who} got {len(calls)} episodes and returned {len(turns)} turns; return one turn per episode, in the same order")
            return turns
        return await asyncio.gather(*(episode.step(action) for episode, action in calls), return_exceptions=True)


class _StagedEnvironment:
    """An environment of episodes that send their actions to the simulator's stage."""

    def __init__(self, environment: Any, staged: _Staged) -> None:
        self._environment, self._staged = environment, staged

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def start(self, problem: Problem, key: Key, world: World) -> Any:
        begun = self._environment.start(problem, key, world)
        return self._later(begun) if asyncio.iscoroutine(begun) else staged_episode(begun, self._staged)

    async def _later(self, begun: Coroutine[Any, Any, Episode]) -> Any:
        return staged_episode(await begun, self._staged)


class _StagedEpisode:
    """An episode that steps through the simulator's stage."""

    def __init__(self, episode: Any, staged: _Staged) -> None:
        self._episode, self._staged, self.first = episode, staged, episode.first

    async def step(self, action: Any) -> Turn:
        return await self._staged.stepped(self._episode, action)


ABILITIES = ("fork", "close", "snapshot", "restore", "acting", "step_all")
"""The methods of `types.environments` that an episode may have in addition to `step`."""


def staged_episode(episode: Any, staged: _Staged) -> Any:
    """Returns an episode with all abilities of `episode`. The steps of the returned episode go through the simulator's stage."""
    abilities = {name: _forwarded(name) for name in ABILITIES if hasattr(episode, name)}
    return type("StagedEpisode", (_StagedEpisode,), abilities)(episode, staged)


def _forwarded(name: str) -> Callable[..., Any]:
    def call(self: Any, *given: Any) -> Any:
        result = getattr(self._episode, name)(*given)
        return staged_episode(result, self._staged) if name == "fork" else result

    return call
