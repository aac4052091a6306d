"""The limits and the result of a sandboxed run."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from pathlib import PurePosixPath

from gradus.types import UserError, unknown
from gradus.types.ranges import check_ranges

MB = 1 << 20


class Isolation(enum.Enum):
    """The isolation between a program and this machine."""

    BUBBLEWRAP = "bubblewrap"  # namespaces, a read-only system, an unprivileged user, a filter of kernel calls, and resource limits
    RLIMITS = "rlimits"  # resource limits alone: the program has your rights to read and write files, and the network


def isolation_named(name: str) -> Isolation:
    """Returns the isolation with this name. Raises UserError for an unknown name."""
    if name not in (known := [isolation.value for isolation in Isolation]):
        raise unknown("isolation", name, known)
    return Isolation(name)


class End(enum.Enum):
    """The way in which a run ended."""

    OK = "ok"  # exit code 0
    ERROR = "error"  # another exit code: an exception, sys.exit("...")
    SIGNAL = "signal"  # a signal: a crash, or a signal that the program sent itself
    TIMEOUT = "timeout"  # wall time or processor time above its limit
    MEMORY = "memory"  # memory above its limit: killed, or ended by a MemoryError
    OUTPUT = "output"  # output above its limit
    DISK = "disk"  # files above their limit


@dataclass(frozen=True)
class Limits:
    """The limits of one run. The calling process or the kernel enforces each limit."""

    wall: float = 10.0  # seconds of wall time
    cpu: float | None = None  # processor seconds per process, rounded up to whole seconds; None: equal to `wall`
    memory: int = 512 * MB  # bytes; a limit for the address space of each process, and also for all processes and files together
    output: int = MB  # bytes of standard output and standard error together
    disk: int = 32 * MB  # bytes; a limit for each file, and also for all files in /tmp together
    processes: int = 16  # largest number of processes and threads at the same time, including the first process
    files: int = 64  # largest number of open files per process

    def __post_init__(self) -> None:
        positive = "(0, inf)"
        check_ranges(
            self, wall=positive, cpu=positive, memory=positive, output="[0, inf)", disk=positive, processes="[1, inf)", files="[8, inf)"
        )
        if self.memory < 64 * MB:
            raise UserError(f"Limits.memory is {self.memory} bytes, but an interpreter needs {64 * MB} bytes; set {64 * MB} or more")

    @property
    def cpu_seconds(self) -> int:
        """Returns the limit of processor time in whole seconds, because the kernel counts whole seconds."""
        return max(1, math.ceil(self.wall if self.cpu is None else self.cpu))


@dataclass(frozen=True)
class Ran:
    """The result of one program."""

    stdout: str  # standard output; bytes that are not UTF-8 are replaced
    stderr: str
    exit: int  # the exit code; a negative number is the signal that ended the program
    ended: End
    seconds: float  # wall time from the start of the program (not of its sandbox)

    @property
    def ok(self) -> bool:
        return self.ended is End.OK


class SandboxError(RuntimeError):
    """The sandbox itself failed: the program did not start or did not end. The program may be correct."""


def checked_name(name: str) -> str:
    """Returns a file's normalised path relative to the working folder. Raises UserError if the path leads out of the folder or is program.py."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or str(path) in (".", PROGRAM):
        raise UserError(f'"{name}" is not a valid name for a file of a sandboxed program; give a relative path without "..", and not {PROGRAM}')
    return str(path)


PROGRAM = "program.py"
