"""Makes rewards from users' functions. A function from a file runs in worker processes that can be killed; other functions run in this process."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from gradus.rewards.combine import Combines
from gradus.rewards.judged import Judged
from gradus.rewards.server_judge import ServerJudge
from gradus.types import Failed, FailureKind, Frozen, Group, Key, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Reward, RewardFunction, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.workers.call_queue import Limits, overtime
from gradus.workers.isolate_failures import Asker, about, judged
from gradus.workers.logged import Log
from gradus.workers.pool import Pool, pool_of
from gradus.workers.trl_signature import accepted, arguments_of, check_columns, columns_of, failure_of, outcomes, own, required
from gradus.workers.worker import Answer

T = TypeVar("T")

_HOMES: list[str] = []  # one entry per running call in this process; each entry is the working directory before the first of these calls


@dataclass(frozen=True)
class Function(Combines):
    """A reward function of the user, with the arguments of a reward function of TRL. Worker processes call the function.

    A call fails if the function raises, times out, exceeds its memory, ends its process or returns the wrong number of rewards. If a call with several
    answers fails, each answer is then judged alone. If an answer fails again, its reward has failed. One more call judges all other answers together. If the
    value for an answer is NaN, text or an infinity, only this answer fails. The value None means that the reward does not apply. The function's output goes
    to standard error.
    """

    path: str  # FILE.py:FUNCTION
    timeout: float = 60.0  # seconds per call; after this time the process of the call is killed
    memory: float = 4.0  # GiB that a process may use in addition to the loaded file; 0: no limit
    batch: int | None = None  # answers per call; None: all answers of a step, for functions that compare answers
    retries: int = 1  # repeats of a call that timed out, ran out of memory or lost its process
    workers: int | None = None  # largest number of processes; None: one per core. More than one process starts only if there are several calls
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_limits(f"reward function {self.path}", self.timeout, self.memory)
        check_ranges(self, batch="[1, inf)", retries="[0, inf)", workers="[1, inf)")

    @property
    def name(self) -> str:
        return self.path.rpartition(":")[2]

    @property
    def limits(self) -> Limits:
        return Limits(self.timeout, int(self.memory * (1 << 30)), self.retries, self.workers)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        trajectories = [t for group in groups for t in group.trajectories]
        pool, call = pool_of(self.path), world.call(self.name)

        def known(name: str) -> Failed | None:
            told = world.fact(f"{call}/{name}")
            return None if told is None else Failed.read(told)

        def ask() -> tuple[list[Outcome], dict[str, Failed]]:
            asker = Asker(pool, world.step, self.limits, pool.greeting(self.limits).get("taken"), known, world.steps)
            return judged(asker, trajectories, self.batch)

        found, decided = await in_pool(pool, ask, world, f"reward function {self.name}")
        for name, failed in decided.items():
            world.decide(f"{call}/{name}", failed.told)
        return _by_group(found, groups, self.name, world)

    def check(self, task: Task) -> None:
        """Starts a worker. Raises UserError if the function cannot be loaded, or needs a column that the task's problems lack."""
        check_columns(pool_of(self.path).greeting(self.limits)["required"], _columns(task), self.path)


@dataclass(frozen=True)
class LocalFunction(Combines):
    """A reward that calls a function in this process. An exception of the function is a failure. A call that hangs counts as failed, but is not stopped.

    A function that is not async runs in a thread. A call that hangs keeps its thread until the program ends.
    """

    call: RewardFunction
    timeout: float = 600.0  # seconds per call
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_limits(f"reward function {self.name}", self.timeout)

    @property
    def name(self) -> str:
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        trajectories = [t for group in groups for t in group.trajectories]
        call = world.call(self.name)
        known = world.fact(call)
        if known is not None:  # this step is repeated, and the first time this call timed out
            return _by_group([Failed.read(known)] * len(trajectories), groups, self.name, world)
        with world.waiting(f"reward function {self.name}", f"{about(trajectories)}, in this process"):
            found = await _called(self.call, trajectories, world, self.timeout)
        if isinstance(found, Failed):
            if found.kind.chance:
                world.decide(call, found.told)
            found = [found] * len(trajectories)
        return _by_group(found, groups, self.name, world)

    def check(self, task: Task) -> None:
        """Raises UserError if the function needs a column that the task's problems lack."""
        check_columns(required(self.call), _columns(task), self.name)


async def in_pool(pool: Pool, ask: Callable[[], T], world: World, what: str) -> T:
    """Calls `ask` in a thread and returns its result. Cancellation ends the processes of the pool.

    Otherwise the thread would wait for the processes, and the program for the thread.
    """

    def slowest() -> str:
        found = pool.longest()
        return "" if found is None else f"{found[1]}, for {found[0]:.0f}s"

    with world.waiting(what, slowest):
        try:
            return await asyncio.to_thread(ask)
        except asyncio.CancelledError:
            pool.stop()
            raise


def check_limits(who: str, timeout: float, memory: float = 0.0) -> None:
    """Raises UserError if a limit is negative or not finite, or if the timeout is 0."""
    if not (timeout > 0 and math.isfinite(timeout)):
        raise UserError(f"{who}: `timeout` is {timeout}; give the longest time of a call in seconds, above 0")
    if not (memory >= 0 and math.isfinite(memory)):
        raise UserError(f"{who}: `memory` is {memory}; give the largest memory of a process in GiB, or 0 for no limit")


def reward_from(given: str | RewardFunction | Reward, timeout: float = 60.0) -> Reward:
    """Makes a reward from FILE.py:FUNCTION, from the address of a judge or from a function; returns a reward unchanged.

    A function that is defined at the top level of a file runs in a worker process. Any other function (from the running script or a package, inside another
    function, or a lambda) runs in this process.
    """
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        return Judged(ServerJudge(given))
    if isinstance(given, str):
        return Function(given, timeout)
    if hasattr(given, "score"):
        return given  # type: ignore[return-value]
    if not callable(given):
        raise UserError(f"a reward must be FILE.py:FUNCTION, a function, a reward or a list of them, but its type is {type(given).__name__}")
    path = _importable(given)
    return Function(path, timeout) if path else LocalFunction(given)


async def _called(function: Callable[..., Any], trajectories: Sequence[Trajectory], world: World, timeout: float) -> Answer:
    log = Log()
    arguments = accepted(function, own(arguments_of(trajectories, world.step, steps=world.steps)), log)
    try:
        with _back_home():
            async with asyncio.timeout(timeout) as limit:
                # in a thread, because a function that is not async may run its own event loop
                call = partial(function, **arguments)
                values = call() if inspect.iscoroutinefunction(function) else await _threaded(call, _file_of(function))
                values = await values if inspect.isawaitable(values) else values
                return values if isinstance(values, Failed) else outcomes(values, len(trajectories), log)
    except TimeoutError as error:
        if limit.expired():
            return Failed(overtime(timeout), FailureKind.TIMEOUT)
        return failure_of(error, _file_of(function))
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, KeyboardInterrupt) or (task is not None and task.cancelling()):
            raise
        return failure_of(error, _file_of(function))


@contextmanager
def _back_home() -> Iterator[None]:
    """Restores the process's working directory when the last running call ends. The run's folder is often relative to this directory."""
    _HOMES.append(_HOMES[0] if _HOMES else os.getcwd())
    try:
        yield
    finally:
        home = _HOMES.pop()
        if not _HOMES:
            os.chdir(home)


async def _threaded(call: Callable[[], Any], file: str | None) -> Any:
    """Runs the call in its own daemon thread, which does not keep the program alive. Returns the result, or the failure."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(found: Any) -> None:
        if not done.done():
            done.set_result(found)

    def run() -> None:
        try:
            found = call()
        except BaseException as error:
            found = failure_of(error, file)
        with suppress(RuntimeError):  # the loop is closed; no task waits for the result
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=run, daemon=True).start()
    return await done


def _file_of(function: Any) -> str | None:
    return inspect.getsourcefile(function) if inspect.isfunction(function) else None


def _by_group(found: Sequence[Outcome], groups: Sequence[Group], name: str, world: World) -> list[list[Judgement]]:
    """Makes judgements from the outcomes, with the columns that the function logged. The metrics that the function logged become metrics of the step."""
    log: Log = getattr(found, "log", None) or Log()
    for metric, value in log.metrics:
        world.note(f"logged/{metric}", value)
    rows = [{column: values[i] for column, values in log.columns.items()} for i in range(len(found))]
    each = iter([Judgement(value, Frozen({name: value}), extra=Frozen(row)) for value, row in zip(found, rows, strict=True)])
    return [list(islice(each, len(group.trajectories))) for group in groups]


def _columns(task: Task) -> list[str]:
    (problem,) = task.source.draw([0], task.level, Key())
    return list(columns_of(problem))


def _importable(function: Any) -> str | None:
    """Returns FILE.py:NAME of a function if the import of its file is enough to get it; None for any other function."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not inspect.isfunction(function) or module is None or module.__name__ == "__main__" or getattr(module, "__package__", None):
        return None
    file = getattr(module, "__file__", None)
    found = getattr(module, function.__name__, None) is function and file and Path(file).suffix == ".py" and Path(file).is_file()
    return f"{file}:{function.__name__}" if found else None
