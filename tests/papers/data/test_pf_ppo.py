"""PF-PPO: the ranks that each filter keeps, R^2 of a reward, and PPO if all ranks are kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.papers.bases.ppo import ppo
from gradus.papers.data.pf_ppo import pf_ppo, r_squared
from gradus.recipe.core import changes
from gradus.selection.filters import KeptByRank
from gradus.testing.methods import toy_group, weights_after
from gradus.types import Key, UserError


def kept(rule, *rewards, key=Key(0)):
    group = toy_group(*rewards)
    (found,), dropped = KeptByRank(rule).keep([group], key)
    assert not dropped
    places = {t.id: i for i, t in enumerate(group.trajectories)}
    return [places[t.id] for t in found.trajectories]


def test_r_squared_by_hand():
    rewards = np.array([0.0, 1.0, 2.0, 3.0])
    assert r_squared(rewards, rewards) == pytest.approx(1.0)
    assert r_squared(rewards, 5 - 2 * rewards) == pytest.approx(1.0)  # any line
    assert r_squared(np.ones(4), rewards) == r_squared(rewards, np.ones(4)) == 0.0
    # means of x: 1.5; of y: 0.5; shared sum 1.0; spread 5; total 1
    assert r_squared(rewards, np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx(1 / 5)
    # two bins: rewards 0.5 and 2.5, scores 0.5 and 0.5
    assert r_squared(rewards, np.array([0.0, 1.0, 0.0, 1.0]), bins=2) == 0.0
    with pytest.raises(UserError, match="two one-dimensional arrays"):
        r_squared(rewards, np.zeros(3))


def test_a_reward_that_is_right_only_at_its_extremes_is_reliable_after_the_filter():
    """True scores: 1 for the best, 0 for the worst; in the middle the reward runs against the truth."""
    draw = np.random.default_rng(0)
    filtered, everything = [], []
    for _ in range(200):
        truths = np.array([0.0, 0.8, 0.5, 0.2, 1.0])
        rewards = np.array([0.0, 0.25, 0.5, 0.75, 1.0]) + draw.uniform(-0.05, 0.05, 5)
        order = kept("best_and_worst", *rewards)
        filtered += [(rewards[i], truths[i]) for i in order]
        everything += list(zip(rewards, truths, strict=True))
    some, plain = (r_squared(*np.array(pairs).T) for pairs in (filtered, everything))
    assert some > plain + 0.2


def test_with_all_ranks_it_is_ppo():
    same = {"credit__coefficient": 0.01, "update__epochs": 1, "update__count": 4}
    ours, plain = (weights_after(r, steps=3) for r in (pf_ppo.but(selection=KeptByRank("all")), ppo.but(**same)))
    assert ours.keys() == plain.keys()
    assert all(torch.equal(ours[name], plain[name]) for name in ours)
    assert set(changes(ppo, pf_ppo)) == {"credit.coefficient", "selection", "update.epochs", "update.count", "setting.group"}
    assert not torch.equal(weights_after(pf_ppo, steps=3)["policy.logits"], ours["policy.logits"])
