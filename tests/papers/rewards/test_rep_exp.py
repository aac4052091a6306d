from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.rep_exp import (
    DiverseOf,
    Exploring,
    ReplyFeature,
    centred,
    diverse,
    feature_of,
    leverages,
    rep_exp,
    sparse_projection,
    with_one_more,
)
from gradus.testing.methods import toy_group, toy_run, train_toy, weights_after
from gradus.types import Context, Key, Problem, Request
from gradus.types.parts import Judgement
from gradus.types.signals import Read

SIGNAL = Read("start", reads=ReplyFeature(32))


def test_the_bonus_by_hand():
    """lambda + 4 + 1 + 1 = 6.01; 4 / 6.01 and 1 / 6.01."""
    assert leverages(np.array([[2.0], [-1.0], [-1.0]]), ridge=0.01).tolist() == pytest.approx([0.6656, 0.1664, 0.1664], abs=5e-5)
    assert not leverages(centred(np.ones((5, 3))), ridge=0.01).any()  # identical replies
    features = centred(Key(1).normal(20, 4) * 100)
    assert 3.99 < leverages(features, ridge=0.01).sum() < 4  # below d
    found = leverages(features, ridge=0.01)
    assert (found < 1).all()
    one_out = Exploring(leave_one_out=True).bonuses(features + 7)
    for i in range(20):
        rest = 0.01 * np.eye(4) + np.delete(features, i, 0).T @ np.delete(features, i, 0)
        assert one_out[i] == pytest.approx(features[i] @ np.linalg.inv(rest) @ features[i], rel=1e-6)
    np.testing.assert_allclose(one_out, found / (1 - found))


def test_sherman_and_morrison_equal_the_inverse():
    inverse, matrix = np.eye(6) / 0.01, 0.01 * np.eye(6)
    for i in range(20):
        h = Key(i).normal(6)
        inverse, matrix = with_one_more(inverse, h), matrix + np.outer(h, h)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-8)


def test_the_choice_begins_with_the_first_and_then_takes_new_directions():
    """After (-2, 0) the inverse is diag(100 - 40000 / 401 = 0.2494, 100): the others score 100, 2.10 + 1 = 3.10 and 2.24; after (0, 1) it is
    diag(0.2494, 0.9901): 2.107 and 2.245."""
    assert diverse(np.array([[-2.0, 0.0], [0.0, 1.0], [2.9, 0.1], [3.0, 0.0]]), 4, ridge=0.01) == [0, 1, 3, 2]
    features = np.array([[3.0, 0.0], [2.9, 0.1], [0.0, 1.0], [-2.0, 0.0]])
    assert diverse(features, 3, ridge=0.01) == [0, 2, 1]  # after the first, what lies along it scores below 1
    assert diverse(features, 9, ridge=0.01) == [0, 2, 1, 3]
    assert (DiverseOf().ridge, DiverseOf().dim) == (1.0, 512)


def test_a_pool_is_centred_before_the_choice():
    """(10, 0), (11, 0), (10, 0.9) with ridge 1. Minus their mean, (31/3, 0.3), the second scores 0.5199 after the first and the third 0.4672; as they
    stand it would be 121 / 101 against 100 / 101 + 0.81. Of the two picked the better answer is kept."""
    pool = toy_group(0, 1, 2).trajectories
    features = {t.id: np.array(row) for t, row in zip(pool, ([10.0, 0.0], [11.0, 0.0], [10.0, 0.9]), strict=True)}
    assert DiverseOf(count=2)._pick(pool, features) is pool[1]


def test_the_projection_is_sparse_and_keeps_lengths():
    matrix = sparse_projection(400, 2000, Key(3))
    assert (matrix != 0).mean() == pytest.approx(1 / 20, abs=2e-3)
    assert set(np.abs(matrix[matrix != 0]).round(9)) == {round((20 / 2000) ** 0.5, 9)}
    x = Key(4).normal(400)
    assert float((x @ matrix) @ (x @ matrix)) == pytest.approx(float(x @ x), rel=0.15)


class States:
    """Two contexts of three and four tokens; the state of token t of context i is (t, 10 i)."""

    contexts = (
        Context(np.array([1, 2, 3], np.int32), np.array([False, True, True])),
        Context(np.array([1, 2, 3, 4], np.int32), np.array([False, False, False, True])),
    )

    def states(self, layer=-1):
        rows = [[t, 10 * i] for i, c in enumerate(self.contexts) for t in range(len(c.tokens))]
        return torch.tensor(rows, dtype=torch.float64), torch.tensor([0] * 3 + [1] * 4)


def test_the_feature_is_the_mean_over_the_replys_own_tokens():
    rows = ReplyFeature(5).rows(States(), Key(2))  # type: ignore[arg-type]
    matrix = torch.from_numpy(sparse_projection(2, 5, Key(2).fold("projection")))
    due = torch.tensor([[1.5, 0.0], [1.5, 0.0], [3.0, 10.0]], dtype=torch.float64) @ matrix
    assert_close(rows, due)
    assert feature_of(rows[:2].numpy()).tolist() == due[0].tolist()


class World:
    def __init__(self):
        self.noted = []

    def note(self, name, value):
        self.noted.append((name, value))


class Given:
    """Rewards as they stand."""

    needs = ()

    async def score(self, groups, signals, world):
        return [[Judgement(t.reward) for t in g.trajectories] for g in groups]


def paid(*rewards, **changes):
    group, world = toy_group(*rewards), World()
    features = {t.id: np.full((t.actions, 32), float(i * i)) for i, t in enumerate(group.trajectories)}
    part = Exploring(reward=Given(), **changes)
    (row,) = asyncio.run(part.score([group], {part.feature: features}, world))
    return [j.reward for j in row], [j.components["bonus"] for j in row], world.noted


def test_a_group_without_a_right_reply_has_no_bonus():
    assert paid(0.0, 0.0, 0.0)[:2] == ([0.0] * 3, [0.0] * 3)
    rewards, bonus, noted = paid(0.0, 1.0, 0.0, beta=0.5)
    assert min(bonus) > 0  # wrong replies beside a right one keep theirs
    assert rewards == pytest.approx([0.5 * bonus[0], 1 + 0.5 * bonus[1], 0.5 * bonus[2]])
    assert noted == [("bonus_spread", pytest.approx(float(np.std(bonus))))]


def test_without_the_bonus_it_is_grpo_without_a_kl_term():
    plain = grpo.but(objective__kl=None, players__reference=None, objective__policy__average=TokenMean(), update__count=4)
    assert_close(weights_after(rep_exp.but(reward__beta=0.0)), weights_after(plain), rtol=0, atol=0)


def test_the_bonus_acts_and_is_logged():
    seen: list[dict] = []
    moved = train_toy(rep_exp.but(reward__beta=0.5), watch=lambda run, metrics, groups: seen.append(dict(metrics)), steps=3)
    still = train_toy(rep_exp.but(reward__beta=0.0), steps=3)
    pairs = zip(moved.players["policy"].parameters, still.players["policy"].parameters, strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)
    assert any(row.get("bonus_spread", 0) > 1e-3 for row in seen)
    start = toy_run(rep_exp).players["policy"].policy.network.logits
    assert torch.equal(moved.players["start"].policy.network.logits, start)  # the features' model stays frozen


def test_the_choice_at_test_time_keeps_the_best_of_the_picked():
    world = toy_run(rep_exp).at(1)[1]
    request = Request(Problem("a", "toy", text="a", answer="b"), count=2)
    pools = asyncio.run(DiverseOf(count=8, pool=8).run([request], world))
    whole = asyncio.run(DiverseOf(count=1, pool=8).run([request], world))
    for many, one in zip(pools[0].trajectories, whole[0].trajectories, strict=True):
        assert many.value >= one.value - 0.011  # the best of all, against the first
    assert len(pools[0].trajectories) == 2
    assert world.spent["score/start"] > 0
