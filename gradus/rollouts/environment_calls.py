"""Calls an environment and checks its answers. An error becomes the failure of one episode, with the line in the environment's code."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import numpy as np

from gradus.runtime.time_limit import Interruptible, Late, interrupted
from gradus.runtime.user_code import line_of, raised_in
from gradus.types import Failed, FailureKind, Key, Media, Problem, UserError
from gradus.types.parts import Closing, Environment, Episode, Turn, World


async def started(environment: Environment, problem: Problem, key: Key, world: World, timeout: float) -> Episode | Failed:
    """Starts an episode, and returns the episode or its failure. If the environment raises, only this episode fails, not the run.

    `start` of the environment may be async. An episode that cannot be played is closed.
    """
    episode: Any
    limit: asyncio.Timeout | None = None
    try:
        with interrupted(timeout):
            episode = environment.start(problem, key, world)
        if inspect.isawaitable(episode):
            async with asyncio.timeout(timeout) as limit:
                episode = await Interruptible(episode, timeout)
    except (UserError, GeneratorExit):
        raise
    except BaseException as error:  # includes sys.exit, and cancellation of the environment's own awaits
        task = asyncio.current_task()
        if not isinstance(error, Late) and (isinstance(error, KeyboardInterrupt) or (task is not None and task.cancelling())):
            raise
        if isinstance(error, Late) or (limit is not None and limit.expired()):
            return Failed(f"the environment did not start within {timeout:g} seconds", FailureKind.TIMEOUT)
        return Failed(f"the environment could not start: {raised_in(error, environment)}", FailureKind.RAISED)
    failure = _unplayable(episode, environment)
    if failure is not None:
        await closed(episode, timeout)
        return failure
    return episode


def _unplayable(episode: Any, environment: Environment) -> Failed | None:
    """Returns the failure of an object that is not an episode in progress, or None if the object can be played."""
    if not hasattr(episode, "first") or not hasattr(episode, "step"):
        lacking = f"gave {short(episode)}, which is not an episode; it must have `first` (a Turn) and `async def step(self, action)`"
        return Failed(f"the environment's start {lacking}{line_of(environment)}")
    if wrong := misfit(episode.first):
        return Failed(f"the environment's first turn {wrong}{line_of(episode)}")
    over = episode.first.terminated or episode.first.truncated
    return Failed("the environment ended before the first action") if over else None


async def closed(episode: Any, timeout: float) -> Failed | None:
    """Closes an episode if it has a method `close`. Returns the failure of `close`, if any. A failure of `close` does not change the episode's result."""
    if not isinstance(episode, Closing):
        return None
    try:
        async with asyncio.timeout(timeout):
            await Interruptible(episode.close(), timeout)
    except (UserError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # includes sys.exit, and cancellation of the environment's own awaits
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return Failed(f"the environment's close failed: {raised_in(error, episode)}", FailureKind.RAISED)
    return None


def gate(environment: Environment) -> AbstractAsyncContextManager[Any]:
    """Returns a context manager that lets at most `environment.together` episodes of a rollout run at a time. Without this field, any number of
    episodes may run.

    Raises UserError if `together` is not a whole number of 1 or more.
    """
    most = getattr(environment, "together", None)
    if most is None:
        return nullcontext()
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise UserError(f"environment.together is {most!r}{line_of(environment)}; it must be a number of episodes, 1 or more, or None for no limit")
    return asyncio.Semaphore(most)


async def stepped(episode: Any, action: Any, seats: Collection[str], timeout: float, method: str = "step") -> Turn | Failed:
    """Returns the environment's answer to an action, or its failure.

    The answer may take `timeout` seconds in all. This limit also applies to a computation of the environment without an await. `seats`: the names of the
    seats that the answer may ask to act next. `method`: "step", or "step_all" for an episode in which several seats act at the same time.
    """
    answer: Any
    try:
        async with asyncio.timeout(timeout) as limit:
            with interrupted(timeout):
                asked: Any = getattr(episode, method)(action)
            if not inspect.isawaitable(asked):
                return Failed(f"the environment's {method} is not a coroutine; write async def {method}{line_of(episode)}")
            answer = await Interruptible(asked, timeout)
    except (UserError, GeneratorExit):
        raise
    except BaseException as error:  # includes sys.exit, and cancellation of the environment's own awaits
        task = asyncio.current_task()
        if not isinstance(error, Late) and (isinstance(error, KeyboardInterrupt) or (task is not None and task.cancelling())):
            raise
        answer = error
    if isinstance(answer, Late) or limit.expired():  # also if the environment caught the exception
        return Failed(f"the environment did not answer within {timeout:g} seconds", FailureKind.TIMEOUT)
    if isinstance(answer, BaseException):
        return Failed(f"the environment raised {raised_in(answer, episode)}", FailureKind.RAISED)
    if wrong := misfit(answer):
        return Failed(f"the environment {wrong}{line_of(episode)}")
    if answer.player not in seats and not (answer.terminated or answer.truncated):
        who = ", ".join(dict.fromkeys(seats))
        raise UserError(f'the environment asks "{answer.player}" to act, but only {who} may act in these episodes; set --rollout Seats')
    return answer


def misfit(turn: Any) -> str | None:
    """Returns the error in an environment's answer as text, or None for a valid Turn."""
    if not isinstance(turn, Turn):
        return f"gave {short(turn)} in place of a Turn; return gradus.types.parts.Turn(observation, reward)"
    told = turn.observation
    if isinstance(told, Mapping):
        if odd := next((name for name, array in told.items() if not _is_array(name, array)), None):
            return f"gave the observation {odd!r:.40} as {short(told[odd])}; an observation of arrays maps names to NumPy arrays of numbers"
    elif not isinstance(told, str) and not (isinstance(told, tuple | list) and all(map(_is_message, told))):
        return f'gave the observation {short(told)}; it must be text, or a tuple of messages {{"role": ..., "content": text}}'
    try:
        finite = math.isfinite(turn.reward)
    except (TypeError, ValueError):
        return f"gave the reward {short(turn.reward)}; it must be a number"
    if not finite:
        return f"gave the reward {turn.reward}; it must be finite"
    if turn.steps and not math.isclose(math.fsum(turn.steps), turn.reward, rel_tol=1e-9, abs_tol=1e-9):
        return f"gave the reward {turn.reward}, but its steps have the rewards {list(turn.steps)!r:.60}; the reward must be their sum"
    return "gave a turn that is both terminated and truncated; set one of them" if turn.terminated and turn.truncated else None


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str) and _is_content(value.get("content"))


def _is_content(value: Any) -> bool:
    """Returns whether a value is text, or consists of parts that are text or media."""
    if isinstance(value, tuple | list):
        return all(isinstance(p, Mapping) and (isinstance(p.get("text"), str) or isinstance(p.get("media"), Media)) for p in value)
    return isinstance(value, str)


def _is_array(name: Any, value: Any) -> bool:
    return isinstance(name, str) and isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def short(value: Any) -> str:
    """Describes a value in a few words, without memory addresses, so that all processes give the same text."""
    if not isinstance(value, str | int | float | bool | list | tuple | dict | None):
        return f"a {type(value).__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
