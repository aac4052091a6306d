"""The memory and disk use of a sandbox's processes. The kernel reports these numbers outside the sandbox. The program cannot see or prevent this."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterable
from functools import cache

_PAGE = resource.getpagesize()
_SOCKET = "/proc/sys/net/core/wmem_default"  # this file has the limit, in bytes, of the data of a socket that were sent but not read yet
_INODE = 1024  # bytes of kernel memory per file in a file system in memory, even for an empty file
_MAPPING = 2048  # upper bound of the kernel memory per mapping of a process, in bytes; this includes a separate inode for a page that is shared with children


class Tree:
    """A process and all its descendants. Orphans become children of the sandbox's first process, so they stay in the tree."""

    def __init__(self, first: int, files: str | None) -> None:
        """`files`: the path of the sandbox's folder in memory, in the view of the sandbox's processes; None: there is no such folder."""
        self.first, self.files = first, files

    def members(self) -> list[int]:
        """Returns the ids of the processes. Processes that start or end during the call may be missing."""
        found, waiting = [], [self.first]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            with contextlib.suppress(OSError, ValueError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    waiting += [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
        return found

    def memory(self, limit: int) -> int:
        """Returns the bytes of all processes, of their files in memory, and of the data that their sockets may contain.

        At first, a shared page counts once per process. The mappings in the kernel's lists are counted only if, with one mapping per page (the worst case),
        the sum would exceed `limit`. If the sum exceeds `limit`, it is computed again, and then a shared page counts only once.
        """
        members, files = self.members(), self.disk() + self.sockets()
        sizes, resident = zip(*map(_sizes, members), strict=True)
        total = sum(resident) + files
        if total + sum(sizes) // _PAGE * _MAPPING <= limit:
            return total
        files += _mappings(members, limit // _MAPPING + 1) * _MAPPING
        total = sum(resident) + files
        return total if total <= limit else sum(_proportional(pid) for pid in members) + files

    def disk(self) -> int:
        """Returns the bytes of the sandbox's files, and of the kernel memory for these files."""
        if self.files is None:
            return 0
        try:
            about = os.statvfs(f"/proc/{self.first}/root{self.files}")
        except OSError:  # the process has just ended
            return 0
        return (about.f_blocks - about.f_bfree) * about.f_frsize + (about.f_files - about.f_ffree) * _INODE

    def sockets(self) -> int:
        """Returns the bytes that the sandbox's sockets contain if all are full.

        Returns 0 if the sandbox shares the machine's network, because the number would then include the sockets of the whole machine.
        """
        if self.files is None:
            return 0
        words = _read(f"/proc/{self.first}/net/sockstat").partition("\n")[0].split()
        return int(words[2]) * _filled() if words[:2] == ["sockets:", "used"] else 0


@cache
def _filled() -> int:
    """Returns the bytes that one socket may contain: the system's setting, plus a last message of up to the same length."""
    return 2 * int(_read(_SOCKET) or 212992)


def ended_first(pid: int) -> None:
    """If the machine's memory runs out, makes the kernel kill this process and its children before all other processes, such as the run."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _sizes(pid: int) -> tuple[int, int]:
    """Returns the bytes of a process's address space, and its resident bytes; (0, 0) if the process has ended."""
    fields = _read(f"/proc/{pid}/statm").split()
    return (int(fields[0]) * _PAGE, int(fields[1]) * _PAGE) if len(fields) > 1 else (0, 0)


def _mappings(members: Iterable[int], most: int) -> int:
    """Returns the number of mappings of the processes together.

    The count stops near `most`, because a process may have 65,530 mappings, and it takes time to read one line for each.
    """
    count = 0
    for pid in members:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
            while count < most and (block := file.read(1 << 16)):
                count += block.count(b"\n")
    return count


def _proportional(pid: int) -> int:
    """Returns the resident bytes of a process. A page that n processes share counts as 1/n.

    If the kernel does not report this number, every page counts in full.
    """
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _sizes(pid)[1]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
