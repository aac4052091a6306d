"""The watchdog of a run. The watchdog reports long waits, and ends the run if a wait does not end.

While code waits, it is inside the context `waiting`. A thread checks the waits: it reports a wait after `after` seconds, after twice this time, after four
times this time, and so on. If no wait begins or ends within `limit` seconds, the thread raises `Stuck` in the main thread. This ends the run. But if a C
operation keeps the interpreter lock, it also blocks the thread of the watchdog. The waits that end the run are abandoned, so that a resumed run does not
repeat these waits.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from gradus.types import UserError

_SIGNAL = getattr(signal, "SIGVTALRM", None)  # a signal that other code rarely uses; its handler runs even if the main thread sleeps or waits for a lock
_GRACE = 5.0  # seconds between attempts to end the run
_ATTEMPTS = 6
_GAP = 60.0  # if more than this number of seconds passes between two checks, the process itself was stopped; this time does not count


class Hung(UserError):
    """The exception of a run that the watchdog ended. The message of the exception is the report."""

    code = 4  # the exit code


class Stuck(KeyboardInterrupt):
    """The exception that ends the main thread of a stuck run. Event loops and `except Exception` do not catch it."""


@dataclass(eq=False)
class Wait:
    """One wait of the run. The run waits for `what`, because of `about`. The wait began at `since` (seconds of the clock)."""

    what: str
    about: str | Callable[[], str]
    since: float
    told: int = 0  # number of reports
    task: asyncio.Task[Any] | None = None  # the task that waits
    abandon: Callable[[float], None] | None = None  # called with the seconds of the wait so far; afterwards a resumed run does not repeat the wait

    def line(self, now: float) -> str:
        """Returns the wait as text, such as 'reward function score, for 32s (problem p/3)'."""
        about = self.about() if callable(self.about) else self.about
        return f"{self.what}, for {now - self.since:.0f}s{f' ({about})' if about else ''}"


@dataclass(eq=False)
class Watchdog:
    """Reports long waits and ends a stuck run. `say` shows a message; `clock` gives seconds."""

    say: Callable[[str], None] = print
    after: float = 30.0  # seconds before the first report of a wait
    limit: float = 3600.0  # the run ends if no wait begins or ends for this number of seconds; 0: no limit
    clock: Callable[[], float] = time.monotonic
    waits: dict[int, Wait] = field(default_factory=dict)
    moved: float = 0.0  # time at which a wait last began or ended
    looked: float | None = None  # time of the last check
    report: str = ""  # the reason for the end of the run
    _number: Iterator[int] = field(default_factory=itertools.count)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _before: Any = None

    @contextmanager
    def waiting(self, what: str, about: str | Callable[[], str] = "", abandon: Callable[[float], None] | None = None) -> Iterator[None]:
        """A context manager around a wait for `what`, because of `about`. Any thread can use it.

        If the run ends because of this wait, another thread calls `abandon` with the seconds of the wait so far. The main thread still waits at that time.
        """
        number, now = next(self._number), self.clock()
        self.waits[number] = Wait(what, about, now, task=_task(), abandon=abandon)
        self.moved = now
        try:
            yield
        finally:
            del self.waits[number]
            self.moved = self.clock()
        if self._before is not None and threading.current_thread() is threading.main_thread():
            self._raise()  # raises again, because code may have caught the watchdog's exception

    @contextmanager
    def watching(self, say: Callable[[str], None], limit: float) -> Iterator[None]:
        """A context manager in which the watchdog runs. Raises Hung with the report if the watchdog ends the run."""
        self.say, self.limit = say, limit
        self.start()
        try:
            yield
        except Stuck as error:
            raise Hung(f"{self.report}. Fix the cause and continue with gradus resume, or set a larger limit with --max_wait") from error
        finally:
            self.stop()

    def look(self) -> bool:
        """Reports the long waits in one message. The message names the longest wait and the number of other long waits. Returns whether the run is stuck."""
        now = self.clock()
        gap, self.looked = now - (now if self.looked is None else self.looked), now
        self.moved += gap if gap > _GAP else 0.0
        waits = sorted(self.waits.values(), key=lambda w: w.since)
        late = [w for w in waits if now - w.since >= self.after * 2**w.told]
        for wait in late:
            while now - wait.since >= self.after * 2**wait.told:
                wait.told += 1
        if late:
            more = f"; {len(late) - 1} more wait" if len(late) > 1 else ""
            self.say(f"still waiting for {late[0].line(now)}{more}")
        if not (self.limit and waits and now - self.moved >= self.limit):
            return False
        listed = "; ".join(w.line(now) for w in waits[:3]) + (f"; and {len(waits) - 3} more" if len(waits) > 3 else "")
        self.report = f"no progress for {now - self.moved:.0f}s, so the run ends; it waited for: {listed}"
        return True

    def give_up(self) -> None:
        """Abandons the wait in which the current task of the event loop is stuck. If the loop itself waits, no task runs, and all waits are abandoned.
        """
        now = self.clock()
        given_up = 0
        for wait in list(self.waits.values()):
            if wait.abandon is not None and wait.task is not None and asyncio.current_task(wait.task.get_loop()) in (None, wait.task):
                with suppress(Exception):  # the disk itself may hang
                    wait.abandon(now - wait.since)
                    given_up += 1
        if given_up:
            self.report += f". {given_up} of these count{'s' * (given_up == 1)} as failed after a resume"

    def start(self) -> None:
        """Starts the thread that checks the waits. The watchdog can interrupt the main thread only if `start` was called in the main thread."""
        self.moved, self.looked, self.report = self.clock(), None, ""
        self._over.clear()
        if threading.current_thread() is threading.main_thread() and _SIGNAL is not None:
            self._before = signal.signal(_SIGNAL, self._raise)
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread that checks the waits."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=_GRACE)
        if self._before is not None:
            with suppress(ValueError):  # not in the main thread
                signal.signal(_SIGNAL, self._before)  # type: ignore[arg-type]
            self._before = None

    def _raise(self, *_: Any) -> None:
        if self.report and not self._over.is_set():
            raise Stuck(self.report)

    def _watch(self) -> None:
        often = max(0.05, min(self.after, self.limit or self.after) / 8)
        while not self._over.wait(often):
            with suppress(RuntimeError):  # a wait began during the listing
                if self.look():
                    break
        else:
            return
        self.give_up()
        for attempt in range(_ATTEMPTS):
            if self._over.is_set():
                return
            if self._before is not None:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)  # type: ignore[arg-type]
            elif attempt == 0:
                self.say(self.report)
            if self._over.wait(_GRACE):
                return
        self._give_up()

    def _give_up(self) -> None:
        """If no signal could interrupt the main thread, shows the tracebacks and ends the process."""
        import faulthandler

        self.say(f"{self.report}. The code cannot be interrupted; correct the cause and continue with gradus resume")
        with suppress(Exception):
            faulthandler.dump_traceback(all_threads=True)
        if self._before is not None and not hasattr(sys, "ps1"):
            os._exit(Hung.code)


def _task() -> asyncio.Task[Any] | None:
    """Returns the task that runs in this thread; None outside an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
