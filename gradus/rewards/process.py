"""The other end of a worker process: starts it, asks it with a deadline, kills it when it hangs, starts it anew."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from gradus.types import NOT_APPLICABLE, Failed, Outcome, UserError
from gradus.types.user_code import split_spec

START_SECONDS = 120.0  # importing what a reward function needs may take long
_PIPE = 1 << 16


class Lost(Exception):
    """The worker did not answer: it hung, ended or sent what is no answer."""


class Worker:
    """One process that holds the function `FILE.py:NAME`. Calls from several threads are answered one after the other."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._required: list[str] = []
        self._lock = threading.Lock()

    def required(self) -> list[str]:
        """The columns that the function cannot be called without; starts the process. Raises UserError where the function cannot be loaded."""
        with self._lock:
            self._started()
            return self._required

    def ask(self, arguments: Mapping[str, Any], timeout: float) -> list[Outcome]:
        """One outcome for every completion. Raises Lost where the process does not answer within `timeout` seconds or ends; it is then killed."""
        count = len(arguments["completions"])
        message = json.dumps(arguments, default=_plain).encode() + b"\n"
        with self._lock:
            try:
                answer = _exchange(self._started(), message, timeout)
                return [_outcome(value) for value in _fitting(answer.get("outcomes"), count)]
            except Lost:
                self.stop()
                raise
            except UserError as error:  # it could be loaded once, but not again
                return [Failed(str(error))] * count

    def kill(self) -> None:
        """Kills the process and what it started; a call that waits in another thread then fails."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Kills the process and lets go of it; the next call starts another."""
        self.kill()
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        command = [sys.executable, "-m", "gradus.rewards.worker", self.spec]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        os.set_blocking(process.stdin.fileno(), False)  # type: ignore[union-attr]
        try:
            hello = _exchange(process, b"", START_SECONDS)
        except Lost as error:
            self.stop()
            raise UserError(
                f"reward function {self.spec} could not be loaded: its process {error}; try to import the file yourself"
            ) from None
        if "error" in hello:
            self.stop()
            raise UserError(hello["error"])
        self._required = list(hello.get("required", ()))
        return process


_WORKERS: dict[tuple[str, int], Worker] = {}


def worker_of(spec: str) -> Worker:
    """This process's worker for `FILE.py:NAME`: one for each function. Raises UserError where there is no such file."""
    path, name = split_spec(spec, "reward function")
    key = (f"{path.resolve()}:{name}", os.getpid())
    if not _WORKERS:
        atexit.register(stop_workers)
    if key not in _WORKERS:
        _WORKERS[key] = Worker(key[0])
    return _WORKERS[key]


def stop_workers() -> None:
    """Ends every worker of this process."""
    for (_, owner), worker in _WORKERS.items():
        if owner == os.getpid():
            worker.stop()
    _WORKERS.clear()


def _exchange(process: subprocess.Popen[bytes], message: bytes, timeout: float) -> dict[str, Any]:
    """Sends a message and reads one line, both within `timeout` seconds. Raises Lost."""
    assert process.stdin is not None
    assert process.stdout is not None
    deadline, pending, answer = time.monotonic() + timeout, memoryview(message), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if pending:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while not answer.endswith(b"\n"):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready and time.monotonic() >= deadline:
                raise Lost(f"did not answer within {timeout:g} seconds")
            for key, _ in ready:
                if key.fileobj is process.stdout:
                    answer += _read(process)
                else:
                    pending = pending[_write(process, pending) :]
                    if not pending:
                        selector.unregister(process.stdin)
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Lost("sent what is no answer")
    return found


def _read(process: subprocess.Popen[bytes]) -> bytes:
    chunk = os.read(process.stdout.fileno(), _PIPE)  # type: ignore[union-attr]
    if not chunk:
        raise Lost(_ending(process))
    return chunk


def _write(process: subprocess.Popen[bytes], pending: memoryview) -> int:
    try:
        return os.write(process.stdin.fileno(), pending[:_PIPE])  # type: ignore[union-attr]
    except BlockingIOError:
        return 0
    except OSError:
        raise Lost(_ending(process)) from None


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return "closed its output"
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


def _fitting(values: Any, count: int) -> list[Any]:
    if not isinstance(values, list) or len(values) != count:
        raise Lost("sent what is no answer")
    return values


def _outcome(value: Any) -> Outcome:
    if isinstance(value, dict):
        return Failed(str(value.get("failed")))
    if value is None:
        return NOT_APPLICABLE
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise Lost("sent what is no answer")


def _plain(value: Any) -> Any:
    """What JSON has no form for: dates as ISO text, decimals and NumPy values as numbers and lists."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    kind = type(value).__name__
    raise UserError(f"a column holds {kind}, which cannot be given to a reward function in its process; turn it into text or numbers")
