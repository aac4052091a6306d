"""An end for what this process computes for too long. A timer of the system interrupts what Python runs in the main thread: a loop, a sleep, a
regular expression, the power of two long numbers. It cannot interrupt what a C library does in one operation, nor other threads.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 1e9  # seconds that a timer can be set to, and more than thirty years
_AGAIN = 1.0  # seconds after which code that has caught its interruption is interrupted again


class Late(KeyboardInterrupt):
    """Raised inside: what catches every Exception, or all but an interruption from the keyboard, lets it through."""


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Raises Late in the block where it takes longer than `seconds`, and at its end where it has caught that or raised something else instead.

    Never in another thread than the main one, nor where there are no timers.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    running, late = True, False

    def interrupt(*_: Any) -> None:
        nonlocal late
        if running:
            late = True
            raise Late

    before, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        try:  # from here on Late may come, even before the block begins
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, min(seconds, _MOST), _AGAIN)
            yield
        finally:
            running = False
        if late:
            raise Late
    except Exception as error:
        if late:
            raise Late from error
        raise
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, *left)  # whoever waits for an alarm of their own gets it, if later
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


@dataclass(frozen=True)
class Interruptible(Generic[T]):
    """What is awaited, interrupted where it computes for longer than `seconds` at a stretch. The time in which it awaits does not count."""

    awaited: Awaitable[T]
    seconds: float

    def __await__(self) -> Generator[Any, Any, T]:
        inside = self.awaited.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                with interrupted(self.seconds):
                    waits_for = next(inside) if thrown is None else inside.throw(thrown)
            except StopIteration as done:
                return done.value
            thrown = None
            try:
                yield waits_for
            except BaseException as error:
                thrown = error
