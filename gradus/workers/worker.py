"""A worker process. The worker loads a user's reward function or the verifier of a user's task, and answers one call after another.

For each call, the worker reads one line: a number and a JSON object of keywords. After the call, the worker writes one line: the same number and a JSON object
of the outcomes. A line that user code writes to the pipe lacks the number, so it does not count as an answer. The first line of a worker tells whether the code is
loaded. The worker ends when its input ends. The worker uses no pickle. `python -m gradus.workers.worker FILE.py:NAME` runs one worker alone.
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
from gradus.workers.logged import Log, Scores
from gradus.workers.trl_signature import accepted, failure_of, outcome, outcomes, received, required, taken

Answer = list[Outcome] | Failed
"""The outcomes of a call, or the failure of the whole call."""

Call = Callable[[dict[str, Any]], Answer]


def main(kind: str, spec: str, options: Mapping[str, Any], memory: int = 0) -> None:
    """Answers calls of the code until the input ends. `memory`: bytes that the code may take in addition to the bytes for loading the code; 0: no limit.
    """
    requests, answers = _take_pipes()
    path = ""
    try:
        path = str(split_spec(spec, kind)[0].resolve())
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
        found = call(json.loads(keywords, object_hook=received if b'"$media"' in keywords else None))
        if os.getpid() != own:  # the user's code has forked this process, and the copy has returned, too
            os._exit(0)
        with suppress(Exception):  # user code may have closed stdout
            sys.stdout.flush()
        _send(answers, _plain(found), number + b" ")


def _function(spec: str, options: Mapping[str, Any], path: str) -> tuple[Call, dict[str, Any]]:
    """Returns a function that calls the reward function, and the first message, which has the required and the accepted keywords."""
    function = load_object(spec, "reward function")
    if hasattr(function, "score"):
        file, _, name = spec.rpartition(":")
        raise UserError(f"{spec} is a part, not a reward function; give a recipe with this part: RECIPE.derive(key, about, reward={name}()) in {file}")
    if not callable(function):
        raise UserError(f"{spec} is of type {type(function).__name__}; it must be a function")
    later = _Later()
    return lambda arguments: answer(function, arguments, later, path), {"required": required(function), "taken": taken(function)}


def _verifier(spec: str, options: Mapping[str, Any], path: str) -> tuple[Call, dict[str, Any]]:
    """Returns a function that calls the task's verifier with a problem and a completion, and an empty first message."""
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
    """Returns one outcome per completion, or one failure for all completions. `later` awaits the result of an async function."""
    count = len(arguments["completions"])  # read before the call, because the function can change the list
    try:
        log = Log()
        values = function(**accepted(function, arguments, log))
        values = later(values) if inspect.isawaitable(values) else values
        return outcomes(values, count, log)
    except BaseException as error:  # also SystemExit, so that the process is ready for the next call
        return failure_of(error, path)


class _Later:
    """Awaits all results in one event loop, so that the connections of an async function remain usable."""

    def __init__(self) -> None:
        self._loop: Any = None

    def __call__(self, values: Any) -> Any:
        import asyncio

        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop.run_until_complete(_awaited(values))


async def _awaited(values: Any) -> Any:
    return await values


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Moves the pipes of the protocol to new descriptors, and returns them.

    Text that user code prints goes to standard error. The standard input of user code is empty.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _limit(memory: int) -> None:
    """Limits the growth of this process's data to `memory` bytes. A larger request raises MemoryError.

    There is no limit if the system does not report the size of the process.

    Data means writable memory. Reserved address space does not count, because GPU drivers reserve gigabytes of it.
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
    """Returns outcomes as JSON: a number, None if the reward does not apply, or {"failed": kind and reason}.

    The log is included if the function logged anything.
    """
    if isinstance(found, Failed):
        return {"failed": found.told}
    log = getattr(found, "log", None)
    return {"outcomes": [plain_outcome(o) for o in found], **({"log": log.as_json()} if log and (log.metrics or log.columns) else {})}


def plain_outcome(found: Outcome) -> Any:
    """Returns one outcome as JSON, for `read_outcome`."""
    if isinstance(found, Failed):
        return {"failed": found.told}
    return None if isinstance(found, NotApplicable) else found


def read_outcomes(message: Any, count: int) -> Answer:
    """Reads the outcomes from a message that `_plain` made. Raises ValueError if the message is not the answer to a call about `count` completions."""
    if isinstance(message, dict) and isinstance(message.get("failed"), str):
        return Failed.read(message["failed"])
    values: Sequence[Any] = message.get("outcomes") if isinstance(message, dict) else None  # type: ignore[assignment]
    if not isinstance(values, list) or len(values) != count:
        raise ValueError  # the caller reports it
    scores = Scores(read_outcome(value) for value in values)
    try:
        scores.log = Log.read(message["log"], count) if "log" in message else None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError from error
    return scores


def read_outcome(value: Any) -> Outcome:
    """Reads an outcome that `plain_outcome` made. Raises ValueError for any other value."""
    if isinstance(value, dict) and isinstance(value.get("failed"), str):
        return Failed.read(value["failed"])
    if value is None:
        return NOT_APPLICABLE
    if isinstance(value, float) and value - value == 0:  # finite
        return value
    raise ValueError  # the caller reports it


if __name__ == "__main__":
    main("reward function", sys.argv[1], {})
