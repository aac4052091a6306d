"""Calls of somebody's code in a process of its own, each watched: what it raises, how long it takes, what it reaches for.

The process is a fork, so that anything can be called that this one holds, a lambda too, and nothing is pickled. It is killed where a call
takes too long, and another one goes on with the next call. What is reached for comes from Python's audit events (PEP 578): a hook cannot be
removed again, which is one more reason for a process of its own. What it reaches for while a module is being imported is the import's own.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from gradus.runtime.user_code import raised_in
from gradus.types import UserError, unknown

T = TypeVar("T")

TICK = 0.2  # seconds between two looks at a call that runs
PATIENCE = 10  # times the limit of processor time that a call may take by the clock, as it may be waiting, or the machine be busy
LOST = 5  # calls that may end their process before the rest is given up
WASTED = 10.0  # seconds that calls without an end may take together before that
DOUBTED = 5.0  # a limit of fewer seconds may run out where a machine stands still for a moment
IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>", "linecache.py")  # what these read is no harm

REACHES: dict[str, tuple[str, ...]] = {
    "code": ("exec", "code.__new__", "marshal.loads", "pickle.find_class", "ctypes."),
    "process": ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.", "pty.", "os.kill"),
    "file": ("open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
             "os.listdir", "os.scandir", "os.utime", "shutil.", "tempfile.", "glob."),
    "network": ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostby", "urllib.", "http.", "ftplib.",
                "smtplib."),
}  # fmt: skip
"""What a call may reach for, by the beginnings of the audit events that tell it. `exec` is told by eval, too; parsing alone is not."""
SAID = {"code": "ran code", "process": "started or stopped a process", "file": "touched a file", "network": "reached for the network"}


@dataclass(frozen=True)
class Limits:
    """What a call may take and reach for."""

    seconds: float = 1.0  # of processor time; by the clock, ten times as long and 2 s at least, 60 s where it may start processes
    memory: int = 1024  # MiB more than are held before the first call; 0: no limit
    allow: frozenset[str] = frozenset()  # of code, process, file, network
    wall: float = 0.0  # seconds by the clock; 0: as above

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow", frozenset(self.allow))
        if not 0 < self.seconds < 86400:
            raise UserError(
                f"limits: seconds is {self.seconds}; give the processor time that a call may take, more than 0 and less than a day"
            )
        if self.memory < 0:
            raise UserError(f"limits: memory is {self.memory}; give MiB, or 0 for no limit")
        for name in self.allow:
            if name not in REACHES:
                raise unknown("thing to allow", name, REACHES)

    @property
    def clock(self) -> float:
        """Seconds that a call may take by the clock."""
        least = 60.0 if "process" in self.allow else 2.0  # other processes have limits of their own
        return self.wall or max(least, PATIENCE * self.seconds)

    def freely(self, seconds: float) -> Limits:
        """For plain calls: they may reach for anything, and take so many seconds at least, twice as long by the clock."""
        return replace(self, seconds=max(seconds, self.seconds), allow=frozenset(REACHES), wall=max(self.clock, 2 * seconds))


@dataclass(frozen=True)
class Call:
    """What became of one call. `seconds` are of processor time."""

    index: int
    value: Any = None
    seconds: float = 0.0
    error: str = ""  # what was raised, or how the process ended
    reached: tuple[str, ...] = ()
    late: bool = False  # its process was ended because it took too long
    final: bool = False  # the rest was not tried

    @property
    def complaint(self) -> str:
        """What is wrong with it, or ''."""
        return "; ".join([*self.reached, *([self.error] if self.error else [])])


def watch(call: Callable[[T], Any], prepare: Callable[[int], T], count: int, limits: Limits = Limits(), start: int = 0) -> Iterator[Call]:
    """`call(prepare(i))` for every i from `start` up to `count`, in order.

    Args: call: gives a value that JSON can hold; prepare: makes its argument, neither watched nor timed, and gives the same for the same i.
    A call that ends its process is told as an error (one that soon took too long is made twice before that). After five of them, or ten
    seconds spent on such as did not come to an end, the rest is not tried, and the last one says so.
    Raises: UserError where the system cannot fork.
    """
    if not hasattr(os, "fork"):
        raise UserError("contract tests need a system that can fork a process; run them on Linux or macOS")
    lost, wasted, doubted = 0, 0.0, -1
    while start < count:
        end = End("")
        for found in _calls(call, prepare, start, count, limits):
            if isinstance(found, End):
                end = found
                break
            yield found
            start = found.index + 1
        if start < count and 0 < end.late < DOUBTED and doubted != start:
            doubted = start  # a machine that was halted for a moment may have counted that time in
        elif start < count:
            lost, wasted = lost + 1, wasted + end.late
            given_up = (lost == LOST or wasted >= WASTED) and start + 1 < count
            text = end.text + ("; the rest was not tried" if given_up else "")
            yield Call(start, seconds=limits.seconds, error=text, late=end.late > 0, final=given_up)
            start = count if given_up else start + 1


class End(NamedTuple):
    """How a process ended before it had made all its calls; where time was the reason, after how many seconds."""

    text: str
    late: float = 0.0


def _calls(call: Callable[[T], Any], prepare: Callable[[int], T], start: int, count: int, limits: Limits) -> Iterator[Call | End]:
    """The calls that one process makes, and at last, where it did not come to the end, how it ended."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads is forked: the child runs this one alone
        child = os.fork()
    if child == 0:
        os.close(reading)
        _serve(writing, call, prepare, start, count, limits)
    os.close(writing)
    over = False
    try:
        rest = b""
        while not over:
            if not _readable(reading, limits.clock):
                yield End(f"gave no answer within {limits.clock:g} s", limits.clock)
                return
            block = os.read(reading, 1 << 16)
            over = not block
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                index, value, seconds, error, reached = json.loads(line)
                yield Call(index, value, seconds, error, tuple(reached))
    finally:
        os.close(reading)
        if not over:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    yield _ended(status, limits)


def _readable(pipe: int, seconds: float) -> bool:
    """Whether something came within so many seconds, counted in ticks, so that a time in which this process itself was stopped is one."""
    return any(select.select([pipe], [], [], TICK)[0] for _ in range(round(seconds / TICK)))


def _ended(status: int, limits: Limits) -> End:
    if not os.WIFSIGNALED(status):
        return End(f"ended its process with code {os.waitstatus_to_exitcode(status)}")
    number = os.WTERMSIG(status)
    if number == signal.SIGPROF:
        return End(f"took more than {limits.seconds:g} s of processor time", limits.seconds)
    return End(f"ended its process by signal {signal.Signals(number).name}")


def _serve(
    pipe: int, call: Callable[[T], Any], prepare: Callable[[int], T], start: int, count: int, limits: Limits
) -> NoReturn:  # pragma: no cover - in the child
    code = 1
    try:
        _alone(limits)
        watched = Watch(limits.allow)
        with os.fdopen(pipe, "wb", buffering=0) as answers:
            for index in range(start, count):
                answers.write(json.dumps(watched.made(index, call, prepare(index), limits.seconds)).encode() + b"\n")
        code = 0
    except BaseException:  # whatever it was, this process must not go on as a copy of its parent
        code = 1
    os._exit(code)


def _alone(limits: Limits) -> None:
    """Makes a fork a process of its own: no input, no output, signals as at the start, one thread, bounded memory."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for name in ("SIGPROF", "SIGINT", "SIGTERM", "SIGALRM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    faulthandler.disable()  # what it would print goes to the parent's terminal
    gc.freeze()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # the threads of the parent are not there any more
    held = Path("/proc/self/statm")
    if limits.memory and held.is_file():
        import resource

        most = int(held.read_text().split()[0]) * resource.getpagesize() + limits.memory * 2**20
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class Watch:
    """The audit hook of a process, which sees what is reached for while a call runs."""

    def __init__(self, allow: frozenset[str]) -> None:
        self.armed = False
        self.seen: dict[str, None] = {}
        self.kinds = {start: kind for kind, starts in REACHES.items() if kind not in allow for start in starts}
        self.starts = tuple(self.kinds)
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed or not event.startswith(self.starts) or (event == "open" and not _named(arguments[0])) or _importing():
            return
        kind = next(kind for start, kind in self.kinds.items() if event.startswith(start))
        self.seen[f"{SAID[kind]} ({event}{_detail(arguments)})"] = None

    def made(self, index: int, call: Callable[[T], Any], given: T, seconds: float) -> tuple[int, Any, float, str, list[str]]:
        """One call: index, value, seconds of processor time, error, what it reached for. The system ends the process where it takes longer."""
        self.seen = {}
        value, wrong = None, None
        signal.setitimer(signal.ITIMER_PROF, seconds)
        began = time.process_time(), time.thread_time()
        self.armed = True
        try:
            value = call(given)
        except BaseException as error:  # also SystemExit and what else a verifier might raise
            wrong = error
        self.armed = False
        # while a timer runs, some kernels count the time of a process in ticks of ten milliseconds; that of a thread is exact
        took = max(time.process_time() - began[0], time.thread_time() - began[1])
        signal.setitimer(signal.ITIMER_PROF, 0)
        return index, value, took, f"raised {_short(raised_in(wrong))}" if wrong is not None else "", list(self.seen)[:5]


def _short(text: str, most: int = 200) -> str:
    """The beginning and the end of what was raised: an error may quote all of a text."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def _importing() -> bool:
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(IMPORTING):
            return True
        frame = frame.f_back
    return False


def _named(path: Any) -> bool:
    """Whether what is opened is a file with a name, and not a descriptor that is open already."""
    return not isinstance(path, int)


def _detail(arguments: tuple[Any, ...]) -> str:
    first = arguments[0] if arguments else None
    if isinstance(first, types.CodeType):
        return f" of {first.co_filename}"
    return f" {ascii(first)[:60]}" if isinstance(first, str | bytes | int) else ""
