"""Pools of processes that run a task's environment and verifiers.

If a process ends, another one starts. The new process plays each episode again from the episode's problem, key and recorded actions, and judges the
unfinished answer again. So the end of a process does not change the result. An environment must be deterministic: the same key and the same actions give the
same turns. If a repeated turn differs from the first one, the episode fails with a message."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from gradus.recipe.serialise import to_json
from gradus.runtime.user_code import Located
from gradus.systems.hosts import Host, Tell
from gradus.systems.task_worker import problem_document, turn_from
from gradus.types import Failed, FailureKind, Key, Outcome, Problem, Trajectory, UserError
from gradus.types.errors import RaisedElsewhere
from gradus.types.packing import packed
from gradus.types.parts import Apart, OfSeveral, Task, Together, Turn, Verify, World
from gradus.workers.call_queue import overtime
from gradus.workers.worker import read_outcome

T = TypeVar("T")


class Pool:
    """Hosts of the role `tasks`. A question goes to the host with the fewest open questions and episodes."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = list(hosts)
        self.threads = [ThreadPoolExecutor(1, f"gradus-pool-{i}") for i in range(len(self.hosts))]
        self.load = [0] * len(self.hosts)

    def freest(self) -> int:
        """Returns the number of the host with the least load; the first of several such hosts."""
        return self.load.index(min(self.load))

    async def ask(self, host: int, work: Callable[[Tell], T]) -> T:
        """Asks a host (see `Host.ask`) in the thread of this host. If the wait is cancelled during the work, the process ends, and the next question starts
        another process.
        """
        over = threading.Event()
        self.load[host] += 1
        future = self.threads[host].submit(self.hosts[host].ask, work, over.is_set)
        try:
            return await asyncio.wrap_future(future)
        except BaseException as error:
            if not isinstance(error, Exception) and not future.done():
                over.set()
                if not future.cancel():
                    self.hosts[host].kill()
            raise
        finally:
            self.load[host] -= 1

    def close(self) -> None:
        """Ends all processes."""
        for host in self.hosts:
            host.close()
        for each in self.threads:
            each.shutdown(wait=False, cancel_futures=True)


class PooledEnvironment:
    """An environment whose episodes run in the processes of a pool. All other attributes are those of the original environment."""

    def __init__(self, environment: Any, pool: Pool) -> None:
        self.__wrapped__, self._pool, self._numbers = environment, pool, itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__wrapped__"], name)

    async def start(self, problem: Problem, key: Key, world: World) -> PooledEpisode:
        """Starts an episode. Raises UserError if the environment cannot run in another process."""
        document = sendable({"problem": problem_document(problem), "key": key.value}, f"problem {problem.id}")
        host = self._pool.freest()
        made: PooledEpisode = PooledEpisode(self._pool, host, self._numbers, document)
        self._pool.load[host] += 1
        try:
            if await self._pool.ask(host, made.begin):
                made = ForkablePooledEpisode.of(made)
        except BaseException:
            self._pool.load[host] -= 1
            raise
        return made


class PooledEpisode:
    """An episode in a process of a pool. The episode keeps its actions, so that another process can play the episode again."""

    def __init__(self, pool: Pool, host: int, numbers: itertools.count[int], document: Mapping[str, Any]) -> None:
        self._pool, self._host, self._numbers, self._document = pool, host, numbers, document
        self._number, self._start = next(numbers), 0  # the episode's number, and the process in which it runs; 0: in none
        self._past: list[tuple[str, dict[str, Any], str]] = []  # message, fields, digest of the answer
        self.first: Any = Turn("")

    def begin(self, tell: Tell) -> bool:
        """Starts the episode in the process, and returns whether the episode can be forked."""
        answer = tell("start", {"episode": self._number, **self._document})[0]
        self._start = self._pool.hosts[self._host].starts
        self.first = turn_from(answer["turn"])
        return bool(answer["forks"])

    async def step(self, action: Any) -> Turn:
        """Executes an action. If the process has ended, first plays the episode again in another process."""
        return await self._pool.ask(self._host, partial(self._step, sendable({"action": packed(action)}, "an action")))

    def _step(self, sent: dict[str, Any], tell: Tell) -> Turn:
        self._follow(tell)
        turn = tell("step", {"episode": self._number, **sent})[0]["turn"]
        self._past.append(("step", sent, digest(turn)))
        return turn_from(turn)

    def _follow(self, tell: Tell) -> None:
        """Plays the episode again if it is not in the present process. Raises RaisedElsewhere if a turn differs from the first time."""
        now = self._pool.hosts[self._host].starts
        if self._start == now:
            return
        tell("start", {"episode": self._number, **self._document})
        for turn, (verb, sent, known) in enumerate(self._past):
            if digest(tell(verb, {"episode": self._number, **sent})[0]["turn"]) != known:
                raise RaisedElsewhere(
                    f"the process of the episode has ended, and the episode cannot be played again: turn {turn} differs from the first time. "
                    "The environment must give the same turns for the same key and actions"
                )
        self._start = now

    async def close(self) -> None:
        """Ends the episode in its process."""
        self._pool.load[self._host] -= 1
        await self._pool.ask(self._host, self._end)

    def _end(self, tell: Tell) -> None:
        if self._start == self._pool.hosts[self._host].starts:
            tell("end", {"episode": self._number})


class ForkablePooledEpisode(PooledEpisode):
    """A pooled episode that can be copied. Before its first action, the copy repeats all earlier actions from the start."""

    @classmethod
    def of(cls, episode: PooledEpisode) -> ForkablePooledEpisode:
        """Returns the same episode, with the method `fork`."""
        made = cls.__new__(cls)
        made.__dict__.update(episode.__dict__)
        return made

    def fork(self, key: Key) -> ForkablePooledEpisode:
        """See `gradus.types.parts.Forkable`."""
        made = ForkablePooledEpisode(self._pool, self._pool.freest(), self._numbers, self._document)
        self._pool.load[made._host] += 1
        made.first, made._past = self.first, [*self._past, ("fork", {"key": key.value}, digest(None))]
        return made


class PooledVerify:
    """A verifier that judges in the processes of a pool. A direct call judges in this process. All other attributes are those of the original verifier."""

    def __init__(self, verify: Verify, number: int, pool: Pool) -> None:
        self.__wrapped__, self._number, self._pool = verify, number, pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__wrapped__"], name)

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return self.__wrapped__(problem, completion)

    async def apart(self, trajectories: Sequence[Trajectory], seconds: float, retries: int) -> list[Outcome]:
        """See `gradus.types.parts.Apart`."""
        return list(await asyncio.gather(*(self._judged(t, seconds, retries) for t in trajectories)))

    async def _judged(self, trajectory: Trajectory, seconds: float, retries: int) -> Outcome:
        problem = trajectory.problem
        document = {"verifier": self._number, "problem": problem_document(problem), "completion": trajectory.completion}
        sent = sendable(document, f"problem {problem.id}")
        for _ in range(retries + 1):
            try:
                answer = await self._pool.ask(self._pool.freest(), lambda tell: tell("verify", sent, None, seconds))
            except TimeoutError:
                continue
            return read_outcome(answer[0]["outcome"])
        again = f" ({retries + 1} attempts)" if retries else ""
        return Failed(overtime(seconds) + again, FailureKind.TIMEOUT)


class PooledVerifiers:
    """The verifiers of a mixture of tasks. Each verifier judges in the processes of a pool if it can."""

    def __init__(self, several: OfSeveral, pooled: Callable[[Any], Any]) -> None:
        self.__wrapped__ = several
        self._pooled = {id(verify): pooled(verify) for verify in several.all()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__wrapped__"], name)

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return self.__wrapped__(problem, completion)  # type: ignore[operator]

    def all(self) -> list[Any]:
        """See `gradus.types.parts.OfSeveral`."""
        return list(self._pooled.values())

    def of(self, problem: Problem) -> Any:
        """See `gradus.types.parts.OfSeveral`."""
        return self._pooled[id(self.__wrapped__.of(problem))]


def pooled_environment(task: Task, pool_of: Callable[[Mapping[str, Any]], Pool]) -> tuple[Task, Pool]:
    """Returns the task with an environment in a pool, and the pool. `pool_of` makes a pool from its first message.

    Raises UserError if the task has no environment, or if another process cannot make its environment.
    """
    if task.environment is None:
        raise UserError(f"system: `environments` is set, but task {task.name} has no environment; leave out --system.environments")
    pool = pool_of({"environment": _document(task.environment, f"the environment of task {task.name}", "environments"), "verifiers": []})
    return replace(task, environment=PooledEnvironment(task.environment, pool)), pool


def pooled_verifiers(task: Task, pool_of: Callable[[Mapping[str, Any]], Pool]) -> tuple[Task, Pool]:
    """Returns the task with verifiers in a pool, and the pool.

    If a verifier already has its own processes (a file's verifier, unit tests in sandboxes), it keeps these processes. Raises UserError if no verifier is
    left, or if another process cannot make a verifier.
    """
    found = list(task.verify.all()) if isinstance(task.verify, OfSeveral) else [task.verify]
    own = [v for v in found if v is not None and not isinstance(v, (Located, Together, Apart))]
    if not own:
        reason = "has no verifier" if task.verify is None else "judges with a verifier that has its own processes"
        raise UserError(f"system: `verifiers` is set, but task {task.name} {reason}; leave out --system.verifiers")
    documents = [_document(v, f"the verifier of task {task.name}", "verifiers") for v in own]
    pool = pool_of({"environment": None, "verifiers": documents})

    def pooled(verify: Any) -> Any:
        numbers = [i for i, v in enumerate(own) if v is verify]
        return PooledVerify(verify, numbers[0], pool) if numbers else verify

    changed = PooledVerifiers(task.verify, pooled) if isinstance(task.verify, OfSeveral) else pooled(task.verify)
    return replace(task, verify=changed), pool


def _document(part: Any, what: str, field: str) -> Any:
    try:
        return to_json(part)
    except UserError as error:
        raise UserError(f"{what} cannot be made in another process: {error}; leave out --system.{field}") from None


def sendable(document: dict[str, Any], what: str) -> dict[str, Any]:
    """Returns a document. Raises UserError if JSON cannot represent it."""
    try:
        json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"{what} cannot be sent to another process: {error}; use text, numbers, lists, mappings, arrays and media, or leave out "
            "--system.environments and --system.verifiers"
        ) from None
    return document


def digest(turn: Any) -> str:
    """Returns a digest of a turn's JSON, without the field `info`, which no code reads."""
    kept = {**turn["map"], "info": None} if isinstance(turn, dict) and "map" in turn else turn
    return hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=16).hexdigest()
