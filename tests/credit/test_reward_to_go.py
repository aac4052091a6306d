"""Rewards to go: by hand, with baselines, normalised over the batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.reward_to_go import RewardToGo
from gradus.testing.methods import advantages_of, toy_group, toy_trajectory


def rewarded(reward, *steps, name="g/0"):
    """A trajectory of len(steps) tokens that earns these at its tokens, and the rest of its reward at the last."""
    made = toy_trajectory([2] * len(steps), reward=reward, name=name)
    placed = tuple((i, "step", s) for i, s in enumerate(steps))
    return made.but(contexts=(replace(made.contexts[0], rewards=placed),))


def test_rewards_to_go_by_hand():
    # rewards .5, 0 and 1.5 - .5 = 1 at the end; gamma 1/2: 1, 1/2, .5 + 1/4 from the end
    one = toy_group(0).but(trajectories=(rewarded(1.5, 0.5, 0.0, 0.0),))
    assert advantages_of(RewardToGo(whitened=False), one) == [[[1.5, 1, 1]]]
    assert advantages_of(RewardToGo(gamma=0.5, whitened=False), one) == [[[0.75, 0.5, 1]]]


def test_baselines_are_of_whole_rewards():
    made = toy_group(1, 0, 0.5, lengths=[1, 2, 1])  # mean 1/2; the others' means 1/4, 3/4, 1/2
    assert advantages_of(RewardToGo(baseline="group", whitened=False), made) == [[[0.5], [-0.5, -0.5], [0]]]
    assert advantages_of(RewardToGo(baseline="others", whitened=False), made) == [[[0.75], [-0.75, -0.75], [0]]]


def test_statistics_are_those_of_all_tokens():
    # tokens 1 | 0 0 0: mean 1/4, deviation sqrt(3)/4
    found = advantages_of(RewardToGo(), toy_group(1, key="a", lengths=[1]), toy_group(0, key="b", lengths=[3]))
    np.testing.assert_allclose([found[0][0][0], found[1][0][0]], np.array([3, -1]) / np.sqrt(3))


@pytest.mark.parametrize("baseline", ["none", "group", "others"])
def test_equal_rewards_leave_nothing(baseline):
    found = advantages_of(RewardToGo(baseline=baseline), toy_group(0.1, 0.1, 0.1), toy_group(0.1, 0.1, key="b"))
    assert {a for g in found for row in g for a in row} == {0.0}
