"""Weights and division by hand, the norms of right answers, and the variance of the estimate."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.rollouts.gradient_variance import GradientVariance, mean_norms, proportional, variance_weights
from gradus.testing.methods import toy_group
from gradus.types import Failed, Key, Problem, Request, UserError


def weights(norms, rates, alpha=0.001, beta=2.0):
    return variance_weights(np.array(norms, float), np.array(rates, float), alpha=alpha, beta=beta)


def test_the_example_by_hand():
    # 1 / sqrt(.5 + .002) = 1.4114, 1 / sqrt(.125 + .008) = 2.7420; 16 x 1.4114 / 4.1534 = 5.437
    found = weights([1, 1], [0.5, 0.125])
    assert_close(found, np.array([1.4114, 2.7420]), rtol=0, atol=5e-5)
    assert_close(16 * found / found.sum(), np.array([5.437, 10.563]), rtol=0, atol=5e-4)
    assert proportional(found, 16).tolist() == [5, 11]


def test_nothing_for_hopeless_problems_and_for_those_without_a_gradient():
    assert weights([1, 0, 2], [0, 0.5, 0.5])[:2].tolist() == [0, 0]
    assert proportional(weights([1, 0, 2], [0, 0.5, 0.5]), 7).tolist() == [0, 0, 7]
    assert proportional(weights([0, 0], [0.5, 0]), 7).tolist() == [0, 0]


def test_twice_the_gradient_has_twice_the_weight():
    one, two = weights([1, 3], [0.3, 0.7]), weights([2, 3], [0.3, 0.7])
    assert_close(two, one * np.array([2, 1]))


def test_the_penalty_turns_the_weight_of_rare_success():
    # without it the weight grows as 1 / sqrt(p); with beta 2 it is at most 1 / sqrt(2 sqrt(alpha)), at p = sqrt(alpha) = .0316
    rates = np.array([0.001, 0.0316, 0.5])
    assert np.argmax(weights([1, 1, 1], rates)) == 1
    assert np.argmax(weights([1, 1, 1], rates, alpha=0.0)) == 0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=9), st.integers(0, 100))
def test_the_sum_is_exact_and_each_is_near_its_share(values, total):
    found = proportional(np.array(values), total)
    if sum(values) > 0:
        assert found.sum() == total
        assert (np.abs(found - total * np.array(values) / sum(values)) < 1 + 1e-9).all()
    assert all(n == 0 for n, w in zip(found, values, strict=True) if w == 0)


def world_of(norms):
    async def gradients(contexts):
        return np.array([norms[c.actions] for c in contexts], float)

    return SimpleNamespace(gradients=gradients)


def requests(count, each=8):
    return [Request(Problem(str(i), "t", text="a"), count=each) for i in range(count)]


def test_the_rule_reads_right_probes_alone():
    # problem 0: half right, norm 1; problem 1: one right of eight, norm 1; problem 2: none right. N = 24 is divided as 16 was, with 24 / 4.1534
    first = toy_group(1, 1, 0, 0, lengths=[1, 1, 2, 2])
    second = toy_group(1, 0, 0, 0, 0, 0, 0, 0, lengths=[1] + [2] * 7)
    third = toy_group(0, 0, lengths=[2, 2])
    counts = asyncio.run(GradientVariance().more([first, second, third], requests(3), world_of({1: 1.0, 2: 100.0})))
    assert counts == [8, 16, 0]


def test_failed_probes_do_not_count():
    group = toy_group(1, 0, 0)
    broken = group.but(trajectories=(*group.trajectories[:2], group.trajectories[2].but(reward=Failed("no"))))
    counts = asyncio.run(GradientVariance(alpha=0.0).more([broken, toy_group(1, 0)], requests(2), world_of({2: 1.0})))
    assert counts == [8, 8]  # both have p = 1/2
    nothing = asyncio.run(GradientVariance().more([toy_group(0, 0)], requests(1), world_of({})))
    assert nothing == [0]


def test_the_mean_norm_of_a_row():
    group = toy_group(1, 1, lengths=[1, 3])
    double = group.trajectories[0].but(contexts=group.trajectories[1].contexts + group.trajectories[0].contexts)
    norms = asyncio.run(mean_norms([group.trajectories, [], [double]], world_of({1: 3.0, 3: 4.0})))
    assert_close(norms, np.array([3.5, 0.0, 5.0]))


def spread_of(counts, norms, rates, key, redraws=200):
    """The summed variance of the gradient's estimate over redraws. The gradient of an answer has one coordinate, with deviation G around 0."""
    rows = []
    for n in range(redraws):
        drawn = key.fold(n)
        total = 0.0
        for i, (count, norm, rate) in enumerate(zip(counts, norms, rates, strict=True)):
            right = drawn.fold("right", i).uniform(int(count)) < rate
            if right.any():
                total += norm * drawn.fold("gradient", i).normal(int(count))[right].mean()
        rows.append(total)
    return np.var(rows)


def test_the_variance_is_a_fifth_below_that_of_equal_groups():
    norms, rates = np.array([0.2] * 10 + [2.0] * 10), np.array([0.9] * 10 + [0.4] * 10)
    divided = proportional(variance_weights(norms, rates, alpha=0.001, beta=2.0), 160)
    assert spread_of(divided, norms, rates, Key(1)) < 0.8 * spread_of(np.full(20, 8), norms, rates, Key(1))


def test_a_negative_penalty_is_refused():
    with pytest.raises(UserError, match="it must"):
        GradientVariance(alpha=-1.0)
