"""A pool of sandboxes. Each program gets a new sandbox, which is discarded afterwards. Sandboxes are started in advance to save time."""

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

KINDS = 4  # largest number of different settings with waiting interpreters; above it, the interpreters of the settings that were used least recently end


@dataclass(frozen=True)
class Sandbox:
    """Runs Python programs that no person has reviewed. Each program is isolated from this machine and from every other program.

    A program sees the standard library, the programs in /usr/bin, and an empty working folder in memory. The program sees no other file, no network, no other
    process and no variable of this process. A run raises UserError if this machine cannot isolate programs. The constructor raises UserError for
    values out of range.
    """

    isolation: Isolation = Isolation.BUBBLEWRAP
    limits: Limits = Limits()
    packages: bool = False  # whether programs may read and import the packages of this environment (numpy and others)
    readable: tuple[str, ...] = ()  # absolute paths of further folders that programs may read; they have the same paths in the sandbox
    warm: int | None = None  # number of interpreters that wait for the next programs; None: one per core; 0: none

    def __post_init__(self) -> None:
        check_ranges(self, warm="[0, inf)")
        for folder in self.readable:
            if not os.path.isabs(folder) or not os.path.isdir(folder):
                raise UserError(f'Sandbox.readable: "{folder}" is not a folder with an absolute path; give absolute paths of folders')

    def check(self) -> None:
        """Raises UserError, with the remedy, if this machine cannot isolate programs."""
        reason = bubblewrap.missing() if self.isolation is Isolation.BUBBLEWRAP else None
        if reason is not None:
            raise UserError(f"code from the model runs only in isolation, but {reason}; {bubblewrap.WEAKER}")

    def run(
        self,
        program: str,
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        arguments: Sequence[str] = (),
    ) -> Ran:
        """Runs Python source like `python program.py ARGUMENTS` in a folder with `files`. Returns when all processes of the program have ended.

        At most one program per core runs at a time. The other programs wait, and their wall time begins after the wait. Raises: UserError if isolation is
        missing or a file's name leads out of the folder; SandboxError if the sandbox itself failed. In the second case the program may be correct.
        """
        self.check()
        given = Program(program, _bytes(stdin), {checked_name(n): _bytes(t) for n, t in (files or {}).items()}, tuple(arguments))
        with _TURNS:
            sandbox = _take(self)
            try:
                return sandbox.run(given)
            except SandboxError:  # a waiting sandbox may have been killed, for example for lack of memory
                return started(self._settings).run(given)

    def run_all(self, programs: Sequence[str], *, stdins: Sequence[str | bytes] | None = None) -> list[Ran]:
        """Runs several programs, one per core at a time. Returns one Ran per program, in their order."""
        stdins = stdins if stdins is not None else [""] * len(programs)
        with ThreadPoolExecutor(usable_cores()) as threads:
            return list(threads.map(lambda pair: self.run(pair[0], stdin=pair[1]), zip(programs, stdins, strict=True)))

    async def running(
        self, program: str, *, stdin: str | bytes = "", files: Mapping[str, str | bytes] | None = None, arguments: Sequence[str] = ()
    ) -> Ran:
        """Calls `run` in a thread, for asynchronous callers."""
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
    """Does the same as `Sandbox(isolation, limits).run(...)`, but no interpreter waits for the next program."""
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
    """Clears the pool in a forked process, because the waiting sandboxes belong to the parent."""
    global _TURNS, _LOCK
    _WAITING.clear()
    _TURNS, _LOCK = threading.BoundedSemaphore(usable_cores()), threading.Lock()


os.register_at_fork(after_in_child=_forget)
atexit.register(stop)


def _take(asked: Sandbox) -> Started:
    """Returns a waiting sandbox, or else a new one. The nursery thread then starts replacements."""
    settings, warm = asked._settings, usable_cores() if asked.warm is None else asked.warm
    found, old = None, []
    with _LOCK:
        queue = _WAITING.pop(settings, deque()) if warm else deque()
        while queue and found is None:
            first = queue.popleft()
            found = first if first.alive else None
            old += [] if first.alive else [first]
        if warm:
            _WAITING[settings] = queue  # the last entry is the most recently used one
        while len(_WAITING) > KINDS:
            old += _WAITING.pop(next(iter(_WAITING)))
    for sandbox in old:
        sandbox.close()
    taken = found if found is not None else started(settings)
    if warm:
        nursery().submit(_refill, settings, warm)
    return taken


def _refill(settings: Settings, warm: int) -> None:
    """Fills the pool in the nursery's thread.

    A failure is ignored here, because the next program starts its own sandbox and reports the error.
    """
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
