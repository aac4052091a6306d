"""The process from which workers are forked: `python -m gradus.workers.fork_server DESCRIPTOR`.

This process has already imported the modules that a worker needs, so a new worker starts within milliseconds. It runs no user code. It reads messages from a
socket. A message is a line with a JSON object: {"start": number, ...} with the three pipes of a worker, or {"kill": number}. For each worker that ends, this
process reports the exit code. When a worker ends, this process kills the processes that the worker has left behind, including detached processes. When the
socket closes, all processes are killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradus.runtime.readable import readable
from gradus.workers import worker

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


class ForkServer:
    """The workers by number, and the input that is not yet parsed."""

    def __init__(self, control: socket.socket, wake: tuple[int, int]) -> None:
        self.control, self.wake = control, wake
        self.workers: dict[int, int] = {}  # number -> process
        self.heard, self.pipes = b"", list[int]()
        self.prctl = _prctl()
        self.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # processes left by a worker become children of this process
        self.orphans = Path(f"/proc/self/task/{os.getpid()}/children")

    def hear(self) -> bool:
        """Reads and executes messages. Returns False if the socket is closed."""
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
            warnings.simplefilter("ignore")  # this would be a warning about threads, but the threads of libraries do nothing at this time
            process = os.fork()
        if process == 0:
            code = 1
            try:
                self.become(message, pipes)
                code = 0
            except BaseException:
                with suppress(OSError):  # the pipe may be closed
                    traceback.print_exc()
            finally:
                os._exit(code)  # in every case, because the forked copy must never act as the fork server
        for pipe in pipes:
            os.close(pipe)
        self.workers[message["start"]] = process

    def become(self, message: dict[str, Any], pipes: list[int]) -> None:
        """Turns the forked process into a worker. The worker has its own session, the pipes, and the parent's folder and environment."""
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
            Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, the system kills this process, not the training
        os.chdir(message["folder"])
        os.environ.clear()
        os.environ.update(message["environment"])
        worker.main(message["kind"], message["spec"], message["options"], message["memory"])

    def kill(self, process: int) -> None:
        for end in (os.killpg, os.kill):  # both calls, because the process may not lead its own group yet
            with suppress(ProcessLookupError, PermissionError):
                end(process, signal.SIGKILL)

    def reap(self) -> bool:
        """Reports the ended workers and kills their leftover processes. Returns whether any child is left."""
        numbers = {process: number for number, process in self.workers.items()}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if found is None:
                break
            if found.si_pid in numbers:
                self.kill(found.si_pid)  # kills the rest of its group, as long as no other process can have its number
            _, status = os.waitpid(found.si_pid, 0)
            if found.si_pid in numbers:
                del self.workers[numbers[found.si_pid]]
                self.tell({"ended": numbers[found.si_pid], "code": os.waitstatus_to_exitcode(status)})
        self.sweep()
        return True

    def sweep(self) -> None:
        """Kills the leftover processes of ended workers. The children of these processes then become children of this process."""
        with suppress(OSError):
            for child in map(int, self.orphans.read_text().split()):
                if child not in self.workers.values():
                    self.kill(child)

    def tell(self, message: dict[str, Any]) -> None:
        with suppress(OSError):
            self.control.sendall(json.dumps(message).encode() + b"\n")

    def end(self, seconds: float = 5.0) -> None:
        """Kills all workers and their leftover processes."""
        deadline = time.monotonic() + seconds
        for process in self.workers.values():
            self.kill(process)
        while self.reap() and time.monotonic() < deadline:
            time.sleep(0.002)


def main(descriptor: int) -> None:
    """Runs the fork server until the socket closes."""
    wake, bell = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(bell, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only wakes `readable`
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump takes longer than a new worker
    nursery = ForkServer(socket.socket(fileno=descriptor), (wake, bell))
    with suppress(ConnectionError):
        while True:
            ready = readable([wake, descriptor], None)
            if wake in ready:
                os.read(wake, 1 << 12)
                nursery.reap()
            if descriptor in ready and not nursery.hear():
                break
    nursery.end()


def _prctl() -> Any:
    """Returns prctl(2) of Linux; on other systems, a function without effect."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    return (lambda *_: 0) if call is None else (lambda option, value: call(option, value, 0, 0, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
