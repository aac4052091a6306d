"""Which processes run, read from /proc."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def running(chosen):
    """The processes that have not ended, of those whose (id, parent, group) are `chosen`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if state != "Z" and chosen((path.parent.name, parent, group)):
            found.append(path.parent.name)
    return found


def until(true, seconds=60):
    """Whether something becomes true in time: more than any machine that does not hang takes."""
    end = time.monotonic() + seconds
    while not (now := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return now


def gone(chosen):
    """Whether they all end: a killed process takes a moment."""
    return until(lambda: not running(chosen))


def sleeping(seconds):
    """The processes `sleep SECONDS`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", str(seconds).encode()]:
            found.append(path.parent.name)
    return found
