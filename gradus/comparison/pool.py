"""The runs of a comparison in parallel processes.

Each run computes in one thread, so its result does not depend on the number of processes.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from gradus.comparison.job import Job

WORKER = (sys.executable, "-m", "gradus.comparison.worker")
Heard = Callable[[Job, dict[str, Any]], None]


def carry_out_all(jobs: Sequence[Job], processes: int, heard: Heard, *, threads: int = 1, log: Path | None = None) -> None:
    """Executes the jobs, `processes` at a time. `heard` gets every line of a worker, in the order of arrival, in this thread.

    The workers also receive SIGINT, SIGTERM and SIGHUP. The workers save their runs first; then this function raises KeyboardInterrupt or SystemExit.
    If a worker ends without a result, its job counts as {"failed": reason}, and a new worker replaces it. `log`: the file for the output of the
    workers; None: standard error.
    """
    left: queue.Queue[Job] = queue.Queue()
    for job in jobs:
        left.put(job)
    news: queue.Queue[tuple[Job | None, dict[str, Any]]] = queue.Queue()
    with _ended_by_signals(), nullcontext() if log is None else open(log, "ab") as output:
        workers: list[_Worker] = []
        try:
            workers += [_Worker(left, news, threads, output) for _ in range(min(processes, len(jobs)))]
            open_ = len(workers)
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


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A context manager. Inside it, SIGTERM and SIGHUP raise SystemExit with 128 + their number, just as SIGINT raises KeyboardInterrupt.

    Other handlers are kept.
    """

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    mine = threading.current_thread() is threading.main_thread()
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if mine and signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


class _Worker(threading.Thread):
    """A thread that gives jobs to one process and passes on its lines."""

    def __init__(
        self, left: queue.Queue[Job], news: queue.Queue[tuple[Job | None, dict[str, Any]]], threads: int, output: BinaryIO | None
    ) -> None:
        super().__init__(daemon=True)
        self.left, self.news, self.threads, self.output = left, news, threads, output
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
            self.process.wait()
        self.news.put((None, {}))

    def _do(self, job: Job) -> None:
        if self.process is None or self.process.poll() is not None:
            environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "PYTHONUNBUFFERED": "1"}
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.output, "text": True}
            self.process = subprocess.Popen(WORKER, env=environment, start_new_session=True, **pipes)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.ended:  # this check comes after the start of the process, so either `end` or this line ends the process
            self.process.terminate()
        with suppress(OSError):  # if the worker has just ended, the code below finds it
            self.process.stdin.write(json.dumps(_told(job)) + "\n")
            self.process.stdin.flush()
        for text in self.process.stdout:
            try:
                line = json.loads(text)
            except ValueError:  # the worker was killed while it wrote a line
                break
            self.news.put((job, line))
            if "result" in line or "failed" in line:
                return
        code = self.process.wait()
        if not self.ended:
            self.news.put((job, {"failed": _cause(code)}))

    def end(self) -> None:
        """Stops the process. The process saves its run first."""
        self.ended = True
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)


def _cause(code: int) -> str:
    """A sentence about a process that ended before its run was done. Args: code: the exit code, below 0 for a signal."""
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL), which happens when memory runs out; use less memory with fewer parallel runs: --parallel 1"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name} before the run was done"
    return f"its process ended with code {code} before the run was done"


def _told(job: Job) -> dict[str, Any]:
    return {"experiment": job.experiment.stored(), "arm": job.arm.name, "seed": job.seed, "folder": str(job.folder), "pause": job.pause}
