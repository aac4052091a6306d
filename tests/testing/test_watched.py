"""Watched calls: what each way to go wrong is told as, and that the next call is made all the same."""

from __future__ import annotations

import ast
import os
import sys
import time

import pytest

from gradus.testing.watched import LOST, Limits, watch
from gradus.types import UserError

pytestmark = pytest.mark.alone

QUICK = Limits(seconds=0.3)


def calls(*functions, limits=QUICK):
    """What became of calls of these, one after the other."""
    return list(watch(lambda function: function(), lambda i: functions[i], len(functions), limits))


def busy():
    while True:
        pass


def test_values_come_back_in_order():
    found = calls(lambda: 1, lambda: [2.5, None], lambda: "\ud800")
    assert [(c.index, c.value, c.complaint) for c in found] == [(0, 1, ""), (1, [2.5, None], ""), (2, "\ud800", "")]


def test_the_caller_is_not_touched():
    here: list[int] = []
    assert calls(lambda: here.append(1) or len(here))[0].value == 1
    assert here == []
    assert calls(os.getpid)[0].value != os.getpid()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: 1 // 0, "raised ZeroDivisionError"),
        (lambda: sys.exit(0), "raised SystemExit"),
        (lambda: "a" * (1 << 36), "raised MemoryError"),
        (busy, "took more than 0.1 s of processor time"),
        (lambda: os._exit(7), "ended its process with code 7"),
        (lambda: os.kill(os.getpid(), 11), "ended its process by signal SIGSEGV"),
        (lambda: eval("1+1"), "ran code (exec"),
        (lambda: exec("x = 1"), "ran code (exec"),
        (lambda: os.system("true"), "started or stopped a process (os.system b'true')"),
        (lambda: open(os.devnull).close(), f"touched a file (open '{os.devnull}')"),
        (lambda: os.listdir("/"), "touched a file (os.listdir '/')"),
        (lambda: __import__("socket").getaddrinfo("127.0.0.1", 1) and None, "reached for the network (socket.getaddrinfo '127.0.0.1')"),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_call_is_made(function, told):
    # seconds: a twentieth of what it may take by the clock, of which a busy machine leaves little to each
    found = calls(lambda: 0, function, lambda: 2, limits=Limits(seconds=0.1 if function is busy else 5.0, memory=256))
    assert told in found[1].complaint
    assert [(c.value, c.complaint) for c in (found[0], found[2])] == [(0, ""), (2, "")]


def test_a_call_that_takes_too_long_once_is_made_again(tmp_path):
    """A machine that stands still for a moment is no fault of the call."""
    mark = tmp_path / "mark"

    def slow_at_first():
        if not mark.exists():
            mark.touch()
            busy()
        return 1

    assert calls(slow_at_first, limits=Limits(seconds=0.1, allow=frozenset({"file"})))[0].complaint == ""


def test_a_call_that_waits_for_ever_is_ended_by_the_clock():
    found = calls(lambda: time.sleep(100), lambda: 2, limits=Limits(seconds=0.05))
    assert found[0].error == "gave no answer within 2 s"
    assert found[1].value == 2


def test_what_is_no_harm_is_not_told():
    def lazily():
        sys.modules.pop("colorsys", None)
        import colorsys  # reads its file, and runs its code

        return colorsys.__name__

    assert [c.complaint for c in calls(lazily, lambda: ast.literal_eval("[1]"), lambda: os.fstat(1)[0])] == ["", "", ""]


def test_what_is_allowed_is_not_told():
    found = calls(lambda: os.system("true"), lambda: eval("2"), limits=Limits(seconds=5, allow=frozenset({"process"})))
    assert found[0].complaint == ""
    assert "ran code" in found[1].complaint


def test_after_a_few_lost_processes_the_rest_is_given_up():
    found = calls(*[lambda: os._exit(1)] * (LOST + 3))
    assert len(found) == LOST
    assert found[-1].error == "ended its process with code 1; the rest was not tried"


def test_after_a_long_wait_the_rest_is_given_up(monkeypatch):
    monkeypatch.setattr("gradus.testing.watched.WASTED", 0.2)
    (found,) = calls(*[lambda: time.sleep(100)] * 3, limits=Limits(seconds=0.05, wall=0.4))
    assert (found.error, found.late, found.final) == ("gave no answer within 0.4 s; the rest was not tried", True, True)


def test_plain_calls_may_take_longer_and_twice_that_by_the_clock():
    free = Limits(seconds=1, memory=7).freely(10)
    assert (free.seconds, free.clock, free.memory) == (10, 20, 7)
    assert Limits(seconds=1, allow=frozenset({"process"})).freely(10).clock == 60
    assert Limits(seconds=30).freely(10).clock == 300


def test_seconds_are_those_of_the_processor():
    def work():
        began = time.process_time()
        while time.process_time() - began < 0.1:
            pass

    assert 0.08 < calls(work, limits=Limits(seconds=5))[0].seconds < 2
    assert calls(lambda: time.sleep(0.3), limits=Limits(seconds=5))[0].seconds < 0.2


@pytest.mark.parametrize(
    ("wrong", "told"), [({"seconds": 0}, "`seconds` is 0"), ({"memory": -1}, "`memory` is -1"), ({"allow": {"files"}}, "did you mean file?")]
)
def test_limits_are_checked(wrong, told):
    with pytest.raises(UserError) as error:
        Limits(**wrong)
    assert told in str(error.value)
