"""Calls in this process that are interrupted at a limit of time, for verifiers that no other process holds.

A timer of the system interrupts what Python runs in the main thread: a loop, a sleep, a regular expression, the power of two long numbers.
It cannot interrupt what a C library does in one operation, nor other threads than the main one, nor does it bound memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradus.runtime.time_limit import Late, interrupted
from gradus.types import Failed, FailureKind, Outcome
from gradus.workers.call_queue import CallQueue, Limits, Question, overtime


def within(seconds: float, call: Callable[[], Outcome]) -> Outcome:
    """What `call` gives, or its failure where that takes longer than `seconds`. Anything it raises is raised."""
    try:
        with interrupted(seconds):
            return call()
    except Late:
        return Failed(overtime(seconds), FailureKind.TIMEOUT)


def one_by_one(calls: Sequence[Callable[[], Outcome]], limits: Limits, begun: Callable[[int], None] = lambda number: None) -> list[Outcome]:
    """What each call gives, with the retries of `limits`; where nothing but silence comes the rest is not asked. `begun` is told the next call."""
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
