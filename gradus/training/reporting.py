"""Shows a run to other processes. Writes the run's state to `status.json` while it trains, and one line per step to `workers.jsonl`.

A thread writes the state every half second, also while a step computes. The two files are not part of the result, so this module does not change the result.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from gradus.lab.status import write_status
from gradus.runtime import memory

EVERY = 0.5  # seconds between two writes
RECENT = 60.0  # seconds of the recent shares and speeds
_SHOWN = ("reward", "accuracy", "held_out/accuracy", "length", "loss", "kl", "entropy")  # metrics of the last step in the state


def state_of(run: Any) -> dict[str, Any]:
    """Returns the present state of a run: workers, queues, ages, tokens, memory, long waits and progress. Times are in seconds, sizes in bytes."""
    present, seconds = run.activity.present(), run.activity.seconds()
    now, waits = run.watchdog.clock(), sorted(run.watchdog.waits.values(), key=lambda wait: wait.since)
    return {
        "workers": {name: {"now": what, "for": since, "seconds": seconds.get(name, {})} for name, (what, since) in present.items()},
        "tokens": dict(run.activity.tokens),
        "ages": {str(age): count for age, count in sorted(run.activity.ages.items())},
        "queue": queue_of(run),
        "memory": memory_of(run),
        "waits": [{"what": wait.what, "seconds": now - wait.since} for wait in waits[:5]],
        "step": run.step,
        "steps": run.length if run.stages is None else sum(leg.steps for leg in run.stages.legs),
        "stage": run.labels.get("stage"),
        "progress": progress_of(run),
        "last": {name: run.last[name] for name in _SHOWN if name in run.last},
    }


def progress_of(run: Any) -> float | None:
    """Returns the finished share of a run; None for a run with stages. In contrast to `Run.progress`, this function must not change the run, because another
    thread trains."""
    if run.stages is not None:
        return None
    if run.budget is not None:
        return float(run.totals[-1] / run.budget.amount)
    return float(run.step / max(run.recipe.setting.steps, 1))


def queue_of(run: Any) -> dict[str, int] | None:
    """Returns the queue of the run's system; None without a system."""
    return None if run.pipeline is None else dict(run.pipeline.queue)


def memory_of(run: Any) -> dict[str, int]:
    """Returns the memory of this process in bytes: the present amount, the peak, and the reserved memory on a GPU. Numbers that the system does not report
    are left out."""
    import torch

    found = {"process": memory.status("VmRSS"), "peak": memory.status("VmHWM")}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["gpu"] = sum(torch.cuda.memory_reserved(i) for i in range(torch.cuda.device_count()))
    return {name: size for name, size in found.items() if size is not None}


def row_of(run: Any) -> dict[str, Any]:
    """Returns the line of a step: the seconds of every worker, the tokens and the ages since the last line, the queue and the memory now."""
    taken = run.activity.taken()
    ages = {str(age): count for age, count in sorted(taken["ages"].items())}
    seconds = {worker: {name: round(value, 6) for name, value in spent.items()} for worker, spent in taken["seconds"].items()}
    return {"seconds": seconds, "tokens": taken["tokens"], "ages": ages, "queue": queue_of(run), "memory": memory_of(run).get("process")}


class Reporter:
    """Writes the state of a run. `began`: the time of the start, and the progress at this time."""

    def __init__(self, run: Any, every: float = EVERY) -> None:
        self.run, self.every = run, every
        self.began = {"at": time.time(), "step": run.step, "progress": progress_of(run)}
        self.before: deque[tuple[float, Mapping[str, Any]]] = deque()  # (time, state) of the last minute
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="status", daemon=True)

    def write(self, state: str = "running") -> None:
        """Writes the state now. `state`: running, finished, stopped, or failed."""
        now, found = time.monotonic(), state_of(self.run)
        while self.before and now - self.before[0][0] > RECENT:
            self.before.popleft()
        then, old = self.before[0] if self.before else (now, found)
        if not self.before or now - self.before[-1][0] >= RECENT / 12:
            self.before.append((now, found))
        recent = {"over": now - then, "workers": _spent(found, old), "tokens": _grown(found["tokens"], old["tokens"])}
        about = {"state": state, "at": time.time(), "began": self.began, "process": os.getpid(), "machine": socket.gethostname()}
        assert self.run.folder is not None
        write_status(self.run.folder.path, {**about, **found, "recent": recent})

    def start(self) -> None:
        self._thread.start()

    def stop(self, state: str) -> None:
        """Ends the thread, and writes the last state."""
        self._over.set()
        self._thread.join()
        with suppress(OSError):  # a full disk: the run itself reports it
            self.write(state)

    def _work(self) -> None:
        while True:
            with suppress(OSError, RuntimeError):  # a full disk, or a dictionary that another thread changed; the next write follows soon
                self.write()
            if self._over.wait(self.every):
                return


def _spent(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns the seconds by worker and activity between two states."""
    return {
        name: _grown(worker["seconds"], before["workers"].get(name, {"seconds": {}})["seconds"]) for name, worker in now["workers"].items()
    }


def _grown(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0) for name, value in now.items() if value > before.get(name, 0)}


@contextmanager
def reporting(run: Any) -> Iterator[None]:
    """A context manager in which the run's state is written. Without a folder, nothing is written. The trackers can read the state at any time."""
    if run.sinks is not None:
        run.sinks.follow(partial(state_of, run))
    if run.folder is None:
        yield
        return
    reporter = Reporter(run)
    reporter.start()
    state = "failed"
    try:
        yield
        state = "finished" if run.stop.asked is None else "stopped"
    except (KeyboardInterrupt, SystemExit):
        state = "stopped"
        raise
    finally:
        reporter.stop(state)
