"""Measures of a learned judge by hand: calibration, best of n, and the curve of over-optimisation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gradus.study.judged import (
    best_of,
    best_of_table,
    calibration_error,
    curve,
    divergence_of_best,
    over_optimisation_table,
    pair_chances,
    peak_and_fall,
)


def test_calibration_by_hand():
    # bin [.7, .8): chances .75 three times, two of three right; bin [.9, 1]: 1 right. (3 |2/3 - .75| + 1 |1 - 1|) / 4
    assert calibration_error([0.75, 0.75, 0.75, 1.0], [1, 1, 0, 1]) == pytest.approx(3 * (0.75 - 2 / 3) / 4)
    assert calibration_error([], []) is None
    assert calibration_error([0.5] * 4, [1, 0, 1, 0]) == 0


def test_both_orders_of_a_pair_and_no_pair_of_equal_rewards():
    chances, outcomes = pair_chances(np.array([math.log(3), 0.0, 5.0]), np.array([1.0, 0.0, 1.0]))
    assert chances == pytest.approx([0.75, 0.25, 1 / (1 + math.exp(5)), 1 / (1 + math.exp(-5))])
    assert outcomes == [1, 0, 0, 1]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_best_of_n_is_the_mean_over_all_subsets(n):
    scores, values = [0.3, 2.0, -1.0, 2.0], [1.0, 0.0, 0.5, 0.25]
    each = [values[max(s, key=lambda i: (scores[i], -i))] for s in itertools.combinations(range(4), n)]
    assert best_of(scores, values, n) == pytest.approx(np.mean(each))
    with pytest.raises(ValueError, match="`n` is 5"):
        best_of(scores, values, 5)


def test_the_table_of_best_of_n():
    found = best_of_table([(np.array([1.0, 0.0]), np.array([0.0, 1.0])), (np.array([0.0, 4.0, 2.0]), np.array([0.0, 1.0, 0.0]))])
    assert [row[0] for row in found.rows] == [1, 2]
    assert found.rows[0] == pytest.approx((1, 0, (0.5 + 2) / 2, (0.5 + 1 / 3) / 2))
    assert found.rows[1] == pytest.approx((2, math.log(2) - 0.5, (1 + 10 / 3) / 2, (0 + 2 / 3) / 2))
    assert divergence_of_best(1) == 0


ROWS = [
    {"step": 0, "reward": -1.0, "kl": 0.0, "held_out/accuracy": 0.4},
    {"step": 1, "reward": 0.5, "kl": 0.1},
    {"step": 2, "reward": 1.0, "kl": 0.3, "held_out/accuracy": 0.9},
    {"step": 4, "reward": 2.0, "kl": None, "held_out/accuracy": 0.25},
]


def test_the_curve_has_the_steps_with_both_numbers():
    points = curve(ROWS)
    assert [(p.step, p.divergence, p.proxy, p.gold) for p in points] == [(0, 0.0, -1.0, 0.4), (2, 0.3, 1.0, 0.9), (4, None, 2.0, 0.25)]
    peak, fall = peak_and_fall(points)
    assert (peak.step, fall) == (2, pytest.approx(0.65))
    assert "peak 0.900 at step 2 and falls by 0.650 until step 4" in over_optimisation_table(ROWS).title
    assert over_optimisation_table(ROWS[:2]) is None
