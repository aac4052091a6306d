"""What a run waits for, named where it takes long; and an end with a report where it takes for ever.

Whatever waits enters `waiting`. A thread looks at it now and then: it tells what has waited for `after` seconds, again at twice that, and so
on; after `limit` seconds without any wait beginning or ending, it ends the run: it raises `Stuck` where the main thread stands. Code that
keeps all threads of Python from running, inside one operation of C, keeps this one, too. What never came is abandoned, so that whoever goes
on with the run does not wait for it again.
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

_SIGNAL = getattr(signal, "SIGVTALRM", None)  # hardly anybody's; its handler runs even where the main thread sleeps or waits for a lock
_GRACE = 5.0  # seconds between attempts to end a run that does not end
_ATTEMPTS = 6
_GAP = 60.0  # seconds between two looks from which the process was stopped meanwhile, so that nothing could come


class Hung(UserError):
    """What a run was ended for that waited for what did not come."""

    code = 4  # the exit code


class Stuck(KeyboardInterrupt):
    """The run waits for what does not come. Event loops let it through, and code that catches every Exception, too."""


@dataclass(eq=False)
class Wait:
    """Something that is waited for."""

    what: str
    about: str | Callable[[], str]
    since: float
    told: int = 0  # how often
    task: asyncio.Task[Any] | None = None  # that waits
    abandon: Callable[[float], None] | None = None  # sees to it that this is not waited for again; told the seconds

    def line(self, now: float) -> str:
        """'reward function score, for 32s (problem p/3)'."""
        about = self.about() if callable(self.about) else self.about
        return f"{self.what}, for {now - self.since:.0f}s{f' ({about})' if about else ''}"


@dataclass(eq=False)
class Watchdog:
    """Names what waits. `say` shows a sentence; `clock` counts seconds."""

    say: Callable[[str], None] = print
    after: float = 30.0  # seconds after which a wait is told for the first time
    limit: float = 3600.0  # seconds in which nothing comes and nothing new is asked for, until the run is ended; 0: never
    clock: Callable[[], float] = time.monotonic
    waits: dict[int, Wait] = field(default_factory=dict)
    moved: float = 0.0  # when a wait last began or ended
    looked: float | None = None  # when it was looked last
    report: str = ""  # what the run was ended for
    _number: Iterator[int] = field(default_factory=itertools.count)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _before: Any = None

    @contextmanager
    def waiting(self, what: str, about: str | Callable[[], str] = "", abandon: Callable[[float], None] | None = None) -> Iterator[None]:
        """While this is entered, `what` is waited for, because of `about`. From any thread.

        `abandon` is called where the run ends for this: with the seconds, from another thread, while the main thread still waits.
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
            self._raise()  # again, where what was waited for has caught it: what came then is no answer

    @contextmanager
    def watching(self, say: Callable[[str], None], limit: float) -> Iterator[None]:
        """Looks while this is entered. Raises Hung with the report where it ends the run."""
        self.say, self.limit = say, limit
        self.start()
        try:
            yield
        except Stuck as error:
            raise Hung(f"{self.report}. Mend what hangs and go on with gradus resume; --max_wait says how long is too long") from error
        finally:
            self.stop()

    def look(self) -> bool:
        """Tells what has waited long; whether the run is stuck. What one look finds is told in one sentence, the longest wait first."""
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
        self.report = f"nothing has come for {now - self.moved:.0f}s, so the run ends; it waited for: {listed}"
        return True

    def give_up(self) -> None:
        """Abandons what is being computed; where nothing is, for the event loop waits too, all that is waited for."""
        now = self.clock()
        given_up = 0
        for wait in list(self.waits.values()):
            if wait.abandon is not None and wait.task is not None and asyncio.current_task(wait.task.get_loop()) in (None, wait.task):
                with suppress(Exception):  # the disk may be what does not come
                    wait.abandon(now - wait.since)
                    given_up += 1
        if given_up:
            self.report += f". {given_up} of these count{'s' * (given_up == 1)} as failed when the run goes on"

    def start(self) -> None:
        """Begins to look, in a thread of its own. In the main thread: what is stuck there can be ended."""
        self.moved, self.looked, self.report = self.clock(), None, ""
        self._over.clear()
        if threading.current_thread() is threading.main_thread() and _SIGNAL is not None:
            self._before = signal.signal(_SIGNAL, self._raise)
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the looking."""
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
            with suppress(RuntimeError):  # something began to wait while the waits were listed
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
        """The main thread is inside code that no signal interrupts: where it stands is shown, and the process ends, as if it were killed."""
        import faulthandler

        self.say(f"{self.report}. It cannot be interrupted; mend it, and go on with gradus resume")
        with suppress(Exception):
            faulthandler.dump_traceback(all_threads=True)
        if self._before is not None and not hasattr(sys, "ps1"):
            os._exit(Hung.code)


def _task() -> asyncio.Task[Any] | None:
    """The task that runs in this thread; None outside of an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
