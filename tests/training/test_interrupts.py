"""When a run stops before its last step: durations, the clock at boundaries, signals that wait or cut, handlers that are left alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from gradus.lab.folder import RunFolder
from gradus.papers.bases.reinforce import reinforce
from gradus.testing.methods import toy_run
from gradus.training.interrupts import SIGNALS, Cut, Stop, seconds_of
from gradus.training.launch import go
from gradus.types import UserError

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
def nothing_is_ignored():
    """A shell's background job, or nohup, hands on signals that are ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("8h", 28800), ("1h30m", 5400), ("2d", 172800), ("1d2h3m4s", 93784), ("0.5h", 1800), ("1.5s", 1.5)],
)
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "8", "8 hours", "h", "30m8h", "0s", "-1h", "1h 30m", "8H"])
def test_what_is_no_duration_is_told(text):
    with pytest.raises(UserError, match=r'^--until is "' + text + r'"; write a duration above zero, such as 90s, 30m'):
        seconds_of(text)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_run_with_time_stops_where_the_longest_step_so_far_would_not_fit():
    clock = Clock()
    stop = Stop("100s", clock)  # 5 seconds, a twentieth, are kept for saving
    stopped = []
    for seconds in (20, 10, 25, 10, 5, 10):
        stopped.append(stop.boundary(last=False))
        clock.now += seconds
    # boundaries at 0, 20, 30, 55, 65, 70 of 95: the longest step took 25, and 70 + 1.1 x 25 = 97.5 while 65 + 27.5 = 92.5
    assert stopped == [False, False, False, False, False, True]
    assert (stop.asked, stop.code) == ("time", 3)


def test_the_last_boundary_needs_no_room_for_a_step():
    clock = Clock()
    stop = Stop("100s", clock)
    stop.boundary(last=False)
    clock.now += 60
    assert not stop.boundary(last=True)
    clock.now += 36
    assert stop.boundary(last=True)


def test_time_for_saving_is_twice_that_of_the_longest_save():
    clock = Clock()
    stop = Stop("100s", clock)
    with stop.saving():
        clock.now += 20
    clock.now += 39
    assert not stop.boundary(last=False)
    clock.now += 1  # 60 = 100 - 2 x 20; no step was seen yet
    assert stop.boundary(last=False)


def test_without_a_time_nothing_stops():
    clock = Clock()
    stop = Stop(clock=clock)
    for _ in range(3):
        assert not stop.boundary(last=False)
        clock.now += 1e9
    assert (stop.asked, stop.code) == (None, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_cuts_what_can_be_cut(number, code, capfd):
    stop = Stop()
    reached = []
    with pytest.raises(Cut), stop.listening():  # noqa: PT012
        signal.raise_signal(number)
        reached.append("after")
    assert reached == []
    assert (stop.asked, stop.code, stop.cut) == (number.name, code, True)
    said = f"\n{number.name}: saving; a second signal stops at once and keeps only the last checkpoint\n"
    assert capfd.readouterr().err == said


def test_a_signal_waits_for_what_must_be_finished(capfd):
    stop = Stop()
    with stop.listening():
        stop.hold()
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGINT) == signal.SIG_DFL  # a second one ends the process
        stop.release()
        assert stop.boundary(last=False)
    assert not stop.cut
    assert "SIGTERM: finishing work that cannot be interrupted, then saving" in capfd.readouterr().err


def test_a_signal_during_a_save_cuts_after_it():
    stop = Stop()
    done = []
    with pytest.raises(Cut), stop.listening(), stop.saving():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        done.append("saved")
    assert done == ["saved"]


def test_what_must_be_finished_is_not_begun_after_a_signal_that_somebody_swallowed():
    stop = Stop()
    stop.asked = "SIGTERM"  # the exception was raised where exceptions are only printed
    with pytest.raises(Cut):
        stop.hold()


def test_code_that_catches_everything_does_not_keep_the_step_going():
    stop = Stop()
    with pytest.raises(Cut), stop.listening():  # noqa: PT012
        with suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        stop.hold()
    assert stop.cut


def test_the_time_that_is_up_cuts_a_long_step():
    stop = Stop("0.4s")
    with pytest.raises(Cut), stop.listening():
        time.sleep(600)
    assert stop.asked == "time"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_time_that_is_up_leaves_a_signal_its_meaning(capfd):
    """Who is told to stop while it saves, for its time is up, finishes saving: the first signal is not a second one."""
    stop = Stop("0.2s")
    with stop.listening():
        with pytest.raises(Cut):
            time.sleep(60)
        assert signal.getsignal(signal.SIGTERM) == stop._heard
        signal.raise_signal(signal.SIGTERM)
    assert stop.asked == "time"


def test_handlers_of_others_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop().listening():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGHUP)  # nohup
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, ignored)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Stop("1h").listening():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_handlers_are_put_back_where_the_time_was_up_before():
    clock = Clock()
    stop = Stop("1s", clock)
    clock.now += 5
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(Cut), stop.listening():
        time.sleep(600)
    assert stop.asked == "time"
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_in_a_thread_nothing_is_heard():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def listen():
        with Stop("1h").listening():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_terminal_that_has_gone_takes_no_more_words():
    if not hasattr(os, "openpty"):
        pytest.skip("no pseudo-terminals here")
    ours, theirs = os.openpty()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        stop = Stop()
        try:
            with stop.listening():
                os.close(ours)
                signal.raise_signal(signal.SIGHUP)
        except Cut:
            os.write(1, b"still there\n")
            os._exit(stop.code)
        os._exit(1)
    os.close(theirs)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    os.close(ours)


def test_a_stop_before_the_loop_has_begun_saves_too(tmp_path):
    """The time may be up when a model is loaded."""
    run = toy_run(reinforce, steps=3)
    run.players["policy"].policy.save = lambda folder: None
    run.folder = RunFolder.create(tmp_path / "run", {}, {})
    clock = Clock()
    run.stop = Stop("1s", clock)
    clock.now += 5
    assert go(run).step == 0
    assert (run.stop.asked, run.saved) == ("time", 0)
    found, _ = run.folder.latest()
    assert found is not None
    assert found.step == 0


class Stubborn:
    """A study whose judge catches everything."""

    reward, target, patience = None, None, 0

    async def measure(self, run, recipe, world):
        with suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        return {"held_out/accuracy": 0.0}


def test_what_was_measured_when_somebody_caught_the_stop_is_no_result(tmp_path):
    run = toy_run(reinforce, steps=3)
    run.recipe = replace(run.recipe, study=Stubborn())
    run.players["policy"].policy.save = lambda folder: None
    run.folder = RunFolder.create(tmp_path / "run", {}, {})
    with pytest.raises(SystemExit):
        go(run)
    assert (run.saved, run.best, run.measured, run.stop.cut) == (0, {}, {}, True)
