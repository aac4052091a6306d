"""What the processes of a sandbox take together, as the kernel tells it outside: the program can neither see nor hinder this."""

from __future__ import annotations

import contextlib
import os
import resource

_PAGE = resource.getpagesize()
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
        """Bytes of all processes and of their files in memory. Shared pages are counted once, where counting them twice would exceed the limit."""
        members, files = self.members(), self.disk()
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
