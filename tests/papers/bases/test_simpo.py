"""SimPO: the loss of a pair by hand and its gradient, plain loops, and what is left when margin and means are switched off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradus.objectives.preference import Logistic
from gradus.objectives.scores import LogRatio
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.simpo import simpo
from gradus.testing.methods import (
    REFERENCE,
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

LOG2 = math.log(2)


def test_loss_and_gradient_by_hand():
    # means: better log 1/2 (one token), worse (log 1/2 + log 1/8) / 2 = -2 log 2; margin 2 (-1 + 2) log 2 - 1 = 2 log 2 - 1
    loss, slopes, metrics = loss_and_gradient(simpo.objective, [toy_group(1, 0, lengths=[1, 2])], np.log([1 / 2, 1 / 2, 1 / 8]))
    assert loss == pytest.approx(math.log(1 + math.exp(1 - 2 * LOG2)))
    push = 2 / (1 + math.exp(2 * LOG2 - 1))  # beta sigmoid(gamma - beta (m_w - m_l)), shared by the tokens of an answer
    assert slopes == pytest.approx([-push, push / 2, push / 2])
    assert metrics["margin"] == pytest.approx(2 * LOG2)


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(4)
    groups = [toy_group(1, 0, lengths=[2, 4], key="a"), toy_group(0.25, 0.5, lengths=[3, 1], key="b")]
    logprobs = -rng.uniform(0, 2, 10)
    left, total = iter(logprobs.tolist()), 0.0
    for g in groups:
        means = [sum(next(left) for _ in range(t.actions)) / t.actions for t in g.trajectories]
        better = 0 if g.trajectories[0].value > g.trajectories[1].value else 1
        total += math.log(1 + math.exp(1 - 2 * (means[better] - means[1 - better]))) / 2
    assert loss_and_gradient(simpo.objective, groups, logprobs)[0] == pytest.approx(total, abs=1e-12)


def test_a_longer_answer_of_the_same_mean_leads_by_nothing():
    rows = [-1.0, -1, -1, -1, -1]
    assert loss_and_gradient(simpo.objective, [toy_group(1, 0, lengths=[4, 1])], rows)[0] == pytest.approx(math.log(1 + math.e))


def test_of_equal_lengths_it_is_the_base_with_a_share_of_beta():
    # answers of 2 tokens and an even reference: h_w - h_l = 2 (m_w - m_l), so beta 2 on means is beta 1 on sums
    terms = simpo.but(objective__sampled__link=Logistic()).objective
    even = {"g/0": [-1.0, -1.0], "g/1": [-1.0, -1.0]}
    rows = [-0.3, -0.9, -2.0, -0.1]
    ours = loss_and_gradient(terms, [toy_group(1, 0)], rows)
    theirs = loss_and_gradient(dpo.but(objective__sampled__beta=1.0).objective, [toy_group(1, 0)], rows, signals={REFERENCE: even})
    assert ours[0] == pytest.approx(theirs[0], abs=1e-14)
    assert ours[1] == pytest.approx(theirs[1], abs=1e-14)


def test_without_its_differences_it_is_dpo():
    back = {
        f"objective__{t}__{f}": v for t in ("sampled", "given") for f, v in (("beta", 0.1), ("score", LogRatio()), ("link", Logistic()))
    }
    check_same_update(simpo.but(**back, players__reference=Player(Copy("policy"))), dpo)
    check_different_update(simpo, dpo)


def test_gradient_does_not_depend_on_the_micro_batch_where_pairs_are_given():
    check_micro_batches(simpo, task=TOY_PAIRS)


def test_it_learns_from_sampled_and_from_given_pairs():
    check_learns(simpo)
    seen = steps_of(simpo, task=TOY_PAIRS, steps=40)
    assert seen[-1][0]["preferred"] == 1.0
    assert seen[-1][0]["loss/given"] < seen[0][0]["loss/given"] - 0.5
    assert "tokens/rollout" not in seen[-1][0]
