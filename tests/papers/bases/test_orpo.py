"""ORPO: both parts of the loss by hand and their gradient, plain loops, sure answers, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradus.objectives.preference import Logistic
from gradus.objectives.scores import LogRatio
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.orpo import orpo
from gradus.testing.methods import (
    TOY_PAIRS,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
)
from gradus.types.players import Copy, Player


def test_loss_and_gradient_by_hand():
    # p_w = 1/2 of one token: odds 1; p_l = sqrt(1/2 * 1/8) = 1/4: odds 1/3. -log sigmoid(log 3) = -log(3/4); likelihood log 2
    loss, slopes, _ = loss_and_gradient(orpo.objective, [toy_group(1, 0, lengths=[1, 2])], np.log([1 / 2, 1 / 2, 1 / 8]))
    assert loss == pytest.approx(math.log(2) + 0.1 * math.log(4 / 3))
    # d = sigmoid(-log 3) = 1/4; better: -1 - .1 * 1/4 / (1 - 1/2); worse: .1 * 1/4 / (1 - 1/4), half for each token
    assert slopes == pytest.approx([-1 - 0.05, 0.1 / 3 / 2, 0.1 / 3 / 2])


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(6)
    groups = [toy_group(1, 0, lengths=[2, 4], key="a"), toy_group(0.25, 0.5, lengths=[3, 1], key="b")]
    logprobs = -rng.uniform(0.1, 2, 10)
    left, total = iter(logprobs.tolist()), 0.0
    for g in groups:
        p = [math.exp(sum(next(left) for _ in range(t.actions)) / t.actions) for t in g.trajectories]
        better = 0 if g.trajectories[0].value > g.trajectories[1].value else 1
        odds = [x / (1 - x) for x in p]
        ratio = odds[better] / odds[1 - better]
        total += (-math.log(p[better]) - 0.1 * math.log(ratio / (1 + ratio))) / 2
    assert loss_and_gradient(orpo.objective, groups, logprobs)[0] == pytest.approx(total, abs=1e-12)


def test_given_pairs_have_the_loss_of_sampled_ones():
    sampled = [toy_group(1, 0, lengths=[2, 4], key="a"), toy_group(0.25, 0.5, lengths=[3, 1], key="b")]
    given = [g.but(trajectories=tuple(t.but(source="expert") for t in g.trajectories)) for g in sampled]
    rows = -np.random.default_rng(7).uniform(0.1, 2, 10)
    assert loss_and_gradient(orpo.objective, given, rows)[:2] == loss_and_gradient(orpo.objective, sampled, rows)[:2]


@pytest.mark.parametrize("rows", [[0.0, 0.0], [-1e-12, -60.0], [-60.0, 0.0]])
def test_sure_answers_have_a_finite_loss_and_gradient(rows):
    loss, slopes, _ = loss_and_gradient(orpo.objective, [toy_group(1, 0, lengths=[1, 1])], rows)
    assert math.isfinite(loss)
    assert all(map(math.isfinite, slopes))


def test_without_its_differences_it_is_dpo():
    back = {
        f"objective__{t}__{f}": v
        for t in ("sampled", "given")
        for f, v in (("beta", 0.1), ("score", LogRatio()), ("link", Logistic()), ("coefficient", 1.0))
    }
    plain = orpo.but(**back, objective__imitation_sampled=None, objective__imitation_given=None, players__reference=Player(Copy("policy")))
    check_same_update(plain, dpo)
    check_different_update(orpo, dpo)


def test_without_the_odds_only_the_better_answer_counts():
    groups = [toy_group(1, 0, lengths=[2, 1])]
    slopes = loss_and_gradient(orpo.but(objective__sampled__coefficient=0.0).objective, groups, [-1.0, -2.0, -3.0])[1]
    assert slopes == pytest.approx([-0.5, -0.5, 0])


def test_gradient_does_not_depend_on_the_micro_batch_where_pairs_are_given():
    check_micro_batches(orpo, task=TOY_PAIRS)


def test_it_learns_from_sampled_and_from_given_pairs():
    check_learns(orpo, gain=0.08)
    seen = steps_of(orpo, task=TOY_PAIRS, steps=40)
    assert seen[-1][0]["imitation"] < seen[0][0]["imitation"] - 0.5
    assert seen[-1][0]["preferred"] == 1.0
