"""PF-PPO: the ranks that each filter keeps, R^2 of a reward, and PPO if all ranks are kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.papers.bases.ppo import ppo
from gradus.papers.data.pf_ppo import KeptByRank, pf_ppo, r_squared
from gradus.recipe.core import changes
from gradus.testing.methods import toy_group, weights_after
from gradus.types import Key, UserError

REWARDS = (0.1, 0.9, 0.5, 0.3, 0.7)


def kept(rule, *rewards, key=Key(0)):
    group = toy_group(*rewards)
    (found,), dropped = KeptByRank(rule).keep([group], key)
    assert not dropped
    places = {t.id: i for i, t in enumerate(group.trajectories)}
    return [places[t.id] for t in found.trajectories]


def test_the_ranks_of_the_row():
    assert kept("best", *REWARDS) == [1]
    assert kept("best_and_worst", *REWARDS) == [1, 0]
    assert kept("all", *REWARDS) == [0, 1, 2, 3, 4]


def test_the_random_other_is_each_of_the_rest_equally_often():
    drawn = [kept("best_and_random", *REWARDS, key=Key(0).fold(i)) for i in range(4000)]
    assert all(first == 1 for first, _ in drawn)
    shares = [np.mean([other == i for _, other in drawn]) for i in range(5)]
    assert shares[1] == 0
    assert all(abs(shares[i] - 0.25) < 0.03 for i in (0, 2, 3, 4))


def test_a_draw_depends_on_the_group_and_not_on_its_neighbours():
    groups = [toy_group(*REWARDS).but(key=f"g{i}") for i in range(40)]
    together = KeptByRank().keep(groups, Key(3))[0]
    alone = [KeptByRank().keep([g], Key(3))[0][0] for g in groups]
    assert [[t.id for t in g.trajectories] for g in together] == [[t.id for t in g.trajectories] for g in alone]
    assert len({tuple(t.id.rpartition("/")[2] for t in g.trajectories) for g in together}) > 1


@pytest.mark.parametrize("rule", ["best", "best_and_random", "best_and_worst", "all"])
def test_a_group_of_one_is_kept_once_and_equal_rewards_by_their_order(rule):
    assert kept(rule, 0.5) == [0]
    assert kept(rule, 0.5, 0.5)[0] == 0
    assert kept("best_and_worst", 0.5, 0.5, 0.5) == [0, 2]


def test_answers_that_are_not_trained_on_have_no_rank():
    group = toy_group(*REWARDS)
    best, *rest = sorted(group.trajectories, key=lambda t: -t.value)
    hidden = group.but(trajectories=(best.but(trained=False), *rest))
    (found,), _ = KeptByRank("best_and_worst").keep([hidden], Key(0))
    assert [t.value for t in found.trajectories] == [0.7, 0.1]
    none = group.but(trajectories=(best.but(trained=False),))
    assert KeptByRank("best").keep([none], Key(0)) == ([], [none])


def test_r_squared_by_hand():
    rewards = np.array([0.0, 1.0, 2.0, 3.0])
    assert r_squared(rewards, rewards) == pytest.approx(1.0)
    assert r_squared(rewards, 5 - 2 * rewards) == pytest.approx(1.0)  # any line
    assert r_squared(np.ones(4), rewards) == r_squared(rewards, np.ones(4)) == 0.0
    # means of x: 1.5; of y: 0.5; shared sum 1.0; spread 5; total 1
    assert r_squared(rewards, np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx(1 / 5)
    # two bins: rewards 0.5 and 2.5, scores 0.5 and 0.5
    assert r_squared(rewards, np.array([0.0, 1.0, 0.0, 1.0]), bins=2) == 0.0
    with pytest.raises(UserError, match="two arrays of one dimension"):
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
