from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradus.systems import memory


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
import resource, sys, torch
from gradus.systems.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def turn():
    torch.ones(1 << 24)  # 64 MiB, which glibc never keeps by itself
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
turn()
each = []
for _ in range(20):
    before = faults()
    turn()
    each.append(faults() - before)
print(min(each))  # the least: the system may take back what is not used, at moments of its own
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_pages_are_asked_for_once():
    faults = {
        way: int(subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True).stdout)
        for way in ("keep", "leave")
    }
    assert 10 * faults["keep"] < faults["leave"]
