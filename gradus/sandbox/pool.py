"""Sandboxes for use: each program gets one of its own, started beforehand so that it does not wait for an interpreter, and thrown away after."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gradus.runtime.cores import usable_cores
from gradus.sandbox import bubblewrap
from gradus.sandbox.process import Program, Settings, Started, nursery, started
from gradus.sandbox.records import Isolation, Limits, Ran, SandboxError, checked_name
from gradus.types import UserError
from gradus.types.ranges import check_ranges

KINDS = 4  # of settings for which interpreters wait; those of the settings used longest ago end first


@dataclass(frozen=True)
class Sandbox:
    """Runs Python programs that nobody has read: each in isolation from this machine and from every other program.

    A program sees the standard library, /usr, and an empty folder in memory, which it works in; no network, no other process, no variable.
    Refused where that isolation is missing. Raises UserError for limits that cannot hold.
    """

    isolation: Isolation = Isolation.BUBBLEWRAP
    limits: Limits = Limits()
    packages: bool = False  # whether programs may import the packages of this environment (numpy and others); they read all of them
    readable: tuple[str, ...] = ()  # further folders that programs may read, at the same place
    warm: int | None = None  # interpreters that wait for the next programs; None: one a core, 0: none

    def __post_init__(self) -> None:
        check_ranges(self, warm="[0, inf)")
        for folder in self.readable:
            if not os.path.isabs(folder) or not os.path.isdir(folder):
                raise UserError(f'Sandbox.readable names "{folder}", which is no folder; give absolute paths of folders')

    def check(self) -> None:
        """Raises UserError where programs cannot be isolated here, with what to do."""
        reason = bubblewrap.missing() if self.isolation is Isolation.BUBBLEWRAP else None
        if reason is not None:
            raise UserError(f"model-written code is run in isolation only: {reason}; {bubblewrap.WEAKER}")

    def run(
        self,
        program: str,
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        arguments: Sequence[str] = (),
    ) -> Ran:
        """Runs Python source, as `python program.py ARGUMENTS` in a folder with `files`. Returns when nothing of it is left.

        At most one program a core runs at a time; others wait, before their time begins.
        Raises: UserError where isolation is missing, or a file's name leads out of the folder; SandboxError where the sandbox failed, which
        says nothing of the program.
        """
        self.check()
        given = Program(program, _bytes(stdin), {checked_name(n): _bytes(t) for n, t in (files or {}).items()}, tuple(arguments))
        with _TURNS:
            sandbox = _take(self)
            try:
                return sandbox.run(given)
            except SandboxError:  # one that waited may have been killed meanwhile, as by a machine that lacked memory
                return started(self._settings).run(given)

    def run_all(self, programs: Sequence[str], *, stdins: Sequence[str | bytes] | None = None) -> list[Ran]:
        """What came of each program, in their order; as many at a time as there are cores."""
        stdins = stdins if stdins is not None else [""] * len(programs)
        with ThreadPoolExecutor(usable_cores()) as threads:
            return list(threads.map(lambda pair: self.run(pair[0], stdin=pair[1]), zip(programs, stdins, strict=True)))

    async def running(
        self, program: str, *, stdin: str | bytes = "", files: Mapping[str, str | bytes] | None = None, arguments: Sequence[str] = ()
    ) -> Ran:
        """`run`, for callers that do other things meanwhile."""
        return await asyncio.to_thread(self.run, program, stdin=stdin, files=files, arguments=arguments)

    @property
    def _settings(self) -> Settings:
        return Settings(self.isolation, self.limits, self.packages, self.readable)


def run(
    program: str,
    *,
    stdin: str | bytes = "",
    files: Mapping[str, str | bytes] | None = None,
    limits: Limits = Limits(),
    isolation: Isolation = Isolation.BUBBLEWRAP,
) -> Ran:
    """`Sandbox(isolation, limits).run(...)`, with nothing that waits for a next program."""
    return Sandbox(isolation, limits, warm=0).run(program, stdin=stdin, files=files)


def stop() -> None:
    """Ends all interpreters that wait for programs."""
    with _LOCK:
        waiting = [sandbox for queue in _WAITING.values() for sandbox in queue]
        _WAITING.clear()
    for sandbox in waiting:
        sandbox.close()


_TURNS = threading.BoundedSemaphore(usable_cores())
_WAITING: dict[Settings, deque[Started]] = {}
_LOCK = threading.Lock()


def _forget() -> None:
    """In a forked process: what waits belongs to the parent."""
    global _TURNS, _LOCK
    _WAITING.clear()
    _TURNS, _LOCK = threading.BoundedSemaphore(usable_cores()), threading.Lock()


os.register_at_fork(after_in_child=_forget)
atexit.register(stop)


def _take(asked: Sandbox) -> Started:
    """A sandbox that waits, or else a new one. Has others started in its place."""
    settings, warm = asked._settings, usable_cores() if asked.warm is None else asked.warm
    found, old = None, []
    with _LOCK:
        queue = _WAITING.pop(settings, deque()) if warm else deque()
        while queue and found is None:
            first = queue.popleft()
            found = first if first.alive else None
            old += [] if first.alive else [first]
        if warm:
            _WAITING[settings] = queue  # the last in order, since just used
        while len(_WAITING) > KINDS:
            old += _WAITING.pop(next(iter(_WAITING)))
    for sandbox in old:
        sandbox.close()
    taken = found if found is not None else started(settings)
    if warm:
        nursery().submit(_refill, settings, warm)
    return taken


def _refill(settings: Settings, warm: int) -> None:
    """Starts what is missing, in the nursery's thread; what fails here is told to the next program, which starts one for itself."""
    while True:
        with _LOCK:
            queue = _WAITING.get(settings)
            if queue is None or len(queue) >= warm:
                return
        try:
            fresh = Started(settings)
        except SandboxError:
            return
        with _LOCK:
            queue = _WAITING.get(settings)
            if queue is not None:
                queue.append(fresh)
                continue
        fresh.close()


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
