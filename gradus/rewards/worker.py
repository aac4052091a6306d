"""The process that holds one reward function of a user: `python -m gradus.rewards.worker FILE.py:NAME`.

It reads one JSON object a line, the keywords of a call, and writes one a line, the outcomes; the first line that it writes says whether the
function could be loaded. It ends when its input does. Nothing is pickled.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from gradus.rewards.calling import accepted, outcomes, required
from gradus.types import Failed, NotApplicable, Outcome, UserError
from gradus.types.user_code import load_object, raised, split_spec


def main(spec: str) -> None:
    """Serves the function until the input ends."""
    requests, answers = _take_pipes()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    try:
        path = split_spec(spec, "reward function")[0].resolve()
        sys.path.insert(0, str(path.parent))  # first, as if the file were run
        function = load_object(spec, "reward function")
        if not callable(function):
            raise UserError(f"{spec} is of type {type(function).__name__}; it must be a function")
    except UserError as error:
        _send(answers, {"error": str(error)})
        return
    _send(answers, {"required": required(function)})
    loop = asyncio.new_event_loop()  # one for all calls, so that what an async function keeps open stays usable
    while True:
        arguments = json.loads(inbox.get())
        found = answer(function, arguments, loop, str(path))
        sys.stdout.flush()
        _send(answers, {"outcomes": [_plain(o) for o in found]})


def answer(function: Callable[..., Any], arguments: dict[str, Any], loop: asyncio.AbstractEventLoop, path: str) -> list[Outcome]:
    """One outcome for every completion; all failed where the function raised."""
    count = len(arguments["completions"])
    try:
        values = function(**accepted(function, arguments))
        if inspect.isawaitable(values):
            values = loop.run_until_complete(_awaited(values))
    except (Exception, SystemExit) as error:
        return [Failed(f"raised {raised(error, path)}")] * count
    return outcomes(values, count)


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


def _receive(requests: BinaryIO, inbox: queue.SimpleQueue[bytes]) -> None:
    """Reads while user code runs, so that the process ends with its parent even from a call that never returns."""
    for line in requests:
        inbox.put(line)
    os._exit(0)


def _send(answers: BinaryIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, allow_nan=False).encode() + b"\n")
    answers.flush()


def _plain(outcome: Outcome) -> Any:
    """A number, None for not applicable, {"failed": reason}."""
    if isinstance(outcome, Failed):
        return {"failed": outcome.reason}
    return None if isinstance(outcome, NotApplicable) else outcome


if __name__ == "__main__":
    main(sys.argv[1])
