"""The process of one worker: `python -m gradus.systems.serve DESCRIPTOR ROLE`. The process answers the messages of a socket until the socket closes.

The role `players` has networks: it samples and computes rows (`gradus.systems.worker`). The role `tasks` has no network: it runs environments and verifiers
(`gradus.systems.task_worker`).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from gradus.systems.link import Closed, answer
from gradus.systems.process_link import Wire
from gradus.types import unknown

ROLES = ("players", "tasks")


def worker_of(role: str) -> Any:
    """Makes the worker of a role. The methods of the worker answer the messages. Raises UserError for an unknown role."""
    if role == "players":
        from gradus.systems.worker import Worker

        return Worker()
    if role == "tasks":
        from gradus.systems.task_worker import TaskWorker

        return TaskWorker()
    raise unknown("role", role, ROLES, "Of a worker process")


def serve(link: Any, worker: Any) -> None:
    """Answers the messages of a link until the link closes. A worker with the role `players` may pause its work if the next message arrives."""
    worker.pending = link.pending
    with suppress(Closed):
        while True:
            link.send(*answer(worker, *link.receive()))


def main(descriptor: int, role: str) -> None:
    """Runs a worker until its socket closes. The process ignores SIGINT and SIGTERM, because the leading process handles them and ends this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    serve(Wire(socket.socket(fileno=descriptor)), worker_of(role))


def _follow(parent: int) -> None:
    """Ends this process if the leading process has ended, because then no process reads the answers."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # ends at once, because the process has no state to save
