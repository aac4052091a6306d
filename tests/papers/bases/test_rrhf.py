"""RRHF: the hinge and the likelihood by hand, their gradient, plain loops, its limit, what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.best_of_n import best_of_n
from gradus.papers.bases.rrhf import rrhf
from gradus.selection.filters import Best
from gradus.testing.methods import (
    check_different_update,
    check_learns,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
    trained_trajectories,
)


def test_the_ranking_by_hand():
    # p -.5 -.3 -.9 for rewards 1.5 .3 -1: only (first, second) stands in the wrong order, by .2
    only = rrhf.but(objective__imitation=None).objective
    loss, slopes, metrics = loss_and_gradient(only, [toy_group(1.5, 0.3, -1, lengths=[1, 1, 1])], [-0.5, -0.3, -0.9])
    assert loss == pytest.approx(0.2)
    assert slopes == pytest.approx([-1, 1, 0])
    assert metrics["ranked"] == pytest.approx(2 / 3)


def test_the_likelihood_is_that_of_the_best_summed_over_its_tokens():
    # groups of a best answer of 2 tokens and of 1: (1 + 2 + 4) / 2; the ranking adds 0: means -1.5 > -3 and -4 > -5
    groups = [toy_group(0, 1, lengths=[1, 2], key="a"), toy_group(1, 0, lengths=[1, 1], key="b")]
    loss, slopes, _ = loss_and_gradient(rrhf.objective, groups, [-3.0, -1, -2, -4, -5])
    assert loss == pytest.approx(3.5)
    assert slopes == pytest.approx([0, -0.5, -0.5, -0.5, 0])


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(7)
    groups = [toy_group(1, 0, 0.5, lengths=[2, 4, 1], key="a"), toy_group(0.25, 0.5, 0.25, lengths=[3, 1, 2], key="b")]
    logprobs = -rng.uniform(0, 2, 13)
    left, total = iter(logprobs.tolist()), 0.0
    for g in groups:
        sums = [sum(next(left) for _ in range(t.actions)) for t in g.trajectories]
        rewards = [t.value for t in g.trajectories]
        p = [s / t.actions for s, t in zip(sums, g.trajectories, strict=True)]
        total += sum(max(0.0, p[i] - p[j]) for i in range(3) for j in range(3) if rewards[i] < rewards[j]) / 2
        total -= sums[rewards.index(max(rewards))] / 2
    assert loss_and_gradient(rrhf.objective, groups, logprobs)[0] == pytest.approx(total, abs=1e-12)


def test_problems_without_a_difference_are_left_out():
    for _, groups in steps_of(rrhf, steps=3):
        for g, kept in zip(groups, trained_trajectories(groups), strict=True):
            assert len(kept) == (len(g.trajectories) if len(set(g.rewards)) > 1 else 0)


def test_without_its_differences_it_is_best_of_n():
    plain = rrhf.but(selection=Best(1), objective__ranking=None, objective__imitation=Imitation(source="policy"))
    check_same_update(plain, best_of_n)
    check_different_update(rrhf, best_of_n)


def test_imitation_of_the_best_among_all_is_imitation_of_the_best_alone():
    among = rrhf.but(objective__ranking=None, objective__imitation__average=TokenMean()).objective
    groups = [toy_group(0, 1, 1, lengths=[1, 2, 3], key="a"), toy_group(1, 0, lengths=[1, 2], key="b")]
    alone, _ = Best(1).keep(groups, None)
    ours = loss_and_gradient(among, groups, [-3.0, -1, -2, -9, -9, -9, -4, -9, -9])
    theirs = loss_and_gradient(best_of_n.objective, alone, [-1.0, -2, -4])
    assert ours[0] == theirs[0]
    assert ours[1] == [0, *theirs[1][:2], 0, 0, 0, theirs[1][2], 0, 0]


@pytest.mark.nightly
def test_it_learns():
    check_learns(rrhf, gain=0.08)
