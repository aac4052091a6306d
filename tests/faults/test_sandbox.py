"""Hostile programs in the sandbox: none escapes, harms what runs beside it, or outlives its limit. `python -m benchmarks.sandbox` runs all of them.

Every fourth of each kind is run here, and whatever is told apart by hand below.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.sandbox import SECRET, Scene, attacked, processes_of, scene
from benchmarks.sandbox_forms import Hostile
from benchmarks.sandbox_programs import KINDS, benign, hostile
from gradus.sandbox import End, Isolation, Limits, Sandbox, run
from tests.sandbox.isolated import isolated

pytestmark = pytest.mark.alone

SHORT = Limits(wall=1.5, memory=192 << 20, output=1 << 20, disk=32 << 20, processes=16)
EACH = 4


@pytest.fixture(scope="module")
def beside() -> Iterator[Scene]:
    with scene() as made:
        yield made


def shares() -> list[Hostile]:
    """Every fourth of each kind; those that end by their limit are a third of them at most, for the sake of time."""
    found: list[Hostile] = []
    for make in KINDS.values():
        programs = list(make())
        found += [p for p in programs if p.speaks][::EACH] + [p for p in programs if not p.speaks][:: 2 * EACH]
    return found


@isolated
@pytest.mark.parametrize("program", shares(), ids=lambda p: f"{p.kind}: {p.name}")
def test_a_hostile_program_is_held(program: Hostile, beside: Scene) -> None:
    ran, wrong = attacked(program, beside, SHORT)
    assert not wrong, ran


def test_there_are_enough_of_each_kind() -> None:
    counts = Counter(p.kind for p in hostile())
    assert set(counts) == set(KINDS)
    assert len(counts) == 13
    assert min(counts.values()) >= 12
    assert counts.total() >= 200
    assert len({(p.kind, p.name) for p in hostile()}) == counts.total()
    assert {p.kind for p in shares()} == set(KINDS)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("over the canary", "the canary or its folder has changed"),
        ("beside the canary", "the canary or its folder has changed"),
        ("tcp to this machine", "something came through the socket tcp"),
        ("udp", "something came through the socket udp"),
        ("a socket in the file system", "something came through the socket local"),
        ("to an abstract address, through a pair", "it says that it got out"),
        ("kill the canary", "the canary's process is in state dead"),
        ("stop the canary", "the canary's process is in state T"),
        ("list @FOLDER@", "it says that it got out"),
        ("read /etc/passwd", "it says that it got out"),
    ],
)
def test_without_isolation_the_same_programs_get_out(name: str, complaint: str) -> None:
    """The proof that a complaint is made where there is something to complain of. Limits alone hold none of these."""
    (program,) = [p for p in hostile() if p.name == name]
    with scene() as beside:
        if name.startswith("to an abstract"):  # a stream does not take what is no stream: one more socket, which does
            import socket

            other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            other.bind(f"\0gradus-canary-datagram-{beside.port}")
            source = program.source.replace("gradus-canary-", "gradus-canary-datagram-")
            program = Hostile(program.kind, program.name, source)
        ran = Sandbox(Isolation.RLIMITS, SHORT, warm=0).run(beside.told(program.source))
        reached, end = ["it says that it got out"] if "ESCAPED" in ran.stdout else [], time.monotonic() + 60
        while complaint not in reached and time.monotonic() < end:  # a signal takes its time
            reached += beside.harm()
            time.sleep(0.02)
    assert complaint in reached, (ran, reached)


@isolated
def test_a_secret_of_this_process_is_not_in_a_programs_variables(beside: Scene) -> None:
    assert os.environ[SECRET] == beside.secret
    ran = run("import os\nprint(sorted(os.environ))", limits=SHORT)
    threads = ["MALLOC_ARENA_MAX", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    assert ran.stdout == f"{['HOME', 'LANG', 'LOGNAME', *threads, 'PATH', 'PWD', 'PYTHONHASHSEED', 'TMPDIR', 'USER']}\n"


@isolated
def test_a_program_is_nobody_with_no_rights_and_no_way_to_get_some(beside: Scene) -> None:
    """Also where this process is root: the user inside is one that nobody has, and every capability is gone."""
    source = """
import ctypes, os
libc = ctypes.CDLL(None)
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
failed = libc.syscall(125 if os.uname().machine == 'x86_64' else 90, header, sets)  # capget: effective, permitted, inheritable; twice
print(failed, [sets[i] for i in (0, 1, 3, 4)], os.getuid(), os.getgid(), os.getgroups())
"""
    ran = run(source, limits=SHORT)
    (user,) = {int(ran.stdout.split()[5])} & (beside.users if os.geteuid() == 0 else {65534})
    assert ran.stdout == f"0 [0, 0, 0, 0] {user} {user} {[] if os.geteuid() == 0 else [65534]}\n"
    if os.geteuid() == 0:
        assert user >= 0x7000_0000


@isolated
def test_the_limit_on_processes_holds_for_one_program_alone() -> None:
    """Two at a time have a limit each; and it is the limit, to the process."""
    source = """
import os, time
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        children += 1
except OSError:
    print(children)
time.sleep(0.3)
"""
    got = Sandbox(limits=Limits(wall=20, processes=7), warm=0).run_all([source, source])
    assert [ran.stdout for ran in got] == ["6\n", "6\n"]  # and itself


@isolated
def test_nothing_is_left_of_those_that_were_stopped(beside: Scene) -> None:
    for source in (
        "import os, time\nos.fork(); os.fork(); os.setsid()\ntime.sleep(600)",
        "import os\nos.fork()\nwhile True: print('x' * 9999)",
    ):
        ran = run(source, limits=SHORT)
        assert ran.ended in (End.TIMEOUT, End.OUTPUT)
        assert processes_of(beside.users) == []


@isolated
def test_honest_programs_come_out_right() -> None:
    programs = benign(40)
    got = Sandbox(limits=Limits(wall=60)).run_all([p for p, _, _ in programs], stdins=[read for _, read, _ in programs])
    assert [ran.stdout for ran in got] == [expected for _, _, expected in programs]
    assert all(ran.ok for ran in got)


@isolated
def test_a_folder_that_a_program_may_read_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("as it was")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o777 if folder == tmp_path else 0o755)
    sandbox = Sandbox(limits=SHORT, readable=(str(tmp_path),), warm=0)
    for lines in ("open('kept', 'w')", "open('new', 'w')", "os.unlink('kept')", "os.chmod('kept', 0o777)", "os.rename('kept', 'b')"):
        ran = sandbox.run(f"import os\nos.chdir({str(tmp_path)!r})\ntry:\n    {lines}\nexcept OSError as error: print('held')")
        assert ran.stdout == "held\n", ran
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "as it was"
