"""The parent's side of the fork server and its workers: the pipes and the state of each process."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Job:
    """The user code of a worker: a reward function `FILE.py:NAME`, or the verifier of a task `FILE.py:NAME` with its options."""

    spec: str
    kind: str = "reward function"  # the kind of code: "reward function" or "task"
    options: str = "{}"  # JSON

    @property
    def name(self) -> str:
        return self.spec.rpartition(":")[2]


@dataclass(eq=False)
class Worker:
    """One worker process: its pipes, its open calls, and the time at which it began the first open call."""

    number: int
    requests: int
    answers: int
    prints: int
    asked: deque[int] = field(default_factory=deque)  # numbers of the open calls
    unsent: bytearray = field(default_factory=bytearray)
    read: bytearray = field(default_factory=bytearray)
    ready: bool = False  # whether the worker has reported that the code is loaded
    since: float = 0.0
    printed: int = 0  # bytes printed during the first open call
    answered: int = 0  # number of answered calls so far
    typical: float = 0.0  # moving average of the seconds per call; 0: not yet known

    def push(self) -> None:
        """Sends as many bytes as the pipe accepts. Raises OSError if the process has ended."""
        with suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: os.write(self.requests, memoryview(self.unsent)[:_CHUNK])]

    def lines(self) -> Iterator[bytes]:
        """Yields the lines that were received so far. Raises EOFError at the end of the pipe, and BlockingIOError if there is no line yet."""
        chunk = os.read(self.answers, _CHUNK)
        self.read += chunk
        if b"\n" in chunk:
            *whole, rest = self.read.split(b"\n")
            self.read = bytearray(rest)
            yield from map(bytes, whole)
        if not chunk:
            raise EOFError

    def shown(self, chunk: bytes, most: int, name: str) -> bytes:
        """Returns the part of a printed chunk that is shown.

        The first `most` bytes of a call are shown, then a note that the call printed more.
        """
        room = most - self.printed
        self.printed += len(chunk)
        note = f"\n[further output of {name} in this call is not shown]\n" if 0 <= room < len(chunk) else ""
        return chunk[: max(0, room)] + note.encode()

    def close(self) -> None:
        for pipe in (self.requests, self.answers, self.prints):
            with suppress(OSError):
                os.close(pipe)


class ForkServer:
    """The parent's side of one fork server. Starts the server.

    Only one thread may use this object; other threads may only call `close`.
    """

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        command = [sys.executable, "-m", "gradus.workers.fork_server", str(theirs.fileno())]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self._count = 0
        self._heard = b""
        self._closing = threading.Lock()

    def start(self, job: Job, memory: int) -> Worker:
        """Starts a worker, which first loads the code. Raises OSError if the fork server has ended."""
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe(), os.pipe()
        self._count += 1
        with suppress(AttributeError, OSError):  # a smaller pipe, so that endless printing is noticed sooner
            fcntl.fcntl(ours_err, fcntl.F_SETPIPE_SZ, 1 << 20)
        worker = Worker(self._count, ours_in, ours_out, ours_err)
        message = {"start": worker.number, "kind": job.kind, "spec": job.spec, "options": json.loads(job.options), "memory": memory}
        place = {"folder": os.getcwd(), "environment": dict(os.environ)}
        try:
            for pipe in (ours_in, ours_out, ours_err):
                os.set_blocking(pipe, False)
            self._send({**message, **place}, [theirs_in, theirs_out, theirs_err])
        except OSError:
            worker.close()
            raise
        finally:
            for pipe in (theirs_in, theirs_out, theirs_err):
                os.close(pipe)
        return worker

    def kill(self, worker: Worker) -> None:
        """Asks the fork server to kill a worker; `heard` reports its end. Raises OSError if the fork server has ended."""
        self._send({"kill": worker.number})

    def heard(self) -> list[Mapping[str, Any]]:
        """Returns the messages of the fork server: {"ended": number, "code": exit code}. Raises EOFError if the server has ended."""
        data = self.control.recv(_CHUNK)
        if not data:
            raise EOFError
        *lines, self._heard = (self._heard + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Ends all workers, their leftover processes and the fork server. A thread that waits for the fork server gets an error."""
        with self._closing:
            with suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _send(self, message: Mapping[str, Any], pipes: list[int] | None = None) -> None:
        self.process.send_signal(signal.SIGCONT)  # user code may have stopped it
        data = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(self.control, [data], pipes) if pipes else 0
        self.control.sendall(data[sent:])


def ending(code: int) -> str:
    """Describes the end of a process in words, from its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
