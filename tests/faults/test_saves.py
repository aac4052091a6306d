"""A save that is killed, or refused by the disk, at any of its calls: a whole checkpoint always loads, and the run goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradus.types import UserError
from tests.faults.saving import REFUSED, begun, save

ROOT = Path(__file__).parents[2]


def strike(home: Path, kind: str, points: int) -> dict[str, Any]:
    """What `tests.faults.saving` found, in a process of one thread."""
    command = [sys.executable, "-m", "tests.faults.saving", str(home), kind, str(points)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if "skip" in found:
        pytest.skip(found["skip"])
    return found


@pytest.mark.parametrize("points", [24, pytest.param(1000, marks=pytest.mark.nightly)])
def test_killed_at_any_call_of_a_save_a_whole_checkpoint_loads(points: int, tmp_path: Path) -> None:
    """24 calls from the first to the last; nightly every call."""
    found = strike(tmp_path / "home", "kill", points)
    assert found["wrong"] == {}
    assert len(found["calls"]) >= 100
    assert len(found["ended"]) == min(points, len(found["calls"]))
    assert set(found["ended"]) == {-9}
    assert {"openat", "write", "fsync", "rename", "unlinkat"} <= set(found["calls"])


FAULTS = [("full", 12), ("readonly", 4), ("broken", 4)]


@pytest.mark.parametrize(("kind", "points"), [*FAULTS, *(pytest.param(kind, 2 * points, marks=pytest.mark.nightly) for kind, points in FAULTS)])
def test_whatever_the_disk_refuses_from_some_call_on_is_told_and_a_whole_checkpoint_loads(kind: str, points: int, tmp_path: Path) -> None:
    """No space left, a file system that has become read-only, a disk that fails."""
    found = strike(tmp_path / "home", kind, points)
    assert found["wrong"] == {}
    assert len(found["ended"]) == points
    # a full disk lets files go and names change: once all is written, the save comes to its end
    assert set(found["ended"]) == ({0, REFUSED} if kind == "full" else {REFUSED})
    assert found["ended"][0] == REFUSED


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KB."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(mounted)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here: that takes root")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def test_a_real_disk_that_fills_up_at_twenty_points_of_a_save(small_disk: Path, tmp_path: Path) -> None:
    folder = begun(small_disk)
    free = shutil.disk_usage(small_disk).free
    needed = sum(p.stat().st_size for p in (folder.path / "checkpoints").rglob("*") if p.is_file())
    assert free > 2 * needed
    refused = 0
    for point in range(20):
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"\0" * (free - needed * point // 19))
        told = ""
        try:
            save(folder, small_disk, 2)
        except UserError as error:
            told = str(error)
        if told:
            refused += 1
            sentence = f"no space left in {folder.path} while writing the checkpoint of step 2; everything written before"
            assert told.startswith(sentence)
            found, sentence = folder.latest()
            assert found is not None
            assert (found.step, sentence, found.document("state.json")) == (1, "", {"step": 1})
            assert [p.name for p in (folder.path / "checkpoints").iterdir()] == ["step-000001"]  # what was begun is gone again
        ballast.unlink()
    assert refused >= 19
    save(folder, small_disk, 2)
    assert folder.latest()[0] is not None


def test_a_disk_that_became_read_only_is_told_with_what_to_do(small_disk: Path) -> None:
    folder = begun(small_disk)

    def remounted(how: str) -> bool:
        return not subprocess.run(["mount", "-o", f"remount,{how}", str(small_disk)], capture_output=True, check=False).returncode

    if not remounted("ro"):  # some containers let file systems be mounted, but not changed
        pytest.skip("a file system cannot be made read-only here")
    try:
        for does, what in (
            (lambda: save(folder, small_disk, 2), "the data before step 2|the checkpoint of step 2"),
            (lambda: folder.append_metrics(3, {}), "metrics.jsonl"),
            (lambda: folder.append_fact(3, "call", "reason"), "facts.jsonl"),
            (lambda: folder.cut_back(1), "the data before step 1"),
            (lambda: folder.note_resumed(1, []), "provenance.json"),
            (lambda: folder.claimed().__enter__(), "its lock"),
        ):
            sentence = rf"the file system is read-only in .*/run while writing ({what}); .* make it writable again"
            with pytest.raises(UserError, match=sentence):
                does()
        found, _ = folder.latest()
        assert found is not None
        assert found.step == 1
    finally:
        assert remounted("rw")
    save(folder, small_disk, 2)
