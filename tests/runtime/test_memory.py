from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from gradus.runtime import memory


def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    monkeypatch.setattr(memory, "MEMINFO", folder / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", folder)


def test_what_the_system_calls_available(tmp_path, monkeypatch):
    machine(tmp_path, monkeypatch, meminfo="MemTotal:       100 kB\nMemAvailable:    40 kB\n", memory_max="max\n")
    assert memory.free_memory() == 40 * 1024


def test_a_container_has_less_than_its_machine(tmp_path, monkeypatch):
    machine(tmp_path, monkeypatch, meminfo="MemAvailable: 40 kB\n", memory_max="30720\n", memory_current="20480\n")
    assert memory.free_memory() == 10240  # 30720 - 20480, less than the 40960 of the machine


def test_a_system_that_does_not_say(tmp_path, monkeypatch):
    machine(tmp_path, monkeypatch)
    assert memory.free_memory() is None


PROGRAM = """
import ctypes, sys
from gradus.runtime.memory import keep_freed_memory
NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
class Told(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Told
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
if sys.argv[1] == "keep":
    keep_freed_memory()
def had():
    told = libc.mallinfo2()
    return told.arena + told.hblkhd
before = had()
for _ in range(20):
    libc.free(libc.malloc(1 << 26))  # 64 MiB, which glibc never keeps by itself
print((had() - before) >> 20)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="only glibc, from 2.33 on, tells what it keeps")
@pytest.mark.parametrize(("way", "least", "most"), [("keep", 60, 640), ("leave", -4, 4)])
def test_what_was_freed_stays_and_is_taken_again(way: str, least: int, most: int):
    """MiB had from the system after twenty pieces of 64, by the C library's own count: page faults are counted differently by every system.

    A kept piece of which something small was taken meanwhile is too short for the next one, so that a few stay: not twenty.
    """
    kept = int(subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True).stdout)
    assert least <= kept <= most
