"""The other end of the nursery and of its workers: pipes, and what is known of each."""

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
    """What workers hold: a reward function `FILE.py:NAME`, or the task that it makes with some options, for its verifier."""

    spec: str
    kind: str = "reward function"  # or task
    options: str = "{}"  # JSON

    @property
    def name(self) -> str:
        return self.spec.rpartition(":")[2]


@dataclass(eq=False)
class Worker:
    """One process: its pipes, what it was asked and has not answered, and since when the first of that is its turn."""

    number: int
    requests: int
    answers: int
    prints: int
    asked: deque[int] = field(default_factory=deque)  # numbers of calls
    unsent: bytearray = field(default_factory=bytearray)
    read: bytearray = field(default_factory=bytearray)
    ready: bool = False  # it has said that the code could be loaded
    since: float = 0.0
    printed: int = 0  # bytes during the first of the calls asked
    answered: int = 0  # calls so far
    typical: float = 0.0  # seconds a call, of late; 0: not known

    def push(self) -> None:
        """Sends what the pipe takes. Raises OSError where the process is gone."""
        with suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: os.write(self.requests, memoryview(self.unsent)[:_CHUNK])]

    def lines(self) -> Iterator[bytes]:
        """The lines that have come. Raises EOFError after the last one there will ever be, BlockingIOError where none is there yet."""
        chunk = os.read(self.answers, _CHUNK)
        self.read += chunk
        if b"\n" in chunk:
            *whole, rest = self.read.split(b"\n")
            self.read = bytearray(rest)
            yield from map(bytes, whole)
        if not chunk:
            raise EOFError

    def shown(self, chunk: bytes, most: int, name: str) -> bytes:
        """What is shown of a piece that it has printed: the first `most` bytes of a call, then that there was more."""
        room = most - self.printed
        self.printed += len(chunk)
        note = f"\n[the rest of what {name} prints in this call is not shown]\n" if 0 <= room < len(chunk) else ""
        return chunk[: max(0, room)] + note.encode()

    def close(self) -> None:
        for pipe in (self.requests, self.answers, self.prints):
            with suppress(OSError):
                os.close(pipe)


class ForkServer:
    """This process's end of one nursery, which starts with it. Only `close` may be called by another thread than the one that asks."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        command = [sys.executable, "-m", "gradus.workers.fork_server", str(theirs.fileno())]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self._count = 0
        self._heard = b""
        self._closing = threading.Lock()

    def start(self, job: Job, memory: int) -> Worker:
        """A worker, which first loads the code. Raises OSError where the nursery is gone."""
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe(), os.pipe()
        self._count += 1
        with suppress(AttributeError, OSError):  # a function that prints without end is seen sooner
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
        """Asks for the worker's end; `heard` tells when it has come. Raises OSError where the nursery is gone."""
        self._send({"kill": worker.number})

    def heard(self) -> list[Mapping[str, Any]]:
        """What the nursery has told: {"ended": number, "code": exit code}. Raises EOFError where it is gone."""
        data = self.control.recv(_CHUNK)
        if not data:
            raise EOFError
        *lines, self._heard = (self._heard + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Ends all workers, what they have left, and the nursery; a thread that waits for it is told."""
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
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
