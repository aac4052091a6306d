"""A time limit for code in this process.

A system timer interrupts Python code in the main thread: a loop, a sleep, a regular expression, or a power of
long numbers (`a ** b`). The timer cannot interrupt a single operation of a C library or another thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 1e9  # seconds: more than thirty years, and still a number that a timer accepts
_AGAIN = 1.0  # seconds between interruptions of code that catches the exception


class Late(KeyboardInterrupt):
    """The exception of the time limit. This exception is not an `Exception`, so `except Exception` does not catch it. A keyboard interrupt behaves in
    the same way.
    """


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Raises Late within the block after `seconds`. If the block has caught or replaced this exception, raises Late again at the end of the block.

    Does nothing outside the main thread, or on a system without timers.
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
        try:  # from this line on, Late may be raised, even before the block begins
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
        signal.setitimer(signal.ITIMER_REAL, *left)  # an alarm that other code has set still comes, perhaps later
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


@dataclass(frozen=True)
class Interruptible(Generic[T]):
    """An awaitable that is interrupted if it computes for longer than `seconds` without a pause. Waiting time does not count."""

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
