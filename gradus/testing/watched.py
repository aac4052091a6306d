"""Makes calls of user code in a separate process, and records the exception, the time and the resources of each call.

The process is a fork, so that any function can be called, even a lambda, and nothing is pickled. If a call takes too long, the process is killed and
a new process continues with the next call. Python's audit events (PEP 578) report the resources; an audit hook cannot be removed, and this is another reason
for a separate process. Resources used during the import of a module do not count.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from gradus.runtime.readable import readable
from gradus.runtime.user_code import raised_in
from gradus.types import UserError, unknown

T = TypeVar("T")

TICK = 0.2  # seconds between two checks of a running call
PATIENCE = 10  # limit of clock time, as a multiple of the limit of processor time; larger, because a call may wait, or the machine may be busy
LOST = 5  # after this number of calls that ended their process, the remaining calls are not made
WASTED = 10.0  # after this number of seconds in calls that do not end, the remaining calls are not made
DOUBTED = 5.0  # if the limit is below this number of seconds, a late call is repeated once, because the machine may have stopped for a moment
IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>", "linecache.py")  # files that these modules read do not count

REACHES: dict[str, tuple[str, ...]] = {
    "code": ("exec", "code.__new__", "marshal.loads", "pickle.find_class", "ctypes."),
    "process": ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.", "pty.", "os.kill"),
    "file": ("open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
             "os.listdir", "os.scandir", "os.utime", "shutil.", "tempfile.", "glob."),
    "network": ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostby", "urllib.", "http.", "ftplib.",
                "smtplib."),
}  # fmt: skip
"""Kind of resource -> the beginnings of its audit events. eval also raises the event `exec`; parsing alone raises no event."""
SAID = {"code": "ran code", "process": "started or stopped a process", "file": "touched a file", "network": "reached for the network"}


@dataclass(frozen=True)
class Limits:
    """The limits of a call, and the resources it may use."""

    seconds: float = 1.0  # processor time; the limit of clock time is ten times this limit, at least 2 s (60 s if the call may start processes)
    memory: int = 1024  # MiB above the memory held before the first call; 0: no limit
    allow: frozenset[str] = frozenset()  # permitted kinds of resource: code, process, file, network
    wall: float = 0.0  # limit of clock time in seconds; 0: computed from `seconds` as above

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow", frozenset(self.allow))
        if not 0 < self.seconds < 86400:
            raise UserError(f"limits: `seconds` is {self.seconds}; give the largest processor time of a call in seconds, above 0 and less than a day")
        if self.memory < 0:
            raise UserError(f"limits: `memory` is {self.memory}; give a number of MiB, or 0 for no limit")
        for name in self.allow:
            if name not in REACHES:
                raise unknown("thing to allow", name, REACHES)

    @property
    def clock(self) -> float:
        """The limit of a call in seconds of wall-clock time."""
        least = 60.0 if "process" in self.allow else 2.0  # other processes have their own limits
        return self.wall or max(least, PATIENCE * self.seconds)

    def freely(self, seconds: float) -> Limits:
        """Returns limits for calls with plain input: all resources, at least `seconds` of processor time, and at least twice as many seconds of wall-clock time."""
        return replace(self, seconds=max(seconds, self.seconds), allow=frozenset(REACHES), wall=max(self.clock, 2 * seconds))


@dataclass(frozen=True)
class Call:
    """The result of one call. `seconds`: processor time."""

    index: int
    value: Any = None
    seconds: float = 0.0
    error: str = ""  # the exception, or how the process ended
    reached: tuple[str, ...] = ()
    late: bool = False  # whether its process was ended because the call took too long
    final: bool = False  # whether the remaining calls were not made

    @property
    def complaint(self) -> str:
        """The error and the resources that the call used, as text; '' if there are none."""
        return "; ".join([*self.reached, *([self.error] if self.error else [])])


def watch(call: Callable[[T], Any], prepare: Callable[[int], T], count: int, limits: Limits = Limits(), start: int = 0) -> Iterator[Call]:
    """Makes `call(prepare(i))` for every i from `start` to `count` - 1, and yields one Call for each, in order.

    Args: `call`: returns a value that JSON can store. `prepare`: makes the argument of the call. The watch and the time limit do not apply to `prepare`. For
    equal i, it
    returns equal values. If a call ends its process or takes too long, its Call has an error. If the exceeded limit is below DOUBTED seconds, the call is
    repeated once before it counts as too long. After LOST calls with such an error, or after WASTED seconds for calls that took too long, the remaining calls
    are not made, and the last Call is marked as `final`.
    Raises: UserError if the system cannot fork.
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
            doubted = start  # the time may include a moment in which the machine stopped
        elif start < count:
            lost, wasted = lost + 1, wasted + end.late
            given_up = (lost == LOST or wasted >= WASTED) and start + 1 < count
            text = end.text + ("; the rest was not tried" if given_up else "")
            yield Call(start, seconds=limits.seconds, error=text, late=end.late > 0, final=given_up)
            start = count if given_up else start + 1


class End(NamedTuple):
    """How a process ended, as text. `late`: the limit in seconds that the last call exceeded; 0 if the process ended for another reason."""

    text: str
    late: float = 0.0


def _calls(call: Callable[[T], Any], prepare: Callable[[int], T], start: int, count: int, limits: Limits) -> Iterator[Call | End]:
    """Yields the calls that one process makes, and then an End with the reason why the process ended."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads, but the forked child runs only this thread
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
    """Whether data came within `seconds`. Time is counted in ticks, so if this process itself was stopped, that time counts as one tick."""
    return any(readable([pipe], TICK) for _ in range(round(seconds / TICK)))


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
    except BaseException:  # after any error, this process must not go on as a copy of its parent
        code = 1
    os._exit(code)


def _alone(limits: Limits) -> None:
    """Separates a fork from its parent: the fork gets no input and no output, default signal handlers, one thread and bounded memory."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for name in ("SIGPROF", "SIGINT", "SIGTERM", "SIGALRM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    faulthandler.disable()  # it would print to the parent's terminal
    gc.freeze()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # the parent's threads do not exist in a fork
    held = Path("/proc/self/statm")
    if limits.memory and held.is_file():
        import resource

        most = int(held.read_text().split()[0]) * resource.getpagesize() + limits.memory * 2**20
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class Watch:
    """The audit hook of a process, which records the resources that a call uses."""

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
        """Makes one call. If the call needs more than `seconds` of processor time, the system ends the process.

        Returns the index, the value, the seconds of processor time and the error of the call, and up to five resources that it used.
        """
        self.seen = {}
        value, wrong = None, None
        signal.setitimer(signal.ITIMER_PROF, seconds)
        began = time.process_time(), time.thread_time()
        self.armed = True
        try:
            value = call(given)
        except BaseException as error:  # also SystemExit and KeyboardInterrupt
            wrong = error
        self.armed = False
        # some kernels count the time of a process with a timer in ticks of ten milliseconds, but the time of a thread is exact
        took = max(time.process_time() - began[0], time.thread_time() - began[1])
        signal.setitimer(signal.ITIMER_PROF, 0)
        return index, value, took, f"raised {_short(raised_in(wrong))}" if wrong is not None else "", list(self.seen)[:5]


def _short(text: str, most: int = 200) -> str:
    """Shortens an error message to its beginning and its end, because it may quote a long text."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def _importing() -> bool:
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(IMPORTING):
            return True
        frame = frame.f_back
    return False


def _named(path: Any) -> bool:
    """Whether an `open` event names a file. Other `open` events have the number of an open descriptor."""
    return not isinstance(path, int)


def _detail(arguments: tuple[Any, ...]) -> str:
    first = arguments[0] if arguments else None
    if isinstance(first, types.CodeType):
        return f" of {first.co_filename}"
    return f" {ascii(first)[:60]}" if isinstance(first, str | bytes | int) else ""
