"""Runs of a few steps for the faults: trained by `gradus`, with something put into the process that goes wrong at a chosen moment."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.kills import fingerprint, miscounted
from gradus.lab import checkpoints
from gradus.lab.folder import RunFolder

STEPS = 6
SMALL = ["--prompts", "2", "--group", "4", "--save_every", "2", "--eval_every", "3", "--study.problems", "2", "--learning_rate", "1e-3"]


def words(run: Path, recipe: str = "grpo", steps: int = STEPS) -> list[str]:
    return ["train", recipe, "--run", str(run), "--steps", str(steps), *SMALL]


def wrapped(where: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces the function MODULE:NAME or MODULE:CLASS.NAME by one around it."""
    module, _, name = where.partition(":")
    holder: Any = importlib.import_module(module)
    *owners, last = name.split(".")
    for owner in owners:
        holder = getattr(holder, owner)
    real = getattr(holder, last)
    setattr(holder, last, functools.wraps(real)(around(real)))


def killed_at(where: str, call: str, after: str, *arguments: str) -> int:
    """Trains in a process that kills itself at the `call`-th call of a function, counted from 0: before it, or after it."""
    from gradus.cli.main import main

    left = [int(call)]

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def struck(*given: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == -1 and after == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*given, **more)
            if left[0] == -1:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return struck

    wrapped(where, around)
    return main(list(arguments))


def waiting_in(where: str, call: str, mark: str, *arguments: str) -> int:
    """Trains in a process that, at the `call`-th call of a function, writes the file `mark` and waits until it is gone, ten minutes at most."""
    from gradus.cli.main import main

    left = [int(call)]

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*given: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                Path(mark).touch()
                end = time.monotonic() + 600
                while Path(mark).exists() and time.monotonic() < end:
                    time.sleep(0.02)
            return real(*given, **more)

        return slow

    wrapped(where, around)
    return main(list(arguments))


def jumping_clock(*arguments: str) -> int:
    """Trains in a process whose date jumps by years, forth and back, whenever it is asked for."""
    from gradus.cli.main import main

    asked = [0]

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def jumping() -> Any:
            asked[0] += 1
            years = (0, 30, -20, 5, -30)[asked[0] % 5]
            return real() + years * 31_536_000 * (10**9 if real is nanoseconds else 1)

        return jumping

    nanoseconds = time.time_ns
    wrapped("time:time", around)
    wrapped("time:time_ns", around)
    return main(list(arguments))


def same(run: Path, whole: Path) -> list[str]:
    """What differs between two finished runs in what must not, and what was lost or counted twice."""
    ours, theirs = fingerprint(run), fingerprint(whole)
    return [*sorted(p for p in {*ours, *theirs} if ours.get(p) != theirs.get(p)), *miscounted(run)]


def whole_up_to(run: Path) -> int:
    """The step of the newest checkpoint, all of which must be whole; nothing half-written may be taken for one."""
    found = checkpoints.steps(run)
    assert [checkpoints.broken(path) for path in found.values()] == [None] * len(found)
    return max(found, default=0)


def steps_done(run: Path) -> int:
    return len([row for row in RunFolder.open(run).metrics() if "reward" in row])
