"""One sandbox: an isolated interpreter that runs one program.

The calling process enforces the limits until the program ends. Then it discards the sandbox.
"""

from __future__ import annotations

import contextlib
import errno
import json
import marshal
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gradus.runtime.readable import readable
from gradus.sandbox import bubblewrap
from gradus.sandbox.records import PROGRAM, End, Isolation, Limits, Ran, SandboxError
from gradus.sandbox.resource_limits import environment, resources
from gradus.sandbox.seccomp import filter_for
from gradus.sandbox.shown import interpreter, library_folders
from gradus.sandbox.usage import Tree, ended_first

START_SECONDS = 60.0  # time limit for the start of an interpreter; it is long because the machine may be busy
END_SECONDS = 30.0  # time limit within which the kernel must end killed processes
TICK = 0.02  # seconds between two measurements of the memory
_PIPE = 1 << 16
FULL = tuple(f"OSError: [Errno {number}]" for number in (errno.ENOSPC, errno.EFBIG))  # last line of stderr if the disk limit left no room for files


@dataclass(frozen=True)
class Program:
    """The input of one sandbox: Python source, standard input, files by relative path, and command-line arguments."""

    source: str
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The settings of a waiting interpreter. Interpreters with equal settings can replace each other."""

    isolation: Isolation
    limits: Limits
    packages: bool
    readable: tuple[str, ...]


class Started:
    """An interpreter in its sandbox, and the ends of its pipes in this process. Runs one program."""

    def __init__(self, settings: Settings) -> None:
        """Starts the interpreter and does not wait until it is ready.

        Call `started` instead, because the thread that starts a sandbox must live longer than the sandbox.

        Raises SandboxError if the system cannot start the interpreter.
        """
        self.settings = settings
        self._open: set[int] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._init: int | None = None  # pidfd of the sandbox's first process; when this process ends, all others end
        try:
            self._start()
        except OSError as error:
            self.close()
            raise SandboxError(f"the sandbox could not start: {error}") from error

    def _start(self) -> None:
        self._job, job = self._pipe(reads=False)
        self._ready, ready = self._pipe()
        self._info, info = self._pipe()
        isolated = self.settings.isolation is Isolation.BUBBLEWRAP
        user = bubblewrap.unused_user() if isolated and bubblewrap.as_root() else 0
        own = [str(interpreter()), "-s", "-S", "-P", "-B", "-X", "utf8", "-c", _inside(), str(job), str(ready), str(user)]
        given = [job, ready]
        if isolated:
            ours, seccomp = self._pipe(reads=False)
            os.write(ours, filter_for())
            self._close(ours)
            beside = (*library_folders(), *bubblewrap.packages_folders()) if self.settings.packages else ()
            own = [*bubblewrap.command(info, seccomp, disk=self.settings.limits.disk, readable=(*self.settings.readable, *beside)), *own]
            given += [info, seccomp]
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="gradus-sandbox-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=given,
            env=environment("/tmp" if self._folder is None else self._folder.name),
            cwd="/" if self._folder is None else self._folder.name,
            start_new_session=True,
        )
        for descriptor in {job, ready, info, *given}:
            self._close(descriptor)

    def run(self, program: Program) -> Ran:
        """Runs the program to its end or to a limit, then ends all its processes. Raises SandboxError if the program could not run."""
        try:
            self._await_ready()
            self._send(program)
            if _read_within(self._ready, START_SECONDS, len(b"begun")) != b"begun":
                raise SandboxError(f"the sandbox ended before its program began: {self._said()}")
            return _Watched(self, program.stdin).until_the_end()
        except OSError as error:
            raise SandboxError(f"the sandbox failed: {error}") from error
        finally:
            self.close()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kills all processes in the sandbox. When bubblewrap's process ends, the first process inside ends.

        When the first process ends, all other processes end.
        """
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.settings.isolation is Isolation.RLIMITS:
                for member in Tree(process.pid, None).members()[1:]:  # for processes that have left the process group
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(member, signal.SIGKILL)
                os.killpg(process.pid, signal.SIGKILL)
            elif process.poll() is None:
                process.kill()

    def close(self) -> None:
        """Kills the remaining processes, waits for their end and closes all pipes. Raises SandboxError if they do not end."""
        self.kill()
        try:
            if self._process is not None:
                self._process.wait(END_SECONDS)
                if self._init is not None and not readable([self._init], END_SECONDS):
                    raise SandboxError(f"a killed sandbox had not ended after {END_SECONDS:g} seconds")
        except subprocess.TimeoutExpired:
            raise SandboxError(f"a killed sandbox had not ended after {END_SECONDS:g} seconds") from None
        finally:
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr) if self._process is not None else ():
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            for descriptor in tuple(self._open):
                self._close(descriptor)
            self._init = None
            if self._folder is not None:
                self._folder.cleanup()

    def _await_ready(self) -> None:
        """Waits until the interpreter is ready for its program. If the interpreter does not become ready, raises SandboxError with the error output."""
        assert self._process is not None
        if _read_within(self._ready, START_SECONDS, len(b"ready")) != b"ready":
            raise SandboxError(f"the sandbox did not start: {self._said()}")
        if self.settings.isolation is Isolation.BUBBLEWRAP:
            self.first = json.loads(_read_within(self._info, START_SECONDS))["child-pid"]
            self._init = os.pidfd_open(self.first)
            self._open.add(self._init)
        else:
            self.first = self._process.pid
        for member in Tree(self.first, None).members():
            ended_first(member)

    def _said(self) -> str:
        """Kills a failed sandbox, and returns the end of its error output."""
        self.kill()
        stderr = self._process.stderr if self._process is not None else None
        said = " ".join(stderr.read(4000).decode(errors="replace").split())[-300:] if stderr is not None else ""
        return said or "it wrote no error message"

    def _send(self, program: Program) -> None:
        files = {**program.files, PROGRAM: program.source.encode("utf-8", "surrogatepass")}
        path = bubblewrap.packages_folders() if self.settings.packages else []
        limits = resources(self.settings.limits, self.settings.isolation)
        content = marshal.dumps({"files": files, "program": PROGRAM, "arguments": list(program.arguments), "path": path, "limits": limits})
        with os.fdopen(self._job, "wb", closefd=False) as pipe:
            pipe.write(content)
        self._close(self._job)

    def _pipe(self, *, reads: bool = True) -> tuple[int, int]:
        """Returns (our end, other end) of a new pipe. With `reads`, the parent's end of the pipe is for reading; without `reads`, it is for writing."""
        ends = os.pipe()
        self._open.update(ends)
        return ends if reads else (ends[1], ends[0])

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)


class _Watched:
    """A running program. Reads and fills the program's pipes, and enforces its limits."""

    def __init__(self, sandbox: Started, stdin: bytes) -> None:
        assert sandbox._process is not None
        self.sandbox, self.process, self.limits = sandbox, sandbox._process, sandbox.settings.limits
        self.begun = time.monotonic()
        self.pending = memoryview(stdin)
        self.said: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.broken: End | None = None
        self.tree = Tree(sandbox.first, files="/tmp" if sandbox._folder is None else None)

    def until_the_end(self) -> Ran:
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            over = self.begun + self.limits.wall
            look = self.begun + TICK
            while self.broken is None and self.process.poll() is None:
                now = time.monotonic()
                if now >= over:
                    self.broken = End.TIMEOUT
                elif now >= look:
                    self._look()
                    look = time.monotonic() + TICK
                else:
                    self._serve(selector, min(look, over) - now)
            seconds = time.monotonic() - self.begun
            self._finish(selector)
        return self._told(seconds)

    def _register(self, selector: selectors.BaseSelector) -> None:
        for name in ("stdout", "stderr"):
            stream = getattr(self.process, name)
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, name)
        assert self.process.stdin is not None
        if self.pending:
            os.set_blocking(self.process.stdin.fileno(), False)
            selector.register(self.process.stdin, selectors.EVENT_WRITE, "stdin")
        else:
            self.process.stdin.close()
        self.gone = os.pidfd_open(self.process.pid) if hasattr(os, "pidfd_open") else None
        if self.gone is not None:  # wakes the loop when the program ends
            self.sandbox._open.add(self.gone)
            selector.register(self.gone, selectors.EVENT_READ, "gone")

    def _serve(self, selector: selectors.BaseSelector, seconds: float) -> bool:
        """Reads or fills the pipes that become ready within `seconds`. Returns whether one of these pipes was the program's output."""
        ready = selector.select(max(0.0, seconds))
        for key, _ in ready:
            if key.data == "stdin":
                self._feed(selector)
            elif key.data != "gone":
                self._hear(selector, key)
        return any(key.data in self.said for key, _ in ready)

    def _feed(self, selector: selectors.BaseSelector) -> None:
        assert self.process.stdin is not None
        try:
            self.pending = self.pending[os.write(self.process.stdin.fileno(), self.pending[:_PIPE]) :]
        except BlockingIOError:
            return
        except OSError:  # the program has closed its input
            self.pending = memoryview(b"")
        if not self.pending:
            selector.unregister(self.process.stdin)
            self.process.stdin.close()

    def _hear(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        try:
            chunk = os.read(key.fd, _PIPE)
        except BlockingIOError:
            return
        if not chunk:
            selector.unregister(key.fileobj)
            return
        room = self.limits.output - sum(len(text) for text in self.said.values())
        self.said[key.data] += chunk[:room]
        if len(chunk) > room:
            self.broken = self.broken or End.OUTPUT

    def _look(self) -> None:
        """Checks whether the program's processes and files together exceed a limit. If so, records that the program must be ended."""
        if self.tree.memory(self.limits.memory) > self.limits.memory:
            self.broken = End.MEMORY
        elif self.tree.disk() > self.limits.disk:
            self.broken = End.DISK

    def _finish(self, selector: selectors.BaseSelector) -> None:
        """Kills the program's remaining processes, then reads the rest from the pipes."""
        self.sandbox.kill()
        self.process.wait(END_SECONDS)
        init = self.sandbox._init
        if init is not None:
            readable([init], END_SECONDS)
        if self.gone is not None:
            selector.unregister(self.gone)
        while self.broken is not End.OUTPUT and self._serve(selector, 0.0):
            pass

    def _told(self, seconds: float) -> Ran:
        code = self.process.returncode
        if code < 0 and self.broken is None and self.sandbox.settings.isolation is Isolation.BUBBLEWRAP:
            # The signal ended bubblewrap itself, which the program cannot reach. If a signal ends the program, bubblewrap reports this by its exit code.
            raise SandboxError(f"the sandbox was killed from outside, by {signal.Signals(-code).name}")
        if 128 < code < 128 + signal.NSIG:  # bubblewrap's exit code for a signal
            code = 128 - code
        out, err = (self.said[name].decode("utf-8", "replace") for name in ("stdout", "stderr"))
        return Ran(out, err, code, self.broken or _ended(code, err, seconds >= self.limits.cpu_seconds), seconds)


def _ended(code: int, stderr: str, long: bool) -> End:
    """Returns the way in which a program ended, if this process did not stop it.

    `long`: whether it is possible that the program used up its processor time and caught the first signal.
    """
    if code == 0:
        return End.OK
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and long):
        return End.TIMEOUT
    if code < 0:
        return End.SIGNAL
    last = stderr.rstrip().rpartition("\n")[2]
    if last.startswith("MemoryError"):
        return End.MEMORY
    return End.DISK if last.startswith(FULL) else End.ERROR


@cache
def _inside() -> str:
    return Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


def _read_within(descriptor: int, seconds: float, most: int = _PIPE) -> bytes:
    """Reads until the other end closes or `most` bytes have arrived. Returns b"" if this takes longer than `seconds`."""
    content, deadline = b"", time.monotonic() + seconds
    while readable([descriptor], deadline - time.monotonic()):
        chunk = os.read(descriptor, most - len(content))
        content += chunk
        if not chunk or len(content) == most:
            return content
    return b""


_NURSERY: list[ThreadPoolExecutor] = []
os.register_at_fork(after_in_child=_NURSERY.clear)


def nursery() -> ThreadPoolExecutor:
    """Returns the one thread that starts sandboxes. A sandbox ends with the thread that started it, so no sandbox is left after a run is killed."""
    if not _NURSERY:
        _NURSERY.append(ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox"))
    return _NURSERY[0]


def started(settings: Settings) -> Started:
    """Returns a new sandbox. Raises SandboxError."""
    return nursery().submit(Started, settings).result()
