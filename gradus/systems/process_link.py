"""A link to a worker in a child process. The messages go through a pair of sockets that only the two processes have: no port is opened."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gradus.runtime.readable import readable
from gradus.systems.link import Closed, Message, frame_size, framed, unframed
from gradus.workers.process import ending

if TYPE_CHECKING:
    from torch import Tensor

_CHUNK = 1 << 20
_PATIENCE = 2.0  # seconds that a worker gets to end by itself


class Wire:
    """One end of a pair of sockets, which carries messages. Both processes use it."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._read = bytearray()

    def pending(self) -> bool:
        """Whether the other process has ended, or has sent a message that was not received yet."""
        return bool(self._read) or bool(readable([self.end.fileno()], 0.0))

    def send(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> None:
        """See `gradus.systems.link.Link`."""
        try:
            self.end.sendall(framed(document, arrays))
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self, timeout: float | None = None) -> Message:
        """See `gradus.systems.link.Link`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (size := frame_size(self._read)) is None or len(self._read) < size:
            try:
                if not readable([self.end.fileno()], None if deadline is None else deadline - time.monotonic()):
                    raise TimeoutError(f"no message within {timeout:g} seconds")
                chunk = self.end.recv(_CHUNK)
            except (OSError, ValueError) as error:  # ValueError: another thread has closed the socket
                if isinstance(error, TimeoutError):
                    raise
                raise Closed(str(error)) from error
            if not chunk:
                raise Closed("the other process has closed its socket")
            self._read += chunk
        message = unframed(bytes(self._read[:size]))
        del self._read[:size]
        return message


class ProcessLink(Wire):
    """Starts a child process with this role (see `gradus.systems.serve`), and connects to it."""

    def __init__(self, role: str, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "gradus.systems.serve", str(theirs.fileno()), role]
        # the worker has its own session: Ctrl-C in the terminal stops only the leading process, which then ends the worker
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True, env={**os.environ, **(environment or {})}
        )
        theirs.close()
        super().__init__(ours)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def ending(self) -> str:
        """See `gradus.systems.link.Link`. Waits for a moment if the process is about to end."""
        with suppress(subprocess.TimeoutExpired):
            return ending(self.process.wait(_PATIENCE))
        return ""

    def close(self) -> None:
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)  # ends the wait of a thread for an answer, and the input of the worker
        self.process.kill()
        self.process.wait()
        self.end.close()
