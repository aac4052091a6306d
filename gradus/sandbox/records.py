"""What a sandboxed run is asked for, and what comes of it."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from pathlib import PurePosixPath

from gradus.types import UserError, unknown
from gradus.types.ranges import check_ranges

MB = 1 << 20


class Isolation(enum.Enum):
    """What stands between a program and this machine."""

    BUBBLEWRAP = "bubblewrap"  # namespaces, a read-only system, an unprivileged user, a filter of kernel calls, and limits
    RLIMITS = "rlimits"  # limits alone: the program reads what you can read, writes what you can write, and has the network


def isolation_named(name: str) -> Isolation:
    """Raises UserError for a name that is none's."""
    if name not in (known := [isolation.value for isolation in Isolation]):
        raise unknown("isolation", name, known)
    return Isolation(name)


class End(enum.Enum):
    """How a run ended."""

    OK = "ok"  # by itself, with exit code 0
    ERROR = "error"  # by itself, with another exit code: an exception, sys.exit("...")
    SIGNAL = "signal"  # by a signal: a crash, or one that it sent itself
    TIMEOUT = "timeout"  # over its wall or processor time
    MEMORY = "memory"  # over its memory: killed, or ended by a MemoryError
    OUTPUT = "output"  # over its output
    DISK = "disk"  # over its files


@dataclass(frozen=True)
class Limits:
    """What one run may take. Each is enforced from outside the program, or by the kernel."""

    wall: float = 10.0  # seconds
    cpu: float | None = None  # processor seconds of each process, rounded up to whole ones; None: as many as `wall`
    memory: int = 512 * MB  # bytes: the address space of each process, and all processes and files together
    output: int = MB  # bytes of standard output and standard error together
    disk: int = 32 * MB  # bytes of files in /tmp, and of each file
    processes: int = 16  # processes and threads at one time, the first included
    files: int = 64  # open files of each process

    def __post_init__(self) -> None:
        positive = "(0, inf)"
        check_ranges(
            self, wall=positive, cpu=positive, memory=positive, output="[0, inf)", disk=positive, processes="[1, inf)", files="[8, inf)"
        )
        if self.memory < 64 * MB:
            raise UserError(f"Limits.memory is {self.memory} bytes; an interpreter needs {64 * MB} or more")

    @property
    def cpu_seconds(self) -> int:
        """Whole seconds, as the kernel counts them."""
        return max(1, math.ceil(self.wall if self.cpu is None else self.cpu))


@dataclass(frozen=True)
class Ran:
    """What came of one program."""

    stdout: str  # what is no UTF-8 is replaced
    stderr: str
    exit: int  # the exit code; negative: the signal that ended it
    ended: End
    seconds: float  # wall time, from the start of the program (not of its sandbox)

    @property
    def ok(self) -> bool:
        return self.ended is End.OK


class SandboxError(RuntimeError):
    """The sandbox itself failed: the program was not run, or not to an end. Says nothing of the program."""


def checked_name(name: str) -> str:
    """A file's name as it stands in the working folder. Raises UserError for one that leads out of it."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or str(path) in (".", PROGRAM):
        raise UserError(f'a sandboxed program\'s file is called "{name}"; give a relative path without "..", other than {PROGRAM}')
    return str(path)


PROGRAM = "program.py"
