"""Online DPO: which pairs it learns from, the base's loss on them, and its limit."""

from __future__ import annotations

import math

import pytest

from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.online_dpo import online_dpo
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.selection.filters import BestAndWorst
from gradus.testing.methods import (
    REFERENCE,
    TOY_PAIRS,
    check_different_update,
    check_learns,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
    trained_trajectories,
)


def test_loss_and_gradient_by_hand():
    # two pairs of one problem, the policy at the reference in the first and 1 nat ahead with the better answer of the second:
    # (log 2 + log(1 + exp(-.1))) / 2; slopes beta sigmoid(-lead) / 2
    pairs, _ = online_dpo.selection.keep([toy_group(1, 0, 0, 1, lengths=[1, 1, 1, 1])], None)
    reference = {"g/0": [-1.0], "g/1": [-2.0], "g/2": [-1.0], "g/3": [-3.0]}
    loss, slopes, _ = loss_and_gradient(online_dpo.objective, pairs, [-1.0, -2.0, -1.0, -2.0], signals={REFERENCE: reference})
    assert loss == pytest.approx((math.log(2) + math.log(1 + math.exp(-0.1))) / 2)
    push = 0.05 / (1 + math.exp(0.1))
    assert slopes == pytest.approx([-0.025, 0.025, push, -push])


def test_pairs_are_consecutive_samples_that_differ():
    for _, groups in steps_of(online_dpo, steps=3, group=6):
        for g, kept in zip(groups, trained_trajectories(groups), strict=True):
            rewards = g.rewards.tolist()
            pairs = [(i, i + 1) for i in (0, 2, 4) if rewards[i] != rewards[i + 1]]
            assert [t.id for t in kept] == [g.trajectories[i].id for pair in pairs for i in pair]


def test_given_pairs_are_not_looked_at():
    assert all(m["tokens/rollout"] > 0 and "loss/given" not in m for m, _ in steps_of(online_dpo, task=TOY_PAIRS))


def test_of_two_samples_it_is_the_base_on_a_task_without_pairs():
    check_same_update(online_dpo, dpo, group=2)
    check_different_update(online_dpo, dpo, group=4)
    check_same_update(online_dpo.but(rollout=DemonstratedPairs(), selection=BestAndWorst(), objective__given=dpo.objective["given"]), dpo, task=TOY_PAIRS)


def test_it_learns():
    check_learns(online_dpo)
