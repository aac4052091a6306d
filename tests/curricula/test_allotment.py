"""Division of the answers of a step: values by hand, the knapsack against brute force, sums and bounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.curricula.allotment import (
    ByRank,
    Knapsack,
    answers_needed,
    by_rank,
    difficulty_ranks,
    gain_of_one_more,
    knapsack,
    levelled,
    mixed_chance,
)
from gradus.types import UserError

NONE = np.zeros((0, 2))


def value(rate, count):
    return mixed_chance(rate, count) * rate * (1 - rate) ** 2


def visits(*shares, answers=8):
    """Right and wrong answers of problems with these shares of right answers; None: without an answer."""
    return np.array([(0, 0) if p is None else (p * answers, (1 - p) * answers) for p in shares], dtype=float).reshape(-1, 2)


def divided(*shares, group=8, part=None, answers=8):
    return (part or Knapsack()).divide(visits(*shares, answers=answers), group, NONE, 0).tolist()


def test_values_by_hand():
    # 1 - 2 (1/2)^8 = .9921875, times 1/8; 1 - .1^8 - .9^8 = .56953, times .081
    assert value(0.5, 8) == pytest.approx(0.12402, abs=5e-6)
    assert value(0.1, 8) == pytest.approx(0.04613, abs=5e-6)
    assert [mixed_chance(p, n) for p, n in ((0.0, 8), (1.0, 8), (0.5, 1), (0.5, 2))] == [0.0, 0.0, 0.0, 0.5]


def test_the_gain_is_the_difference_of_values():
    for rate in (0.1, 0.5, 0.9):
        for count in (2, 8, 20):
            assert gain_of_one_more(rate, count) == pytest.approx(value(rate, count + 1) - value(rate, count))
    assert gain_of_one_more(0.1, 8) == pytest.approx(0.00349, abs=5e-6)
    assert gain_of_one_more(0.5, 8) == pytest.approx(0.00049, abs=5e-6)


def test_the_example_by_hand():
    rates = np.array([0.5, 0.1, 0.9])
    out = knapsack(rates, np.array([2, 2, 2]), 18, 128)
    assert out.tolist() == [7, 15, 2]
    assert sum(value(p, n) for p, n in zip(rates, out, strict=True)) == pytest.approx(0.18899, abs=5e-6)
    assert sum(value(p, 8) for p in rates) == pytest.approx(0.17528, abs=5e-6)
    assert divided(0.5, 0.1, 0.9, answers=10) == [7, 15, 2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=3), st.integers(1, 3), st.integers(2, 8), st.integers(3, 8))
def test_no_other_division_has_a_larger_value(sixteenths, low, group, high):
    rates = np.array(sixteenths) / 16
    low, group = min(low, group), min(group, high)
    total = len(rates) * group
    low = min(low, high)
    out = knapsack(rates, np.full(len(rates), low), total - low * len(rates), high)
    assert out.sum() == total
    assert (out >= low).all()
    assert (out <= high).all()
    ours = sum(value(p, n) for p, n in zip(rates, out, strict=True))
    ways = (way for way in product(range(low, high + 1), repeat=len(rates)) if sum(way) == total)
    best = max(sum(value(p, n) for p, n in zip(rates, way, strict=True)) for way in ways)
    assert ours == pytest.approx(best, abs=1e-12)


def test_the_bound_holds_and_the_rest_is_not_given():
    assert knapsack(np.array([0.1, 0.5]), np.array([2, 2]), 20, 5).tolist() == [5, 5]
    assert knapsack(np.zeros(0), np.zeros(0, np.int64), 5, 8).tolist() == []


def test_how_many_answers_a_problem_needs():
    # ln .1 / ln .5 = 3.32, ln .1 / ln .75 = 8.004
    assert answers_needed(0.5, 0.9) == pytest.approx(3.3219, abs=1e-4)
    assert answers_needed(0.25, 0.9) == answers_needed(0.75, 0.9) == pytest.approx(8.0039, abs=1e-4)


def test_the_surplus_goes_to_the_unsolved_problems():
    # of 32 answers 8 are given at once; the others need 3 + 8 = 11 of the remaining 24, so 13 go to the problem with p = 0
    assert divided(0.5, 0.0, 1.0, 0.25) == [6, 15, 2, 9]
    # of 40 answers 10 are given at once; two problems with p = 0 share 30 - 11 = 19
    assert divided(0.5, 0.0, 1.0, 0.25, 0.0) == [6, 12, 2, 9, 11]
    # without such a problem it stays in the knapsack: the gain at (7, 14) is .00098 for .5 and .00063 for .25
    assert divided(0.5, 1.0, 0.25) == [8, 2, 14]


def test_new_problems_have_the_usual_number_and_solved_ones_the_least():
    assert divided(None, None, None) == [8, 8, 8]
    assert divided(None, 1.0, 0.5) == [8, 2, 14]
    assert divided(1.0, 1.0) == [8, 8]  # there is no better use
    assert divided(0.0, 0.0, 1.0) == [11, 11, 2]
    assert divided(0.0, None) == [8, 8]


def test_levels_are_filled_from_below():
    assert levelled(np.array([2, 2, 5]), 4).tolist() == [4, 4, 5]
    assert levelled(np.array([2, 3]), 100, 4).tolist() == [4, 4]
    assert levelled(np.zeros(0, np.int64), 3).tolist() == []


@given(st.lists(st.sampled_from([None, 0.0, 0.125, 0.5, 0.875, 1.0]), min_size=1, max_size=8), st.integers(1, 12), st.integers(1, 12), st.integers(12, 40))
def test_sums_and_bounds(shares, group, low, high):
    out = divided(*shares, group=group, part=Knapsack(low=low, high=high))
    assert sum(out) == group * len(shares)
    assert min(out) >= min(low, group)
    assert max(out) <= max(high, group * len(shares) if set(shares) <= {1.0, None} else high)


def test_a_smallest_number_above_the_largest_is_refused():
    with pytest.raises(UserError, match="set `low` to"):
        Knapsack(low=8, high=4)
    with pytest.raises(UserError, match="it must"):
        Knapsack(confidence=1.0)


def test_the_ranks_by_hand():
    known = visits(1.0, 0.75, 0.5, 0.25)
    assert difficulty_ranks(known, known).tolist() == [0, 0.25, 0.5, 0.75]
    assert difficulty_ranks(visits(0.25, None), known).tolist() == [0.75, 0]
    # of equal problems each has half of the others before it: of four 1/2 (3) / 4
    assert difficulty_ranks(visits(0.5, 0.5), visits(0.5, 0.5, 0.5, 0.5)).tolist() == [0.375, 0.375]
    assert difficulty_ranks(visits(None), NONE).tolist() == [0]
    assert difficulty_ranks(NONE, known).tolist() == []


def test_the_division_by_rank_by_hand():
    # 16 answers more than 4 x 4, weights 0, 1/6, 1/3, 1/2: 0, 2.67, 5.33, 8, rounded down; one is left, and the hardest problem is full
    assert by_rank(np.array([0, 0.25, 0.5, 0.75]), 32, 4, 12).tolist() == [4, 6, 10, 12]
    assert by_rank(np.zeros(3), 24, 8, 8).tolist() == [8, 8, 8]
    assert by_rank(np.zeros(3), 24, 4, 12).tolist() == [12, 8, 4]  # without a rank the earlier problem is the first
    assert by_rank(np.array([0.1, 0.9]), 16, 4, 10).tolist() == [6, 10]  # the share of 7.2 is cut, and the rest goes down
    assert by_rank(np.array([0.3, 0.6]), 16, 4, 12).tolist() == [6, 10]


def test_the_bounds_move_apart_pass_by_pass():
    counts = visits(1.0, 0.75, 0.5, 0.25)
    rule = ByRank(low=4, high=12, step=2)
    divisions = [rule.divide(counts, 8, counts, passes).tolist() for passes in range(4)]
    # after a pass 8 answers more than 4 x 6: 0, 1.33, 2.67, 4; 2 are left, the hardest has 10 already
    assert divisions == [[8, 8, 8, 8], [6, 7, 9, 10], [4, 6, 10, 12], [4, 6, 10, 12]]


@given(st.lists(st.sampled_from([None, 0.0, 0.125, 0.5, 0.875, 1.0]), min_size=1, max_size=8), st.integers(1, 12), st.integers(0, 5), st.integers(0, 4))
def test_sums_and_bounds_by_rank(shares, group, passes, step):
    rule, counts = ByRank(low=3, high=14, step=step), visits(*shares)
    out = rule.divide(counts, group, counts, passes)
    assert out.sum() == group * len(shares)
    assert out.min() >= max(group - passes * step, min(3, group))
    assert out.max() <= group + passes * step


def test_a_smallest_number_above_the_largest_is_refused_by_rank():
    with pytest.raises(UserError, match="set `low` to"):
        ByRank(low=8, high=4)
    with pytest.raises(UserError, match="it must"):
        ByRank(step=-1)
