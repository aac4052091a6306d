"""The clock of `benchmarks.areal`: times by hand."""

from __future__ import annotations

import pytest

from benchmarks.areal import in_order, streamed


def test_equal_durations_by_hand():
    """Ten steps of one group: 10 units to sample and 10 to update. In order: 200. One step ahead: 110. A larger staleness gains nothing."""
    durations = [10.0] * 10
    assert in_order(durations, 1, 10.0) == 200
    assert [streamed(durations, 1, 10.0, staleness=s, workers=1) for s in (0, 1, 2)] == [200, 110, 110]


def test_a_long_answer_delays_only_its_own_worker():
    """Two workers, two groups per step, updates of 1 unit. In order, each step lasts as long as its longest group: 100 + 1, then three times 1 + 1.

    With workers that stream, the first three steps are trained after 7 units. The last step needs the long group, which is sampled again if it is too old.
    """
    durations = [100.0, *[1.0] * 7]
    assert in_order(durations, 2, 1.0) == 107
    assert [streamed(durations, 2, 1.0, staleness=s, workers=2) for s in (0, 1, 4)] == [107, 201, 101]


def test_without_staleness_the_steps_are_in_order():
    durations = [3.0, 9.0, 4.0, 4.0, 7.0, 1.0]
    assert streamed(durations, 2, 2.5, staleness=0, workers=2) == pytest.approx(in_order(durations, 2, 2.5))
