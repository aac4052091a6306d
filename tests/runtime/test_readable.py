"""Waiting for descriptors of any number."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from gradus.runtime.readable import readable

MANY = """
import os, resource
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
assert held[-1] >= 1024
"""


def test_those_that_can_be_read() -> None:
    first, second = os.pipe(), os.pipe()
    try:
        assert readable([first[0], second[0]], 0) == []
        os.write(second[1], b"x")
        assert readable([first[0], second[0]], 5) == [second[0]]
        os.close(first[1])
        assert sorted(readable([first[0], second[0]], None)) == sorted([first[0], second[0]])  # an end can be read, too
        assert readable([first[0]], -1) == [first[0]]
    finally:
        for descriptor in (first[0], *second):
            os.close(descriptor)


def many(source: str) -> subprocess.CompletedProcess[str]:
    """A Python process that holds 1,100 descriptors, then runs `source`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip(f"this system permits {hard} descriptors at most")
    return subprocess.run(
        [sys.executable, "-c", MANY + source],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard)),
        check=False,
    )


@pytest.mark.alone
@pytest.mark.parametrize(
    "source",
    [
        "from gradus.sandbox import Isolation, missing, run\nfor kind in list(Isolation)[missing() is not None:]:\n"
        "    assert run('print(1)', isolation=kind).stdout == '1\\n'",
        "from gradus.testing.watched import watch\n(call,) = watch(lambda n: n + 1, lambda n: n, 1)\nassert call.value == 1, call",
        """
import sys, tempfile, pathlib
from gradus.workers.pool import pool_of, stop_workers
from gradus.workers.call_queue import Limits, Question
file = pathlib.Path(tempfile.mkdtemp()) / "mine.py"
file.write_text("def reward(completions, **more): return [1.0 for _ in completions]")
given = {"completions": ["a"], "prompts": ["b"], "completion_ids": [[1]], "trainer_state": {}}
(answer,) = pool_of(f"{file}:reward").ask([Question(given, 1)], Limits(60.0, 0, 0, 1))
assert answer == [1.0], answer
stop_workers()
""",
    ],
    ids=["sandbox", "watched calls", "worker pool"],
)
def test_a_process_with_many_open_files(source: str) -> None:
    """`select` knows no descriptor above 1,023."""
    done = many(source)
    assert done.returncode == 0, done.stderr[-2000:]
