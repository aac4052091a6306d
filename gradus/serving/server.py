"""The socket, the signals of the process, and the end of the server. At the end, open streams get an error as their last event."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gradus.serving.app import Application, Served
from gradus.serving.asked import Defaults
from gradus.serving.guard import Guard, loopback
from gradus.serving.runner import Runner
from gradus.types import UserError

if TYPE_CHECKING:
    import uvicorn

WAITING = 1024  # largest number of sequences that wait for a place in the batch


def listening(host: str, port: int) -> socket.socket:
    """Returns a socket on loopback. Port 0 means any free port.

    Raises UserError for the address of another machine, and for a port that is in use.
    """
    if not loopback(host):
        raise UserError(
            f"--host is {host}, which other machines can reach, but this server is only for this machine; leave --host out, and connect from "
            f"another machine with: ssh -L {port}:127.0.0.1:{port} THIS_MACHINE"
        )
    if not 0 <= port < 65536:
        raise UserError(f"--port is {port}; it must be from 0 (any free port) to 65535")
    name = "127.0.0.1" if host == "localhost" else host.strip("[]")
    made = socket.socket(socket.AF_INET6 if ":" in name else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((name, port))
        made.listen(2048)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"port {port} is in use by another program; give another port with --port, or any free port with --port 0"
            ) from None
        if error.errno == errno.EACCES:
            raise UserError(f"port {port} needs the rights of the administrator; give a port of at least 1024 with --port") from None
        raise
    made.setblocking(False)
    return made


def address(made: socket.socket) -> str:
    """Returns the address for clients, with /v1."""
    host, port = made.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def make_server(
    model: Any,
    name: str,
    *,
    rows: int = 64,
    waiting: int = WAITING,
    api_key: str | None = None,
    defaults: Defaults = Defaults(),
    ready: Callable[[], None] = lambda: None,
) -> uvicorn.Server:
    """Returns a server for a model. The server advances at most `rows` sequences at once. `ready` is called when the server listens.

    Start the server with `.run(sockets=[listening(...)])`. The server ends at Ctrl-C, or after `.should_exit = True`. Raises: UserError if uvicorn is not
    installed, or if the model cannot be served.
    """
    if rows < 1:
        raise UserError(f"--max-batch is {rows}; it must be 1 or more")
    if model.head is not None:
        raise UserError(f"{name} is a reward model, which writes no text; name a language model, or a run that trains a language model")
    try:
        import uvicorn
    except ImportError:
        raise UserError('gradus serve needs the package uvicorn; install it with: pip install "gradus[serve]"') from None
    runner = Runner(model, rows=rows, waiting=waiting)
    app = Guard(Application(Served(model, name, runner, defaults, int(time.time()))), api_key=api_key)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            runner.start()
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            runner.stop()
            await asyncio.sleep(0)  # the streams write their last event
            await super().shutdown(sockets)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """A context manager. Within it, signals end the server. Afterwards the signals are not raised again, because a signal is the usual end of a
            server.
            """
            with super().capture_signals():
                yield
                self._captured_signals.clear()

    how: dict[str, Any] = {
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": 5,
    }
    return Server(uvicorn.Config(app, lifespan="off", ws="none", **how))
