"""The process that workers are forked from: `python -m gradus.workers.fork_server DESCRIPTOR`.

It has imported what every worker needs, runs no user code itself, and so a new worker is there within milliseconds. It is told through a socket:
one JSON object a line, {"start": number, ...} with the three pipes of a worker, or {"kill": number}; it tells when a worker has ended and
how. What a worker leaves running is killed with it, also what has detached itself; all is killed when the socket closes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradus.workers import worker

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


class ForkServer:
    """The workers by number, and what has been heard but not understood yet."""

    def __init__(self, control: socket.socket, wake: tuple[int, int]) -> None:
        self.control, self.wake = control, wake
        self.workers: dict[int, int] = {}  # number -> process
        self.heard, self.pipes = b"", list[int]()
        self.prctl = _prctl()
        self.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what a worker leaves behind becomes a child of this process
        self.orphans = Path(f"/proc/self/task/{os.getpid()}/children")

    def hear(self) -> bool:
        """Does what was asked for; False where nobody asks any more."""
        data, pipes, _, _ = socket.recv_fds(self.control, 1 << 16, 8)
        self.heard += data
        self.pipes += pipes
        *lines, self.heard = self.heard.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "start" in message:
                mine, self.pipes = self.pipes[:3], self.pipes[3:]
                self.start(message, mine)
            elif message["kill"] in self.workers:
                self.kill(self.workers[message["kill"]])
        return bool(data)

    def start(self, message: dict[str, Any], pipes: list[int]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: those that libraries keep are asleep
            process = os.fork()
        if process == 0:
            code = 1
            try:
                self.become(message, pipes)
                code = 0
            except BaseException:
                with suppress(OSError):  # nobody may read any more
                    traceback.print_exc()
            finally:
                os._exit(code)  # whatever happens: the copy of a nursery must never act as one
        for pipe in pipes:
            os.close(pipe)
        self.workers[message["start"]] = process

    def become(self, message: dict[str, Any], pipes: list[int]) -> None:
        """What the forked process does: it gets a session of its own, the pipes, and the asker's folder and environment."""
        os.setsid()
        self.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        for target, pipe in enumerate(pipes):
            os.dup2(pipe, target)
        for descriptor in (*pipes, *self.wake, self.control.fileno()):
            os.close(descriptor)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # where memory runs out this process goes, not the training
        os.chdir(message["folder"])
        os.environ.clear()
        os.environ.update(message["environment"])
        worker.main(message["kind"], message["spec"], message["options"], message["memory"])

    def kill(self, process: int) -> None:
        for end in (os.killpg, os.kill):  # it may not lead a group yet
            with suppress(ProcessLookupError, PermissionError):
                end(process, signal.SIGKILL)

    def reap(self) -> bool:
        """Tells of the workers that have ended and kills what they left; whether any child is left."""
        numbers = {process: number for number, process in self.workers.items()}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if found is None:
                break
            if found.si_pid in numbers:
                self.kill(found.si_pid)  # the rest of its group, while its number cannot belong to another
            _, status = os.waitpid(found.si_pid, 0)
            if found.si_pid in numbers:
                del self.workers[numbers[found.si_pid]]
                self.tell({"ended": numbers[found.si_pid], "code": os.waitstatus_to_exitcode(status)})
        self.sweep()
        return True

    def sweep(self) -> None:
        """Kills what ended workers have left; what these leave comes here in turn."""
        with suppress(OSError):
            for child in map(int, self.orphans.read_text().split()):
                if child not in self.workers.values():
                    self.kill(child)

    def tell(self, message: dict[str, Any]) -> None:
        with suppress(OSError):
            self.control.sendall(json.dumps(message).encode() + b"\n")

    def end(self, seconds: float = 5.0) -> None:
        """Kills everything."""
        deadline = time.monotonic() + seconds
        for process in self.workers.values():
            self.kill(process)
        while self.reap() and time.monotonic() < deadline:
            time.sleep(0.002)


def main(descriptor: int) -> None:
    """Serves until the socket closes."""
    wake, bell = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(bell, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only rings
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # writing a dead worker's memory to the disk takes longer than a new one
    nursery = ForkServer(socket.socket(fileno=descriptor), (wake, bell))
    with suppress(ConnectionError):
        while True:
            ready, _, _ = select.select([wake, descriptor], [], [])
            if wake in ready:
                os.read(wake, 1 << 12)
                nursery.reap()
            if descriptor in ready and not nursery.hear():
                break
    nursery.end()


def _prctl() -> Any:
    """prctl(2) of Linux; elsewhere a function that does nothing."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    return (lambda *_: 0) if call is None else (lambda option, value: call(option, value, 0, 0, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
