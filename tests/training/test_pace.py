"""The measured speeds of workers: by hand, a worker that never ends, and shares of the work under a clock that the test turns."""

from __future__ import annotations

import pytest

from gradus.training.admission import dealt
from gradus.training.pace import Pace


def test_speeds_by_hand():
    pace = Pace(3)
    assert pace.expected() == [1.0, 1.0, 1.0]
    for worker, tokens, seconds in ((0, 30, 0.5), (0, 10, 0.5), (1, 20, 2.0)):
        pace.begin(worker, 100.0)
        pace.end(worker, tokens, 100.0 + seconds)
    # 20 tokens per group; 40 and 10 tokens per second; the third worker counts as the fastest
    assert pace.expected() == [0.5, 2.0, 0.5]
    pace.begin(1, 50.0)
    assert pace.free_in(51.0) == [0.0, 1.0, 0.0]
    assert pace.free_in(52.0) == [0.0, 0.0, 0.0]
    assert pace.free_in(60.0) == [0.0, 8.0, 0.0]  # 8 seconds too late


def test_a_worker_that_never_ends_holds_no_request_back():
    pace = Pace(2)
    for worker, seconds in ((0, 1.0), (1, 4.0)):
        pace.begin(worker, 0.0)
        pace.end(worker, 10, seconds)
    pace.begin(0, 10.0)
    assert dealt(1, pace.free_in(10.5), pace.expected()) == [0]
    assert dealt(1, pace.free_in(15.0), pace.expected()) == [1]  # 4 seconds too late: 4 + 1 against 4


def shares(delays, count):
    """The requests that each worker samples if `count` requests wait, and the end of the last one. No speed is known at the start."""
    pace, now, free = Pace(len(delays)), 0.0, count
    ends, found = {}, [0] * len(delays)
    while free or ends:
        for worker in range(len(delays)):
            if worker not in ends and free and worker in dealt(free, pace.free_in(now), pace.expected()):
                pace.begin(worker, now)
                ends[worker], free = now + delays[worker], free - 1
        worker = min(ends, key=lambda w: ends[w])
        now = ends.pop(worker)
        found[worker] += 1
        pace.end(worker, 10, now)
    return found, now


def test_workers_of_unequal_speed_get_shares_in_proportion():
    found, _ = shares([1.0, 2.0, 4.0], 700)
    assert found == pytest.approx([400, 200, 100], rel=0.01)


def test_a_slow_worker_leaves_the_last_request_to_a_faster_one():
    # at 4 s all are idle again; 3 requests are left: the first worker needs 3 s for all of them, the third one 4 s for one
    found, end = shares([1.0, 2.0, 4.0], 10)
    assert found[2] == 1
    assert end == 6.0
