"""Ends a run early because of a signal or the time limit. The run saves before it ends; a second signal ends the run at once.

A run has a complete state only at step boundaries. If a stop comes during sampling or judging, this work is discarded, and the run saves the state from the
start of the step. If a stop comes while weights change or a checkpoint is written, the stop waits for the end of this work. The resumed run repeats the
discarded step, so a stop does not change the result in any byte.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gradus.types.errors import UserError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TIME_UP = 3
"""The exit code of a run that reached its time limit. After a signal, the exit code is 128 + the signal's number: 130 for SIGINT, 143 for SIGTERM, 129 for
SIGHUP.
"""

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_SHOW_CURSOR = b"\x1b[?25h"


class Cut(KeyboardInterrupt):
    """The exception that discards the work of a step. An event loop does not catch this exception, because it is a KeyboardInterrupt."""


def seconds_of(text: str) -> float:
    """Converts a duration to seconds. Raises UserError if the text is not a duration.

    >>> seconds_of("90s"), seconds_of("1h30m"), seconds_of("0.5d")
    (90.0, 5400.0, 43200.0)
    """
    match = _DURATION.fullmatch(text)
    seconds = sum(float(n) * unit for n, unit in zip(match.groups(), (86400, 3600, 60, 1), strict=True) if n) if match else 0.0
    if not seconds:
        raise UserError(f'--until is "{text}"; write a duration above zero, such as 90s, 30m, 8h, 1h30m or 2d')
    return seconds


def unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles an error in a task of an event loop if no code awaits this task. Ignores errors that end a run, because other code reports these errors."""
    if not isinstance(context.get("exception"), (KeyboardInterrupt, asyncio.CancelledError)):
        loop.default_exception_handler(context)


class Stop:
    """Decides whether a run must stop early, and stores the reason.

    Args: until: a duration from now, such as "8h"; None: no limit. clock: gives monotonic seconds, independent of the date.
    """

    def __init__(self, until: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.limit = None if until is None else seconds_of(until)
        self.deadline = None if self.limit is None else clock() + self.limit
        self.asked: str | None = None  # "SIGINT", "SIGTERM", "SIGHUP", "time"
        self.boundaries = 0  # passed boundaries: the finished steps + 1
        self.fault: Exception | None = None  # error of the save at the end
        self._holds = 0  # number of reasons to finish the current work first
        self._cut = False
        self._ringing = False
        self._since: float | None = None  # time of the last boundary
        self._longest = 0.0  # the longest time between two boundaries, in seconds; `_save`: the longest time of a save
        self._save = 0.0

    @property
    def code(self) -> int:
        """Returns the exit code of the stop; 0 if there was no stop."""
        if self.asked is None:
            return 0
        return TIME_UP if self.asked == "time" else 128 + signal.Signals[self.asked]

    @property
    def cut(self) -> bool:
        """Whether a step was discarded."""
        return self._cut

    def boundary(self, *, last: bool) -> bool:
        """Whether the run stops at this boundary.

        With a time limit, the run stops if the remaining time may be too short for another step and for saving.
        """
        now = self.clock()
        self.boundaries += 1
        if self._since is not None:
            self._longest = max(self._longest, now - self._since)
        self._since = now
        if self.asked is None and self.deadline is not None and now + (0.0 if last else 1.1 * self._longest) >= self._latest():
            self.asked = "time"
        return self.asked is not None

    def _latest(self) -> float:
        """Returns the latest time at which saving must begin."""
        assert self.deadline is not None
        assert self.limit is not None
        return self.deadline - max(2 * self._save, min(0.05 * self.limit, 60.0))

    def hold(self) -> None:
        """Makes every later stop wait until `release` is called. Raises Cut as `heed` does."""
        self.heed()
        self._holds += 1

    def heed(self) -> None:
        """Raises Cut if a user or the system asked the run to stop. During work that must be finished first (`hold`), it does not raise Cut.

        If other code caught the first Cut, `heed` raises Cut again, because the results after the first Cut are invalid.
        """
        if self.asked is not None and not self._holds:
            self._cut = True
            raise Cut

    def release(self) -> None:
        self._holds -= 1

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """A context manager. No stop interrupts the work within it. If a stop was requested in the meantime, the context manager raises Cut at its end."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        self._raise_if_free()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A context manager in which no stop can interrupt the writing of a checkpoint.

        The context manager measures the time that saving takes. If a stop was requested in the meantime, the context manager raises Cut at its end.
        """
        self._holds += 1
        began = self.clock()
        try:
            yield
        finally:
            self._holds -= 1
        self._save = max(self._save, self.clock() - began)
        self._raise_if_free()

    def _raise_if_free(self) -> None:
        if self.asked is not None and not self._holds and not self._cut:
            self._cut = True
            raise Cut

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context manager: within it, the run reacts to signals and to the time limit.

        If other code has set a handler for a signal, the signal keeps this handler. Outside the main thread the context manager has no effect.
        """
        theirs: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            default = (signal.SIG_DFL, signal.default_int_handler)
            theirs = {number: now for number in SIGNALS if (now := signal.getsignal(number)) in default}
        over = threading.Event()
        waiting = None
        try:  # from here on the code can raise Cut, even before the block begins
            for number in theirs:
                signal.signal(number, self._heard)
            if theirs and self.deadline is not None:
                waiting = threading.Thread(target=self._wait, args=(over, next(iter(theirs))), daemon=True)
                waiting.start()
            yield
        finally:
            self._holds += 1  # no Cut from here on
            over.set()
            if waiting is not None:
                waiting.join()
            for number, before in theirs.items():
                signal.signal(number, before)
            self._holds -= 1

    def _wait(self, over: threading.Event, number: signal.Signals) -> None:
        """Wakes the main thread when saving must begin. The method checks the time every second, because the measured time of saving can grow."""
        while (left := self._latest() - self.clock()) > 0:
            if over.wait(min(left, 1.0)):
                return
        if not over.is_set() and self.asked is None:
            self._ringing = True
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _heard(self, number: int, frame: Any) -> None:
        if self._ringing:
            self._ringing = False
            self.asked = self.asked or "time"
        else:
            self.asked = self.asked or signal.Signals(number).name
            for each in SIGNALS:
                if signal.getsignal(each) == self._heard:
                    signal.signal(each, signal.SIG_DFL)  # the next signal ends the process at once; the files on disk stay complete
            _tell(signal.Signals(number), finishing=bool(self._holds))
        self._raise_if_free()


def _tell(number: signal.Signals, finishing: bool) -> None:
    """Reports the stop on standard error. If the terminal was closed, later output goes to /dev/null."""
    if number is signal.SIGHUP:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            if os.isatty(stream):
                os.dup2(nowhere, stream)
        os.close(nowhere)
    first = "finishing work that cannot be interrupted, then saving" if finishing else "saving"
    with suppress(OSError):
        if sys.stdout is not None and os.isatty(1):
            os.write(1, _SHOW_CURSOR)  # a live table hides the cursor, and after a second signal the cursor would stay hidden
        os.write(2, f"\n{number.name}: {first}; a second signal stops at once and keeps only the last checkpoint\n".encode())
