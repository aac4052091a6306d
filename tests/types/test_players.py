"""Relations between players' models."""

from __future__ import annotations

import pytest

from gradus.types import UserError
from gradus.types.players import MovingAverage, Noisy


def test_the_decay_of_an_average_is_constant_or_rises_to_its_value():
    assert [MovingAverage(decay=0.9).decay_at(n) for n in (1, 50)] == [0.9, 0.9]
    assert [MovingAverage(decay=0.3, rise=0.125).decay_at(n) for n in (1, 2, 3, 99)] == [0.125, 0.25, 0.3, 0.3]


def test_noise_falls_in_equal_stages():
    ten = [Noisy().sigma_at(step, 10) for step in range(11)]
    assert ten[:2] == [0.0, 0.01]
    assert ten == pytest.approx([0.0, *(0.01 * 0.01 ** (n / 8) for n in range(9)), 0.0001])  # after the last step the last stage goes on
    assert ten[5] == pytest.approx(0.001)
    # 25 steps in 10 stages of 2.5 steps: the second stage begins at step 3, the third at step 5
    assert [Noisy().sigma_at(step, 25) for step in (2, 3, 4)] == [0.0, 0.01, 0.01]
    assert Noisy().sigma_at(5, 25) == pytest.approx(0.01 * 0.01 ** (1 / 8))


def test_noise_in_two_stages_without_noise_and_in_short_runs():
    assert [Noisy(stages=2).sigma_at(step, 4) for step in range(4)] == [0.0, 0.0, 0.01, 0.01]
    assert {Noisy(sigma_start=0.0).sigma_at(step, 20) for step in range(20)} == {0.0}
    assert [Noisy().sigma_at(step, 1) for step in (0, 1)] == [0.0, 0.0001]
    for wrong in ({"stages": 1}, {"sigma_start": -0.1}, {"sigma_end": float("inf")}):
        with pytest.raises(UserError, match=f"Noisy.{next(iter(wrong))}"):
            Noisy(**wrong)
