"""IPO: the squared loss by hand, its gradient that turns round, plain loops, and that the lead stops at its target."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradus.objectives.preference import Logistic
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.ipo import ipo
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

LOG2 = math.log(2)


def test_loss_and_gradient_by_hand():
    # h_w = log(.5/.25) = log 2, h_l = log(.5/.5) + log(.25/.5) = -log 2: lead 2 log 2, target 1 / (2 * .1) = 5
    reference = {"g/0": np.log([0.25]), "g/1": np.log([0.5, 0.5])}
    loss, slopes, _ = loss_and_gradient(ipo.objective, [toy_group(1, 0, lengths=[1, 2])], np.log([0.5, 0.5, 0.25]), signals={REFERENCE: reference})
    assert loss == pytest.approx((2 * LOG2 - 5) ** 2)
    push = 2 * (5 - 2 * LOG2)
    assert slopes == pytest.approx([-push, push, push])


def test_beyond_the_target_the_gradient_turns_round():
    reference = {"g/0": [-8.0], "g/1": [-1.0]}
    for lead, sign in ((4.9, -1), (5.0, 0), (5.1, 1)):
        slopes = loss_and_gradient(ipo.objective, [toy_group(1, 0, lengths=[1, 1])], [-8.0 + lead, -1.0], signals={REFERENCE: reference})[1]
        assert np.sign(np.round(slopes, 9)).tolist() == [sign, -sign]


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(5)
    groups = [toy_group(1, 0, lengths=[2, 4], key="a"), toy_group(0.25, 0.5, lengths=[3, 1], key="b")]
    reference = {t.id: -rng.uniform(0, 2, t.actions) for g in groups for t in g.trajectories}
    logprobs = -rng.uniform(0, 2, 10)
    left, total = iter(logprobs.tolist()), 0.0
    for g in groups:
        h = [sum(next(left) - r for r in reference[t.id]) for t in g.trajectories]
        better = 0 if g.trajectories[0].value > g.trajectories[1].value else 1
        total += (h[better] - h[1 - better] - 5) ** 2 / 2
    assert loss_and_gradient(ipo.objective, groups, logprobs, signals={REFERENCE: reference})[0] == pytest.approx(total, abs=1e-12)


def test_without_its_differences_it_is_dpo():
    check_same_update(ipo.but(objective__sampled__link=Logistic(), objective__given__link=Logistic()), dpo)
    check_different_update(ipo, dpo)


def test_gradient_does_not_depend_on_the_micro_batch_where_pairs_are_given():
    check_micro_batches(ipo, task=TOY_PAIRS)


def test_on_pairs_without_exception_the_lead_stops_at_its_target():
    # tau 1: the target is a lead of 1/2 nat; DPO's grows on
    ours = steps_of(ipo.but(objective__given__beta=1.0), task=TOY_PAIRS, steps=60)[-1][0]["margin"]
    theirs = steps_of(dpo.but(objective__given__beta=1.0), task=TOY_PAIRS, steps=60)[-1][0]["margin"]
    assert ours == pytest.approx(0.5, abs=0.05)
    assert theirs > 2


def test_it_learns_from_its_own_pairs():
    check_learns(ipo, gain=0.08)
