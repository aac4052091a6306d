"""What a program is given: the kernel's limits on it, and its environment variables."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gradus.sandbox import bubblewrap
from gradus.sandbox.records import Isolation, Limits


def resources(limits: Limits, isolation: Isolation) -> dict[str, tuple[int, int]]:
    """The kernel's soft and hard limits, by their names in the module `resource`."""
    equal = {
        "RLIMIT_AS": limits.memory,
        "RLIMIT_FSIZE": limits.disk,
        "RLIMIT_NOFILE": limits.files,
        "RLIMIT_STACK": 8 << 20,
        "RLIMIT_CORE": 1,  # byte: no file, and none for a program of the system's that takes cores through a pipe, which 0 does not stop
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 1024,  # signals and timers that wait
        "RLIMIT_NPROC": limits.processes + _beside(isolation),
    }
    # At the soft limit of processor time comes SIGXCPU, which tells why; at the hard one SIGKILL, for those that catch it.
    return {**{name: (value, value) for name, value in equal.items()}, "RLIMIT_CPU": (limits.cpu_seconds, limits.cpu_seconds + 1)}


def _beside(isolation: Isolation) -> int:
    """Processes that count against the program's limit and are not its own."""
    if isolation is Isolation.BUBBLEWRAP and bubblewrap.as_root():
        return 0  # nobody else has its user
    if isolation is Isolation.BUBBLEWRAP and _kernel() >= (5, 14):  # counted by user namespace; bubblewrap's first process is in it
        return 1
    return _threads_of(os.getuid())


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def _threads_of(user: int) -> int:
    """Threads of a user on the whole machine."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            count += len(os.listdir(entry / "task")) if entry.stat().st_uid == user else 0
    return count


def environment(home: str) -> dict[str, str]:
    """All variables that a program sees: none of this process's."""
    plain = {"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "USER": "sandbox", "LOGNAME": "sandbox"}
    # Sets and dictionaries in the same order every time, and no threads beside those that the program starts; each of those would have the
    # C library set 64 MB of addresses apart, so that the limit of memory let no more than two be started.
    counts = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    return {**plain, **counts, "PYTHONHASHSEED": "0"}
