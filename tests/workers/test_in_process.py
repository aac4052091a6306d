import re
import signal
import threading
import time

import pytest

from gradus.types import NOT_APPLICABLE, Failed, FailureKind
from gradus.workers.call_queue import Limits, overtime
from gradus.workers.in_process import one_by_one, within

pytestmark = pytest.mark.alone

LATE = Failed(overtime(0.2), FailureKind.TIMEOUT)


def spins():
    while True:
        pass


def catches():
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def backtracks():
    return float(bool(re.match(r"(a+)+$", "a" * 60 + "b")))


def multiplies():
    return float(3 ** (10**9) % 7)


@pytest.mark.parametrize("call", [spins, catches, backtracks, multiplies], ids=lambda call: call.__name__)
def test_a_call_that_hangs_is_interrupted(call):
    assert within(0.2, call) == LATE


def test_what_catches_its_interruption_is_interrupted_again():
    def stubborn():
        try:
            spins()
        except BaseException:
            spins()

    assert within(0.2, stubborn) == LATE


def test_what_a_call_gives_or_raises_passes_and_nothing_is_left_behind():
    before = signal.getsignal(signal.SIGALRM)
    assert within(60.0, lambda: NOT_APPLICABLE) is NOT_APPLICABLE
    with pytest.raises(KeyboardInterrupt):
        within(60.0, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert within(0.2, spins) == LATE
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_in_another_thread_it_is_called_as_it_is():
    found = []
    thread = threading.Thread(target=lambda: found.append(within(60.0, lambda: 1.0)))
    thread.start()
    thread.join()
    assert found == [1.0]


def test_retries_and_an_end_where_nothing_answers():
    asked = []

    def hangs():
        asked.append("hangs")
        spins()

    late = Failed(f"{overtime(0.01)} (2 attempts)", FailureKind.TIMEOUT)
    assert one_by_one([lambda: 1.0, hangs, lambda: 0.5], Limits(0.3, retries=1)) == [
        1.0,
        Failed(f"{overtime(0.3)} (2 attempts)", FailureKind.TIMEOUT),
        0.5,
    ]
    asked.clear()
    found = one_by_one([hangs] * 30, Limits(0.01, retries=1))
    assert found[:8] == [late] * 8
    assert found[8:] == [Failed(f"was not asked, because each of the calls before it {overtime(0.01)}", FailureKind.TIMEOUT)] * 22
    assert len(asked) == 16
    assert one_by_one([], Limits()) == []


def test_the_call_that_is_next_is_told():
    told = []
    one_by_one([lambda: 1.0, lambda: Failed("no"), lambda: 0.0], Limits(), told.append)
    assert told == [0, 1, 2]
