"""What the processes of a sandbox take together, as the kernel tells it outside: the program can neither see nor hinder this."""

from __future__ import annotations

import contextlib
import os
import resource
from functools import cache

_PAGE = resource.getpagesize()
_SOCKET = "/proc/sys/net/core/wmem_default"  # bytes of what was sent and not yet read, beyond which a socket takes no more
_INODE = 1024  # bytes of kernel memory that a file takes in a file system in memory, however short it is


class Tree:
    """A process and all that descend from it. Orphans go to the first process of their sandbox, so they stay in sight."""

    def __init__(self, first: int, files: str | None) -> None:
        """`files`: the sandbox's folder in memory, as its processes see it; None where it has none."""
        self.first, self.files = first, files

    def members(self) -> list[int]:
        """Process ids, those that just came or went perhaps not among them."""
        found, waiting = [], [self.first]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            with contextlib.suppress(OSError, ValueError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    waiting += [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
        return found

    def memory(self, limit: int) -> int:
        """Bytes of all processes, of their files in memory and of what their sockets may hold.

        Shared pages are counted once, where counting them twice would exceed the limit.
        """
        members, files = self.members(), self.disk() + self.sockets()
        total = sum(_resident(pid) for pid in members) + files
        return total if total <= limit else sum(_proportional(pid) for pid in members) + files

    def disk(self) -> int:
        """Bytes of the sandbox's files, and of what the kernel keeps to know them."""
        if self.files is None:
            return 0
        try:
            about = os.statvfs(f"/proc/{self.first}/root{self.files}")
        except OSError:  # it has just ended
            return 0
        return (about.f_blocks - about.f_bfree) * about.f_frsize + (about.f_files - about.f_ffree) * _INODE

    def sockets(self) -> int:
        """Bytes that the sandbox's sockets may hold: all of them full. 0 where it shares the machine's network, and so its count."""
        if self.files is None:
            return 0
        words = _read(f"/proc/{self.first}/net/sockstat").partition("\n")[0].split()
        return int(words[2]) * _filled() if words[:2] == ["sockets:", "used"] else 0


@cache
def _filled() -> int:
    """Bytes that one socket holds: what is set here, and the last piece, which may be as long again."""
    return 2 * int(_read(_SOCKET) or 212992)


def ended_first(pid: int) -> None:
    """Where the machine's memory runs out, the kernel ends this process and what it starts before all others, such as the run."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _resident(pid: int) -> int:
    """Bytes in memory; 0 for a process that has gone."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _proportional(pid: int) -> int:
    """Bytes in memory, a page that n processes share counted as an n-th; what is resident, where that is not told."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
