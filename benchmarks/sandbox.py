"""The sandbox with hostile programs, with honest programs, and its speed: `python -m benchmarks.sandbox`.

Every hostile program runs beside resources that it must not reach: a file and a folder that everyone may write, a process, listening
sockets, a secret in the environment, processes left behind. The program's own output can prove an escape, never its absence.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import secrets
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.sandbox_forms import Hostile
from benchmarks.sandbox_programs import benign, hostile
from gradus.runtime.cores import usable_cores
from gradus.sandbox import End, Limits, Ran, Sandbox, SandboxError, bubblewrap, missing, process, stop

SECRET = "GRADUS_SANDBOX_SECRET"
INSIDE = process._inside().partition("\n")[0]  # begins the source that a sandbox's interpreter gets with -c
SLACK = 30.0  # seconds beyond its limit within which a run must be ended, on a busy machine
LIMITS = Limits(wall=3.0, memory=192 << 20, output=1 << 20, disk=32 << 20, processes=16)


class Scene:
    """Resources that a hostile program must not reach, and the check whether it did."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.canary = folder, folder / "canary"
        self.canary.write_text("canary\n")
        folder.chmod(0o777)  # only isolation keeps a program out
        self.canary.chmod(0o666)
        self.process = subprocess.Popen(["sleep", "86400"], start_new_session=True)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.path = str(folder / "socket")
        self.local, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.local.bind(self.path)
        os.chmod(self.path, 0o777)
        self.abstract.bind(f"\0gradus-canary-{self.port}")
        for listening in (self.local, self.abstract):
            listening.listen()
        for one in (self.tcp, self.udp, self.local, self.abstract):
            one.setblocking(False)
        self.secret, self.before = secrets.token_hex(16), os.environ.get(SECRET)
        os.environ[SECRET] = self.secret
        self.found = self._state()
        self.users: set[int] = set()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for one in (self.tcp, self.udp, self.local, self.abstract):
            one.close()
        os.environ.pop(SECRET, None)
        if self.before is not None:
            os.environ[SECRET] = self.before

    def told(self, source: str) -> str:
        """The program's source with the names of this scene's resources filled in."""
        places = {
            "CANARY": self.canary,
            "FOLDER": self.folder,
            "PID": self.process.pid,
            "PORT": self.port,
            "UNIX": self.path,
            "SECRET": SECRET,
        }
        for word, place in places.items():
            source = source.replace(f"@{word}@", str(place))
        return source

    def harm(self) -> list[str]:
        """Texts about the resources that were reached."""
        wrong = []
        if self._state() != self.found:
            wrong.append("the canary or its folder has changed")
        status = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] if self.process.poll() is None else "dead"
        if status not in "SR":
            wrong.append(f"the canary's process is in state {status}")
        for name in ("tcp", "udp", "local", "abstract"):
            with contextlib.suppress(BlockingIOError):
                one = getattr(self, name)
                _ = one.recvfrom(10) if name == "udp" else one.accept()
                wrong.append(f"something came through the socket {name}")
        left = processes_of(self.users)
        if left:
            wrong.append(f"processes are left: {left[:5]}")
        return wrong

    def _state(self) -> tuple[object, ...]:
        about = self.canary.stat() if self.canary.exists() else None
        inside = sorted(p.name for p in self.folder.iterdir())
        return inside, self.canary.read_text(), about and (about.st_mode, about.st_uid, about.st_mtime_ns, about.st_ino, about.st_nlink)


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """A scene that is removed at the end; until then, the users of the sandboxes are recorded."""
    real: Callable[[], int] = bubblewrap.unused_user
    with tempfile.TemporaryDirectory(prefix="gradus-scene-") as folder:
        made = Scene(Path(folder))

        def noted() -> int:
            made.users.add(user := real())
            return user

        bubblewrap.unused_user = noted
        try:
            yield made
        finally:
            bubblewrap.unused_user = real
            made.close()


def processes_of(users: set[int]) -> list[str]:
    """Processes of these users; if this process is not root, its own processes that are a sandbox's interpreter."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            owner = int((entry / "status").read_text().partition("\nUid:")[2].split()[0])
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            ours = owner in users if bubblewrap.as_root() else owner == os.getuid() and INSIDE in words
            if ours and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(f"{entry.name}: {words[:60]}")
    return found


def attacked(program: Hostile, beside: Scene, limits: Limits = LIMITS) -> tuple[Ran | None, list[str]]:
    """The run of one hostile program in its sandbox, and texts about escapes; none if the sandbox holds."""
    sandbox, begun = Sandbox(limits=limits, warm=0), time.monotonic()
    try:
        if program.before:
            first = sandbox.run(beside.told(program.before))
            if first.ended is not End.OK and "SemLock" not in program.before:
                return first, [f"the run before it failed: {first.stderr[-200:]}"]
        ran = sandbox.run(beside.told(program.source))
    except SandboxError as error:
        return None, [f"the sandbox failed: {error}"]
    wrong = beside.harm()
    said = ran.stdout + ran.stderr
    if "ESCAPED" in said:
        wrong.append(f"it says that it got out: {said[-200:]}")
    if beside.secret in said:
        wrong.append("it knows the secret")
    if program.speaks and "held" not in ran.stdout:
        wrong.append(f"it did not come to its end ({ran.ended.value}): {said[-300:]}")
    if ran.ended not in program.ends:
        wrong.append(f"it ended by {ran.ended.value}")
    if len(ran.stdout.encode()) + len(ran.stderr.encode()) > 3 * limits.output:  # a byte that is not text takes three
        wrong.append("its output exceeds the limit")
    if ran.seconds > limits.wall + SLACK:
        wrong.append(f"it ran for {ran.seconds:.1f} seconds")
    if time.monotonic() - begun > 2 * (limits.wall + SLACK) + 60:
        wrong.append("it held up the run")
    return ran, wrong


def main() -> None:
    """Prints the three tables. Exit code 1 if a program got out, or if an honest program failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--honest", type=int, default=1000, help="number of programs that must all give the right output")
    parser.add_argument("--timed", type=int, default=200, help="number of programs for the measurement of speed, warm and cold")
    parser.add_argument("--only", default="", help="a part of the names of hostile programs")
    options = parser.parse_args()
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    user = "root" if bubblewrap.as_root() else f"user {os.getuid()}"
    print(f"{version} as {user}, Python {platform.python_version()}, Linux {platform.release()}, {usable_cores()} cores")
    wrong = against_hostile(options.only) + with_honest(options.honest)
    for warm in (True, False):
        print(f"{'waiting interpreters' if warm else 'started for each   '}  {rate(options.timed, warm):6.1f} programs per second")
    raise SystemExit(1 if wrong else 0)


def against_hostile(only: str) -> int:
    """Prints one line per kind: number of programs, complaints, ends. Returns the number of complaints."""
    count, bad, ends = Counter[str](), Counter[str](), dict[str, Counter[str]]()
    begun = time.monotonic()
    with scene() as beside:
        for program in hostile():
            if only not in f"{program.kind}: {program.name}":
                continue
            ran, wrong = attacked(program, beside)
            count[program.kind] += 1
            ends.setdefault(program.kind, Counter())[ran.ended.value if ran is not None else "failed"] += 1
            for text in wrong:
                bad[program.kind] += 1
                print(f"  {program.kind}: {program.name}: {text}")
    for kind, number in count.items():
        print(
            f"{kind:<16} {number:>3} programs, {bad[kind]} complaints; ended by {', '.join(f'{k} {n}' for k, n in ends[kind].most_common())}"
        )
    print(f"hostile          {count.total():>3} programs, {bad.total()} complaints, {time.monotonic() - begun:.0f} s")
    return bad.total()


def with_honest(count: int) -> int:
    """Runs `count` honest programs. Returns the number with a wrong output."""
    programs, begun = benign(count), time.monotonic()
    got = Sandbox(limits=Limits(wall=60.0)).run_all([p for p, _, _ in programs], stdins=[read for _, read, _ in programs])
    right = sum(ran.ok and ran.stdout == expected for ran, (_, _, expected) in zip(got, programs, strict=True))
    print(f"honest          {count:>4} programs, {right} right, {time.monotonic() - begun:.0f} s")
    return count - right


def rate(count: int, warm: bool) -> float:
    """Programs per second, with one program per core at a time."""
    sandbox = Sandbox(warm=None if warm else 0)
    sandbox.run_all(["1"] * 4)
    begun = time.monotonic()
    got = sandbox.run_all([f"print({i} + 1)" for i in range(count)])
    seconds = time.monotonic() - begun
    stop()
    if [ran.stdout for ran in got] != [f"{i + 1}\n" for i in range(count)]:
        raise SystemExit("a program gave the wrong output")
    return count / seconds


if __name__ == "__main__":
    main()
