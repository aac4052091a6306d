"""Calls in this process with a time limit, for verifiers that do not run in a worker process.

A system timer interrupts Python code in the main thread: a loop, a sleep, a regular expression, or a power of
long numbers (`a ** b`). The timer cannot interrupt a single operation of a C library or another thread. There is
no limit on the memory of a call in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradus.runtime.time_limit import Late, interrupted
from gradus.types import Failed, FailureKind, Outcome
from gradus.workers.call_queue import CallQueue, Limits, Question, overtime


def within(seconds: float, call: Callable[[], Outcome]) -> Outcome:
    """Returns the result of `call`, or a failure if the call takes longer than `seconds`. Raises the exceptions of `call`."""
    try:
        with interrupted(seconds):
            return call()
    except Late:
        return Failed(overtime(seconds), FailureKind.TIMEOUT)


def one_by_one(calls: Sequence[Callable[[], Outcome]], limits: Limits, begun: Callable[[int], None] = lambda number: None) -> list[Outcome]:
    """Runs the calls one after another, with the retries of `limits`, and returns their results.

    After many time-outs and no answer, the remaining calls fail.

    Before each call starts, `begun` is called with the number of the call.
    """
    round_ = CallQueue([Question({}, 1)] * len(calls), limits)
    while round_.open:
        round_.give_up()
        if not round_.waiting:
            break
        number = round_.waiting.popleft()
        begun(number)
        found = within(limits.seconds, calls[number])
        if isinstance(found, Failed) and found.kind is FailureKind.TIMEOUT:
            round_.lost([number], found)
        else:
            round_.settle(number, [found])
    return [answer if isinstance(answer, Failed) else answer[0] for answer in round_.found]
