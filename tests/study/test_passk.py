"""Estimators of evaluation against numbers worked by hand, exhaustive counts and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.study.passk import bootstrap, majority, paired_bootstrap, pass_at_k
from gradus.types import Key


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)  # c / n
    assert pass_at_k(5, 2, 3) == pytest.approx(0.9)  # 1 - C(3, 3) / C(5, 3) = 1 - 1 / 10
    assert pass_at_k(16, 4, 4) == pytest.approx(1 - 495 / 1820)  # C(12, 4) = 495, C(16, 4) = 1820
    assert pass_at_k(5, 3, 3) == 1.0  # only two are wrong: three samples cannot all be
    assert pass_at_k(7, 0, 7) == 0.0
    assert pass_at_k(1000, 1, 1) == pytest.approx(0.001)


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_counts_subsets(case: tuple[int, int, int]) -> None:
    n, c, k = case
    right = [i < c for i in range(n)]
    subsets = list(itertools.combinations(right, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))


@pytest.mark.parametrize(("k", "p"), [(1, 0.3), (3, 0.3), (4, 0.05)])
def test_pass_at_k_is_unbiased(k: int, p: float) -> None:
    # over c ~ Binomial(6, p) its mean is 1 - (1 - p)^k exactly
    mean = sum(math.comb(6, c) * p**c * (1 - p) ** (6 - c) * pass_at_k(6, c, k) for c in range(7))
    assert mean == pytest.approx(1 - (1 - p) ** k)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_pass_at_k_refuses(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"samples|it must be 1 or more"):
        pass_at_k(n, c, k)


def test_majority_by_hand() -> None:
    assert majority(["7", "7", "8"], [True, True, False]) == 1.0
    assert majority(["7", "8", "8"], [True, False, False]) == 0.0
    assert majority(["7", "8"], [True, False]) == 0.5  # tied
    assert majority(["7", "8", "9"], [True, False, False]) == pytest.approx(1 / 3)
    assert majority([None, None, "8"], [False, False, True]) == 1.0  # those without an answer have no vote
    assert majority([None], [False]) == 0.0
    assert majority([], []) == 0.0


def test_bootstrap_of_a_constant_has_no_width() -> None:
    found = bootstrap([0.25] * 9)
    assert (found.mean, found.low, found.high, found.level) == (0.25, 0.25, 0.25, 0.95)


def test_bootstrap_agrees_with_the_binomial() -> None:
    # 400 problems of which 100 right: the mean is 0.25 with deviation sqrt(0.25 * 0.75 / 400) = 0.02165; 1.96 of these is 0.0424
    found = bootstrap([1.0] * 100 + [0.0] * 300, key=Key(3))
    assert found.mean == 0.25
    assert found.low == pytest.approx(0.25 - 0.0424, abs=0.004)
    assert found.high == pytest.approx(0.25 + 0.0424, abs=0.004)
    assert bootstrap([1.0] * 100 + [0.0] * 300, key=Key(3)) == found


def test_a_higher_level_is_wider() -> None:
    values = Key(1).uniform(50)
    narrow, wide = bootstrap(values, level=0.9), bootstrap(values, level=0.99)
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high


def test_pairing_removes_what_problems_share() -> None:
    hard = Key(5).uniform(1, 200)
    better = paired_bootstrap(hard + 0.1, hard)
    assert better.mean == pytest.approx(0.1)
    assert better.high - better.low < 1e-9


def test_seeds_are_drawn_too() -> None:
    # two seeds, differences 0 and 1 on every problem: a draw of seeds gives 0, 1/2 or 1 with chances 1/4, 1/2, 1/4
    found = paired_bootstrap(np.array([[0.0] * 30, [1.0] * 30]), np.zeros((2, 30)))
    assert (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)


def test_draws_in_pieces_are_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [1.0] * 100 + [0.0] * 300
    monkeypatch.setattr("gradus.study.passk._AT_ONCE", 40_000)
    found = bootstrap(values)
    assert found.low == pytest.approx(0.2076, abs=0.004)
    assert found.high == pytest.approx(0.2924, abs=0.004)


@pytest.mark.parametrize(("a", "b"), [((2, 3), (3, 2)), ((3,), (3,)), ((0, 3), (0, 3))])
def test_shapes_are_checked(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"same shape \[seeds, problems\]"):
        paired_bootstrap(np.zeros(a), np.zeros(b))


def test_a_level_outside_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`level` is 95"):
        bootstrap([1.0], level=95)
