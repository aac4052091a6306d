"""The kernel's limits on a program, and its environment variables."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gradus.sandbox import bubblewrap
from gradus.sandbox.records import Isolation, Limits


def resources(limits: Limits, isolation: Isolation) -> dict[str, tuple[int, int]]:
    """Returns the kernel's soft and hard limits, by their names in the module `resource`."""
    equal = {
        "RLIMIT_AS": limits.memory,
        "RLIMIT_FSIZE": limits.disk,
        "RLIMIT_NOFILE": limits.files,
        "RLIMIT_STACK": 8 << 20,
        "RLIMIT_CORE": 1,  # 1 byte, so there is no core file; with 0, a system program that gets core dumps by a pipe would still run
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 1024,  # pending signals and timers
        "RLIMIT_NPROC": limits.processes + _beside(isolation),
    }
    # The soft limit of processor time sends SIGXCPU, which names the reason. The hard limit sends SIGKILL, if the program catches SIGXCPU.
    return {**{name: (value, value) for name, value in equal.items()}, "RLIMIT_CPU": (limits.cpu_seconds, limits.cpu_seconds + 1)}


def _beside(isolation: Isolation) -> int:
    """Returns the number of processes outside the program that the kernel counts towards the program's limit."""
    if isolation is Isolation.BUBBLEWRAP and bubblewrap.as_root():
        return 0  # no other process has its user id
    if isolation is Isolation.BUBBLEWRAP and _kernel() >= (5, 14):  # counted per user namespace; bubblewrap's first process is in it
        return 1
    return _threads_of(os.getuid())


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def _threads_of(user: int) -> int:
    """Returns the number of threads of a user on the whole machine."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            count += len(os.listdir(entry / "task")) if entry.stat().st_uid == user else 0
    return count


def environment(home: str) -> dict[str, str]:
    """Returns the environment variables of a program. These variables do not include any variable of this process."""
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "USER": "sandbox", "LOGNAME": "sandbox"}
    # PYTHONHASHSEED fixes the order of sets. The numbers of threads prevent libraries from starting further threads. MALLOC_ARENA_MAX is set
    # because the C library reserves 64 MB of addresses per thread: the memory limit would permit no more than two threads.
    counts = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    return {**plain, **counts, "PYTHONHASHSEED": "0"}
