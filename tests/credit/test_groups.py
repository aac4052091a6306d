"""Group advantages by hand, and what they do not depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.credit.groups import (
    BatchBaseline,
    Constant,
    GroupRelative,
    LeaveOneOut,
    LogReward,
    PoolBaseline,
    ProbeBaseline,
    against_pool,
    batch_relative,
    group_relative,
    leave_one_out,
)
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.recipe.overrides import override_all
from gradus.recipe.registry import recipe
from gradus.testing.methods import advantages_of, toy_group
from gradus.types import Failed

REWARDS = st.lists(st.integers(-100, 100).map(lambda n: n / 4), min_size=2, max_size=8)  # quarters: exact in binary


def test_standardised_by_hand():
    # 0 and 2: mean 1, population deviation 1, sample deviation sqrt 2
    assert group_relative(np.array([0.0, 2.0])).tolist() == [-1, 1]
    np.testing.assert_allclose(group_relative(np.array([0.0, 2.0]), scale="sample"), np.array([-1, 1]) / np.sqrt(2))
    assert group_relative(np.array([0.0, 2.0]), scale="none").tolist() == [-1, 1]
    assert group_relative(np.array([0.0, 0.0, 6.0]), scale="none").tolist() == [-2, -2, 4]


def test_leave_one_out_by_hand():
    # 1 - (0 + 0.5)/2, 0 - (1 + .5)/2, .5 - (1 + 0)/2
    assert leave_one_out(np.array([1.0, 0.0, 0.5])).tolist() == [0.75, -0.75, 0.0]
    assert leave_one_out(np.array([5.0])).tolist() == [0.0]
    # equal rewards leave nothing, not even the rounding of their sum: 0.1 - (0.30000000000000004 - 0.1) / 2 is not 0
    assert leave_one_out(np.full(3, 0.1)).tolist() == [0.0] * 3


@given(REWARDS)
def test_leave_one_out_is_the_centred_reward_times_g_over_g_minus_1(rewards):
    rewards = np.array(rewards)
    np.testing.assert_allclose(leave_one_out(rewards), (rewards - rewards.mean()) * len(rewards) / (len(rewards) - 1), atol=1e-12)


@given(REWARDS, st.sampled_from(["population", "sample", "none"]))
def test_advantages_sum_to_zero(rewards, scale):
    assert abs(group_relative(np.array(rewards), scale=scale).sum()) < 1e-9


@given(REWARDS)
def test_standardised_advantages_have_deviation_one(rewards):
    found = group_relative(np.array(rewards))
    assert not found.any() if len(set(rewards)) == 1 else found.std() == pytest.approx(1)


def test_every_action_of_a_trajectory_has_its_advantage():
    assert advantages_of(GroupRelative(), toy_group(0, 2, lengths=[1, 3])) == [[[-1], [1, 1, 1]]]
    assert advantages_of(LeaveOneOut(), toy_group(0, 2, lengths=[1, 2])) == [[[-2], [2, 2]]]


def test_groups_are_compared_within_themselves():
    together = advantages_of(GroupRelative(), toy_group(0, 2, key="a"), toy_group(10, 20, key="b"))
    assert together == [*advantages_of(GroupRelative(), toy_group(0, 2)), *advantages_of(GroupRelative(), toy_group(10, 20))]


def test_the_batch_baseline_is_one_for_all_groups():
    # mean of 0 2 10 is 4
    assert advantages_of(BatchBaseline(), toy_group(0, 2, key="a"), toy_group(10, key="b")) == [[[-4, -4], [-2, -2]], [[6, 6]]]
    assert advantages_of(BatchBaseline("none"), toy_group(0, 2)) == [[[0, 0], [2, 2]]]
    assert BatchBaseline().assign([], {}) == []


def test_constant_asks_no_reward():
    assert advantages_of(Constant(), toy_group(7, float("nan"), lengths=[1, 2])) == [[[1], [1, 1]]]


def test_batch_statistics_by_hand():
    # groups 0 2 and 10 14: centred -1 1 -2 2, population deviation sqrt(10/4), sample sqrt(10/3)
    rewards = [np.array([0.0, 2.0]), np.array([10.0, 14.0])]
    for scale, deviation in (("population", np.sqrt(2.5)), ("sample", np.sqrt(10 / 3)), ("none", 1.0)):
        found = batch_relative(rewards, baseline="group", scale=scale)
        np.testing.assert_allclose(np.concatenate(found), np.array([-1, 1, -2, 2]) / deviation)
    # against the others: -2 2 -4 4, deviation twice as large; against the batch's mean 6.5: -6.5 -4.5 3.5 7.5, squares 131 / 4
    np.testing.assert_allclose(np.concatenate(batch_relative(rewards, baseline="others")), np.array([-2, 2, -4, 4]) / np.sqrt(10))
    found = batch_relative(rewards, baseline="batch")
    np.testing.assert_allclose(np.concatenate(found), np.array([-6.5, -4.5, 3.5, 7.5]) / np.sqrt(32.75))
    assert [len(r) for r in batch_relative([*rewards, np.ones(3)], baseline="batch")] == [2, 2, 3]


def test_one_right_of_twelve_stands_out_by_the_root_of_eleven():
    found = np.concatenate(batch_relative([np.zeros(6), np.array([0, 0, 0, 0, 0, 1.0])], baseline="batch"))
    assert found.max() == pytest.approx(np.sqrt(11))  # (11/12) / (sqrt(11)/12)


@pytest.mark.parametrize("baseline", ["group", "others", "batch"])
def test_a_batch_without_difference_has_no_advantage(baseline):
    assert batch_relative([np.full(3, 0.1), np.full(2, 0.1)], baseline=baseline)[0].tolist() == [0, 0, 0]
    assert batch_relative([], baseline=baseline) == []
    assert batch_relative([np.array([3.0])], baseline=baseline)[0].tolist() == [0]


def test_the_forms_that_exist_already_are_special_cases():
    made = [toy_group(0, 2, 5, key="a"), toy_group(1, 4, key="b")]
    assert advantages_of(BatchRelative("batch", "none"), *made) == advantages_of(BatchBaseline(), *made)
    assert advantages_of(BatchRelative("others", "none"), *made) == advantages_of(LeaveOneOut(), *made)
    assert advantages_of(BatchRelative("group", "none"), *made) == advantages_of(GroupRelative("none"), *made)
    one = [toy_group(0, 2, 5)]
    np.testing.assert_allclose(advantages_of(BatchRelative("group"), *one), advantages_of(GroupRelative(), *one))  # one group is the batch


def test_a_probe_is_the_baseline_and_is_not_credited():
    # rewards .7 and 0, probe .5; two probes 0 and 1 have the mean .5
    made = toy_group(0.7, 0.0, 0.5, lengths=[1, 2, 1])
    (*samples, probe) = made.trajectories
    found = advantages_of(ProbeBaseline(), made.but(trajectories=(*samples, probe.but(trained=False))))
    np.testing.assert_allclose(np.concatenate(found[0]), [0.2, -0.5, -0.5, 0])
    two = toy_group(1, 0, 1)
    marked = two.but(trajectories=(two.trajectories[0], *(t.but(trained=False) for t in two.trajectories[1:])))
    assert advantages_of(ProbeBaseline(), marked) == [[[0.5, 0.5], [0, 0], [0, 0]]]
    assert advantages_of(ProbeBaseline(), toy_group(1, 0)) == [[[0, 0], [0, 0]]]  # nothing to compare with


@pytest.mark.parametrize("scale", ["population", "sample", "none"])
@pytest.mark.parametrize("baseline", ["group", "others", "batch"])
def test_every_statistic_is_said_by_fields(baseline, scale):
    made = override_all(recipe("grpo"), [("credit", "BatchRelative"), ("credit.baseline", baseline), ("credit.scale", scale)])
    assert made.credit == BatchRelative(baseline, scale)
    # rewards 0 2 | 10 14, written out: r - b over the root of the mean (or n - 1) square of r - b, whose mean is 0
    bases = {"group": [1, 1, 12, 12], "others": [2, 0, 14, 10], "batch": [6.5] * 4}[baseline]
    left = np.array([0, 2, 10, 14]) - bases
    deviation = {"population": np.sqrt((left**2).sum() / 4), "sample": np.sqrt((left**2).sum() / 3), "none": 1.0}[scale]
    found = [row[0] for g in advantages_of(made.credit, toy_group(0, 2), toy_group(10, 14, key="h")) for row in g]
    np.testing.assert_allclose(found, left / deviation)


def test_what_was_sampled_for_a_value_only_counts_in_the_statistics():
    # rewards 0, 2 and 1 of a probe: mean 1; population deviation sqrt(2/3); without it -1 and 1. Against the others: 0 - 1.5, 2 - .5, 1 - 1
    made = toy_group(0, 2, 1)
    marked = made.but(trajectories=(*made.trajectories[:2], made.trajectories[2].but(trained=False)))
    (rows,) = advantages_of(GroupRelative(), marked)
    np.testing.assert_allclose([row[0] for row in rows], np.array([-1, 1, 0]) * np.sqrt(1.5), atol=1e-12)
    assert [row[0] for row in advantages_of(LeaveOneOut(), marked)[0]] == [-1.5, 1.5, 0.0]
    assert [row[0] for row in advantages_of(ProbeBaseline(), marked)[0]] == [-1.0, 1.0, 0.0]


def pooled(*rewards):
    group = toy_group(*rewards)
    return group.but(pool=tuple(float(r) for r in rewards))


def test_the_baseline_of_the_pool_counts_dropped_answers():
    group = pooled(1, 0, 0, 0)
    assert advantages_of(PoolBaseline(), group.but(trajectories=group.trajectories[:2])) == [[[0.75, 0.75], [-0.25, -0.25]]]


def test_a_pool_of_equal_rewards_and_one_with_missing_rewards():
    assert against_pool(pooled(1, 1, 1)).tolist() == [0, 0, 0]
    assert against_pool(pooled(0.1, 0.1, 0.1)).tolist() == [0, 0, 0]
    broken = pooled(1, 0).but(pool=(1.0, Failed("no"), 0.0, 0.0, 0.0))
    assert against_pool(broken).tolist() == [0.75, -0.25]
    assert against_pool(toy_group(1, 0)).tolist() == [0.5, -0.5]  # no pool


def test_log_rewards_by_hand():
    assert advantages_of(LogReward(2.0), toy_group(100, 1, 0, lengths=[1, 2, 1])) == [
        [[pytest.approx(2 * math.log(100))], [0.0, 0.0], [pytest.approx(2 * math.log(1e-3))]]
    ]
