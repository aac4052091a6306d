"""The runs of a comparison in several processes at a time. Each run has one thread of computation, so its result does not depend on their number."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from gradus.comparison.job import Job

Heard = Callable[[Job, dict[str, Any]], None]


def carry_out_all(jobs: Sequence[Job], processes: int, heard: Heard, *, threads: int = 1) -> None:
    """Carries out the jobs, `processes` at a time. `heard` gets every line of a worker, in the order of arrival, in this thread.

    An interrupt goes on to the workers, which save their runs first. A worker that ends without a result counts as {"failed": reason}.
    """
    left: queue.Queue[Job] = queue.Queue()
    for job in jobs:
        left.put(job)
    news: queue.Queue[tuple[Job | None, dict[str, Any]]] = queue.Queue()
    workers: list[_Worker] = [_Worker(left, news, threads) for _ in range(min(processes, len(jobs)))]
    open_ = len(workers)
    try:
        while open_:
            done, line = news.get()
            if done is None:
                open_ -= 1
            else:
                heard(done, line)
    finally:
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join()


class _Worker(threading.Thread):
    """A thread that feeds one process with jobs and passes its lines on."""

    def __init__(self, left: queue.Queue[Job], news: queue.Queue[tuple[Job | None, dict[str, Any]]], threads: int) -> None:
        super().__init__(daemon=True)
        self.left, self.news, self.threads = left, news, threads
        self.process: subprocess.Popen[str] | None = None
        self.ended = False
        self.start()

    def run(self) -> None:
        with suppress(queue.Empty):
            while not self.ended:
                job = self.left.get_nowait()
                self._do(job)
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.news.put((None, {}))

    def _do(self, job: Job) -> None:
        if self.process is None or self.process.poll() is not None:
            environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "PYTHONUNBUFFERED": "1"}
            words = [sys.executable, "-m", "gradus.comparison.worker"]
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # a worker that has just ended is seen below
            self.process.stdin.write(json.dumps(_told(job)) + "\n")
            self.process.stdin.flush()
        for text in self.process.stdout:
            line = json.loads(text)
            self.news.put((job, line))
            if "result" in line or "failed" in line:
                return
        code = self.process.wait()
        if not self.ended:
            self.news.put((job, {"failed": f"its process ended with code {code} before the run was done"}))

    def end(self) -> None:
        """Stops the process: the run is saved first."""
        self.ended = True
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)


def _told(job: Job) -> dict[str, Any]:
    return {"experiment": job.experiment.stored(), "arm": job.arm.name, "seed": job.seed, "folder": str(job.folder), "pause": job.pause}
