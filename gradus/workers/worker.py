"""What a worker process does: it holds a user's reward function, or the verifier of a user's task, and answers one call after another.

It reads a line a call, its number and a JSON object of its keywords, and writes one, the same number and a JSON object of the outcomes: what
user code writes to the pipe is the answer to no call. The first line that it writes says whether the code could be loaded. It ends when its
input does. Nothing is pickled. `python -m gradus.workers.worker FILE.py:NAME` is one by itself.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from gradus.runtime.user_code import load_object, split_spec
from gradus.types import NOT_APPLICABLE, Failed, NotApplicable, Outcome, Problem, UserError
from gradus.types.packing import unpacked
from gradus.workers.trl_signature import accepted, failure_of, outcome, outcomes, required, taken

Answer = list[Outcome] | Failed
"""The outcomes of a call, or why there are none."""

Call = Callable[[dict[str, Any]], Answer]


def main(kind: str, spec: str, options: Mapping[str, Any], memory: int = 0) -> None:
    """Serves the code until the input ends. `memory`: bytes that it may take beside what loading took; 0: no limit."""
    requests, answers = _take_pipes()
    path = ""
    try:
        path = str(split_spec(spec, kind)[0].resolve())
        sys.path.insert(0, os.path.dirname(path))  # first, as if the file were run
        call, hello = {"reward function": _function, "task": _verifier}[kind](spec, options, path)
    except UserError as error:
        _send(answers, {"error": str(error)})
        return
    if memory:
        _limit(memory)
    _send(answers, hello)
    own = os.getpid()
    for line in requests:
        number, _, keywords = line.partition(b" ")
        found = call(json.loads(keywords))
        if os.getpid() != own:  # the user's code has forked, and its copy came back, too
            os._exit(0)
        with suppress(Exception):  # user code may have closed it
            sys.stdout.flush()
        _send(answers, _plain(found), number + b" ")


def _function(spec: str, options: Mapping[str, Any], path: str) -> tuple[Call, dict[str, Any]]:
    """How a reward function is called, and what it asks for."""
    function = load_object(spec, "reward function")
    if hasattr(function, "score"):
        file, _, name = spec.rpartition(":")
        raise UserError(f"{spec} is a part and no reward function; give a recipe that has it: RECIPE.derive(key, about, reward={name}()) in {file}")
    if not callable(function):
        raise UserError(f"{spec} is of type {type(function).__name__}; it must be a function")
    later = _Later()
    return lambda arguments: answer(function, arguments, later, path), {"required": required(function), "taken": taken(function)}


def _verifier(spec: str, options: Mapping[str, Any], path: str) -> tuple[Call, dict[str, Any]]:
    """How the verifier of a task is called: with a problem and a completion."""
    found = load_object(spec, "task")
    try:
        verify = (found if hasattr(found, "verify") else found(**options)).verify
    except Exception as error:
        raise UserError(f"{spec} {failure_of(error, path).reason}") from error

    def call(arguments: dict[str, Any]) -> Answer:
        try:
            return [outcome(verify(Problem(**unpacked(arguments["problem"])), arguments["completion"]))]
        except BaseException as error:
            return [failure_of(error, path, "the verifier ")]

    return call, {}


def answer(function: Callable[..., Any], arguments: dict[str, Any], later: Callable[[Any], Any], path: str) -> Answer:
    """One outcome for every completion, or the failure of all. `later` waits for what an async function returns."""
    count = len(arguments["completions"])  # before the function can change the list
    try:
        values = function(**accepted(function, arguments))
        values = later(values) if inspect.isawaitable(values) else values
        return outcomes(values, count)
    except BaseException as error:  # also exits: the process stays, to be asked again
        return failure_of(error, path)


class _Later:
    """Waits for awaitables in one event loop, so that what an async function keeps open stays usable."""

    def __init__(self) -> None:
        self._loop: Any = None

    def __call__(self, values: Any) -> Any:
        import asyncio

        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop.run_until_complete(_awaited(values))


async def _awaited(values: Any) -> Any:
    return await values


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of the protocol under descriptors of their own; what user code prints goes to standard error, what it reads is empty."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _limit(memory: int) -> None:
    """Lets this process's data grow by `memory` bytes from here; more is a MemoryError. Where the system does not say how much it has: no limit.

    Data is what can be written: address space that is only set aside, as drivers of GPUs do by the gigabyte, does not count.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (now + memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _send(answers: BinaryIO, message: Any, number: bytes = b"") -> None:
    answers.write(number + json.dumps(message, allow_nan=False).encode() + b"\n")
    answers.flush()


def _plain(found: Answer) -> Any:
    """Outcomes as JSON: a number, None for not applicable, {"failed": kind and reason}."""
    if isinstance(found, Failed):
        return {"failed": found.told}
    return {"outcomes": [_plain_outcome(o) for o in found]}


def _plain_outcome(found: Outcome) -> Any:
    if isinstance(found, Failed):
        return {"failed": found.told}
    return None if isinstance(found, NotApplicable) else found


def read_outcomes(message: Any, count: int) -> Answer:
    """The inverse of what a worker writes. Raises ValueError where it is not the answer to a call about `count` completions."""
    if isinstance(message, dict) and isinstance(message.get("failed"), str):
        return Failed.read(message["failed"])
    values: Sequence[Any] = message.get("outcomes") if isinstance(message, dict) else None  # type: ignore[assignment]
    if not isinstance(values, list) or len(values) != count:
        raise ValueError  # it says nothing more
    return [_read_outcome(value) for value in values]


def _read_outcome(value: Any) -> Outcome:
    if isinstance(value, dict) and isinstance(value.get("failed"), str):
        return Failed.read(value["failed"])
    if value is None:
        return NOT_APPLICABLE
    if isinstance(value, float) and value - value == 0:  # finite
        return value
    raise ValueError  # it says nothing more


if __name__ == "__main__":
    main("reward function", sys.argv[1], {})
