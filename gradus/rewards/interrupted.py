"""Calls in this process that are interrupted at a limit of time, for verifiers that no other process holds.

A timer of the system interrupts what Python runs in the main thread: a loop, a sleep, a regular expression, the power of two long numbers.
It cannot interrupt what a C library does in one operation, nor other threads than the main one, nor does it bound memory.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from gradus.rewards.round import Limits, Question, Round, overtime
from gradus.types import Failed, FailureKind, Outcome

_AGAIN = 1.0  # seconds after which a call that has caught its interruption is interrupted again


class _Late(KeyboardInterrupt):
    """Raised inside the call: what catches every Exception, or all but an interruption from the keyboard, lets it through."""


def within(seconds: float, call: Callable[[], Outcome]) -> Outcome:
    """What `call` gives, or its failure where that takes longer than `seconds`. Anything it raises is raised."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return call()
    running = True

    def interrupt(*_: Any) -> None:
        if running:
            raise _Late

    before = signal.signal(signal.SIGALRM, interrupt)
    left = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        try:
            return call()
        finally:
            running = False
    except _Late:
        return Failed(overtime(seconds), FailureKind.TIMEOUT)
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, *left)  # whoever waits for an alarm of their own gets it, if later
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


def one_by_one(calls: Sequence[Callable[[], Outcome]], limits: Limits, begun: Callable[[int], None] = lambda number: None) -> list[Outcome]:
    """What each call gives, with the retries of `limits`; where nothing but silence comes the rest is not asked. `begun` is told the next call."""
    round_ = Round([Question({}, 1)] * len(calls), limits)
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
