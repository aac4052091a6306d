from __future__ import annotations

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
