"""Runs that are told to stop: they save first, end with a code that says why, and go on to the same bytes. A second signal ends them at once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from benchmarks.forked import Forked, Process
from tests.faults.training import same, steps_done, whole_up_to, words
from tests.workers.processes import gone, needs_proc, running

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def whole(forked: Forked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    home = tmp_path_factory.mktemp("whole")
    assert forked.start(words(home / "run"), home / "log").wait() == 0, (home / "log").read_text()
    return home / "run"


def until(there: Path, process: Process, log: Path) -> None:
    """Waits for a file that a process writes."""
    end = time.monotonic() + 300
    while not there.exists() and time.monotonic() < end:
        assert process.wait(0.01) is None, log.read_text()
    assert there.exists()


# in sampling; in the evaluation of a boundary; when the update has begun; within a save
PLACES = [
    ("gradus.policies.lm:LanguageModel.act", 4, "SIGTERM", "saving", 143),
    ("gradus.study.held_out:accuracy", 2, "SIGINT", "saving", 130),
    ("gradus.updates.minibatches:Minibatches.update", 3, "SIGTERM", "finishing", 143),
    ("gradus.lab.checkpoints:_commit", 1, "SIGHUP", "finishing", 129),
]


@pytest.mark.parametrize(("where", "call", "name", "does", "code"), PLACES, ids=[place.rpartition(":")[2] for place, *_ in PLACES])
def test_a_signal_anywhere_saves_the_boundary_and_the_run_goes_on_to_the_same_bytes(
    where: str, call: int, name: str, does: str, code: int, forked: Forked, whole: Path, tmp_path: Path
) -> None:
    run, log, mark = tmp_path / "run", tmp_path / "log", tmp_path / "mark"
    process = forked.start([where, str(call), str(mark), *words(run)], log, "tests.faults.training:waiting_in")
    until(mark, process, log)
    process.kill(signal.Signals[name])
    if does == "finishing":
        while "a second signal stops at once" not in log.read_text():
            assert process.wait(0.01) is None, log.read_text()
        mark.unlink()
    assert process.wait(300) == code, log.read_text()
    said = log.read_text()
    assert f"{name}: {does}" in said
    saved = whole_up_to(run)
    assert f"stopped; saved up to step {saved}; go on with: gradus resume {run}" in said
    assert steps_done(run) == saved  # nothing that was done is done again
    assert saved >= 2
    assert (run / "report.html").exists()
    assert forked.start(["resume", str(run)], log).wait() == 0, log.read_text()
    assert same(run, whole) == []


def test_a_second_signal_ends_it_at_once_and_harms_nothing(forked: Forked, whole: Path, tmp_path: Path) -> None:
    run, log, mark = tmp_path / "run", tmp_path / "log", tmp_path / "mark"
    place = ["gradus.lab.checkpoints:_commit", "1", str(mark)]  # in the middle of the second save
    process = forked.start([*place, *words(run)], log, "tests.faults.training:waiting_in")
    until(mark, process, log)
    process.kill(signal.SIGTERM)
    while "a second signal stops at once" not in log.read_text():
        assert process.wait(0.01) is None
    process.kill(signal.SIGTERM)  # else it would be ten minutes until the save is done
    assert process.wait(300) == -signal.SIGTERM
    assert whole_up_to(run) == 2
    assert forked.start(["resume", str(run)], log).wait() == 0, log.read_text()
    assert same(run, whole) == []


def beside(process: Process) -> list[str]:
    """The processes that lend their hands to one that trains."""
    children = running(lambda stat: stat[1] == str(process.pid))
    return [pid for pid in children if b"gradus.systems.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@needs_proc
@pytest.mark.parametrize("twice", [False, True], ids=["once, to both, as from a terminal", "twice, to the leading one"])
def test_two_processes_that_train_together_end_together_and_go_on_to_the_same_bytes(
    twice: bool, forked: Forked, whole: Path, tmp_path: Path
) -> None:
    run, log, mark = tmp_path / "run", tmp_path / "log", tmp_path / "mark"
    given = ["gradus.updates.minibatches:Minibatches.update", "3", str(mark), *words(run), "--processes", "2"]
    process = forked.start(given, log, "tests.faults.training:waiting_in")
    until(mark, process, log)
    others = beside(process)
    assert len(others) == 1
    for pid in (process.pid, *(map(int, others) if not twice else ())):
        os.kill(pid, signal.SIGINT)
    while "a second signal stops at once" not in log.read_text():
        assert process.wait(0.01) is None, log.read_text()
    if twice:
        process.kill(signal.SIGINT)
    else:
        mark.unlink()
    assert process.wait(300) == (-signal.SIGINT if twice else 130), log.read_text()
    assert gone(lambda stat: stat[0] in others)
    assert whole_up_to(run) == (2 if twice else 4)
    assert twice or steps_done(run) == 4
    assert forked.start(["resume", str(run)], log).wait() == 0, log.read_text()
    assert same(run, whole) == []


def test_a_run_whose_time_is_up_saves_and_says_so_with_its_own_code(forked: Forked, whole: Path, tmp_path: Path) -> None:
    run, log, mark = tmp_path / "run", tmp_path / "log", tmp_path / "mark"
    place = ["gradus.policies.lm:LanguageModel.act", "4", str(mark)]  # a step that would take ten minutes
    process = forked.start([*place, *words(run), "--until", "3s"], log, "tests.faults.training:waiting_in")
    assert process.wait(300) == 3, log.read_text()
    saved = whole_up_to(run)
    little = "" if saved else "this time was too short for one step, so give more: "
    assert f"the time is up; {little}saved up to step {saved}; " in log.read_text()
    assert steps_done(run) == saved
    assert forked.start(["resume", str(run), "--until", "1h"], log).wait() == 0, log.read_text()
    assert same(run, whole) == []


def test_a_date_that_jumps_changes_nothing(forked: Forked, whole: Path, tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "log"
    assert forked.start([*words(run), "--until", "1h"], log, "tests.faults.training:jumping_clock").wait() == 0, log.read_text()
    assert same(run, whole) == []
