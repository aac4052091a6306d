"""Users' reward functions as rewards: from a file, in a process that can be killed; from Python, in this one."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from gradus.rewards.calling import accepted, arguments_of, check_columns, columns_of, outcomes, required
from gradus.rewards.combine import Combines
from gradus.rewards.process import Lost, worker_of
from gradus.types import Failed, Frozen, Group, Key, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Reward, RewardFunction, Signals, Task, World
from gradus.types.signals import Signal
from gradus.types.user_code import raised


@dataclass(frozen=True)
class Function(Combines):
    """A user's reward function with TRL's signature, called once for all trajectories of a step, in a worker process.

    What it prints goes to standard error. Where it raises, hangs, ends its process or returns the wrong number of rewards, all trajectories
    of the call have failed; where it returns NaN, text or an infinity for one, that one has; None is not applicable.
    """

    path: str  # FILE.py:FUNCTION
    timeout: float = 60.0  # seconds a call may take; then the process is killed, and started again for the next call
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise UserError(f"reward function {self.path}: timeout is {self.timeout}; give the seconds that a call may take, more than 0")

    @property
    def name(self) -> str:
        return self.path.rpartition(":")[2]

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        trajectories = [t for group in groups for t in group.trajectories]
        worker, call = worker_of(self.path), world.call(self.name)
        known = world.fact(call)
        if known is not None:  # the clock decided when this step was done before
            return _by_group([Failed(known)] * len(trajectories), groups, self.name)
        try:
            found = await asyncio.to_thread(worker.ask, arguments_of(trajectories, world.step), self.timeout)
        except Lost as error:
            world.decide(call, str(error))
            found = [Failed(str(error))] * len(trajectories)
        except asyncio.CancelledError:
            worker.kill()  # else the thread would wait on, and the program with it
            raise
        return _by_group(found, groups, self.name)

    def check(self, task: Task) -> None:
        """Starts the worker. Raises UserError where the function cannot be loaded, or needs a column that the task's problems lack."""
        check_columns(worker_of(self.path).required(), _columns(task), self.path)


@dataclass(frozen=True)
class LocalFunction(Combines):
    """A reward function called in this process: what it raises is a failure, but nothing stops it when it hangs."""

    call: RewardFunction
    needs: ClassVar[tuple[Signal, ...]] = ()

    @property
    def name(self) -> str:
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        trajectories = [t for group in groups for t in group.trajectories]
        return _by_group(await _called(self.call, trajectories, world.step), groups, self.name)

    def check(self, task: Task) -> None:
        """Raises UserError where the function needs a column that the task's problems lack."""
        check_columns(required(self.call), _columns(task), self.name)


def reward_from(given: str | RewardFunction | Reward, timeout: float = 60.0) -> Reward:
    """A reward from FILE.py:FUNCTION, from a reward function, or a reward as it is.

    A function defined at the top of a file runs in a worker process; one defined elsewhere (in the script that is running, a package, another
    function, a lambda) runs in this one.
    """
    if isinstance(given, str):
        return Function(given, timeout)
    if hasattr(given, "score"):
        return given  # type: ignore[return-value]
    if not callable(given):
        more = "; add several: reward_from(f) + 0.5 * reward_from(g)" if isinstance(given, list | tuple) else ""
        raise UserError(f"a reward must be FILE.py:FUNCTION, a function or a reward, not {type(given).__name__}{more}")
    path = _importable(given)
    return Function(path, timeout) if path else LocalFunction(given)


async def _called(function: Callable[..., Any], trajectories: Sequence[Trajectory], step: int) -> list[Outcome]:
    arguments = accepted(function, arguments_of(trajectories, step))
    try:
        # in a thread, since a function that is not async may run an event loop of its own
        values = function(**arguments) if inspect.iscoroutinefunction(function) else await asyncio.to_thread(function, **arguments)
        values = await values if inspect.isawaitable(values) else values
    except (Exception, SystemExit) as error:
        return [Failed(f"raised {raised(error, inspect.getsourcefile(function) if inspect.isfunction(function) else None)}")] * len(
            trajectories
        )
    return outcomes(values, len(trajectories))


def _by_group(found: Sequence[Outcome], groups: Sequence[Group], name: str) -> list[list[Judgement]]:
    each = iter(found)
    return [[Judgement(value, Frozen({name: value})) for value in islice(each, len(group.trajectories))] for group in groups]


def _columns(task: Task) -> list[str]:
    (problem,) = task.source.draw([0], task.level, Key())
    return list(columns_of(problem))


def _importable(function: Any) -> str | None:
    """FILE.py:NAME of a function that importing its file alone gives again; None for any other."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not inspect.isfunction(function) or module is None or module.__name__ == "__main__" or getattr(module, "__package__", None):
        return None
    file = getattr(module, "__file__", None)
    found = getattr(module, function.__name__, None) is function and file and Path(file).suffix == ".py" and Path(file).is_file()
    return f"{file}:{function.__name__}" if found else None
