"""Online DPO: which pairs it learns from, the base's loss on them, and its limit."""

from __future__ import annotations

import math

import pytest

from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.online_dpo import online_dpo
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.selection.filters import BestAndWorst
from tests.papers.checks import check_cut, check_differs, check_learns, check_same
from tests.papers.pairs import PAIRS, loss_and_slopes, seen_in, trained
from tests.toy import group


def test_loss_and_gradient_by_hand():
    # two pairs of one problem, the policy at the reference in the first and 1 nat ahead with the better answer of the second:
    # (log 2 + log(1 + exp(-.1))) / 2; slopes beta sigmoid(-lead) / 2
    pairs, _ = online_dpo.selection.keep([group(1, 0, 0, 1, lengths=[1, 1, 1, 1])], None)
    reference = {"g/0": [-1.0], "g/1": [-2.0], "g/2": [-1.0], "g/3": [-3.0]}
    loss, slopes, _ = loss_and_slopes(online_dpo.objective, pairs, [-1.0, -2.0, -1.0, -2.0], reference=reference)
    assert loss == pytest.approx((math.log(2) + math.log(1 + math.exp(-0.1))) / 2)
    push = 0.05 / (1 + math.exp(0.1))
    assert slopes == pytest.approx([-0.025, 0.025, push, -push])


def test_pairs_are_consecutive_samples_that_differ():
    for _, groups in seen_in(online_dpo, steps=3, group=6):
        for g, kept in zip(groups, trained(groups), strict=True):
            rewards = g.rewards.tolist()
            pairs = [(i, i + 1) for i in (0, 2, 4) if rewards[i] != rewards[i + 1]]
            assert [t.id for t in kept] == [g.trajectories[i].id for pair in pairs for i in pair]


def test_given_pairs_are_not_looked_at():
    assert all(m["tokens/rollout"] > 0 and "loss/given" not in m for m, _ in seen_in(online_dpo, task=PAIRS))


def test_of_two_samples_it_is_the_base_on_a_task_without_pairs():
    check_same(online_dpo, dpo, group=2)
    check_differs(online_dpo, dpo, group=4)
    check_same(online_dpo.but(rollout=DemonstratedPairs(), selection=BestAndWorst(), objective__given=dpo.objective["given"]), dpo, task=PAIRS)


def test_gradient_does_not_depend_on_the_micro_batch():
    check_cut(online_dpo)


def test_it_learns():
    check_learns(online_dpo)
