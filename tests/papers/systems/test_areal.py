"""AReaL: the decoupled objective by hand, its gradient and its limits, the advantages, admission, and the synchronous run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.terms import TruncatedImportance, evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.systems.areal import COUPLED, areal
from gradus.testing.methods import (
    advantages_of,
    check_different_update,
    check_micro_batches,
    check_same_update,
    steps_of,
    toy_batch,
    toy_group,
    toy_trajectory,
)
from gradus.training.admission import admitted_until
from gradus.types import Group
from gradus.types.signals import LogProb

COUPLED_OBJECTIVE = areal.but(objective__policy__weight=None, objective__policy__ratio__against="behaviour").objective
SYNCHRONOUS = areal.but(system=None)


def objective(behaviour, proximal, current, advantage=1.0, terms=areal.objective):
    """The mean objective (minus the loss) of tokens with these probabilities, and its gradient with respect to their log-probabilities."""
    answer = toy_trajectory([2] * len(current), logprobs=np.log(behaviour).tolist())
    batch = toy_batch(Group("g", (answer,)), advantages=[advantage])
    batch = replace(batch, old={LogProb(): torch.tensor(np.log(proximal), dtype=torch.float64)})
    now = torch.tensor(np.log(current), dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(terms, {LogProb(): now}, batch)
    loss.backward()
    return -loss.item(), [-x for x in now.grad.tolist()], {name: t.mean for name, t in metrics.items()}


def test_the_decoupled_objective_by_hand():
    value, slopes, metrics = objective([0.2], [0.4], [0.44])
    assert value == pytest.approx(2.2, abs=1e-6)  # w = 2, u = 1.1
    assert slopes == pytest.approx([2.2], abs=1e-6)
    assert metrics["ratio"] == pytest.approx(1.1)
    assert metrics["clip_share"] == 0
    value, slopes, metrics = objective([0.2], [0.4], [0.44], terms=COUPLED_OBJECTIVE)
    assert (value, slopes) == (pytest.approx(1.2), [0.0])  # PPO: the ratio 2.2 is clipped
    assert metrics["clip_share"] == 1


def test_without_age_it_is_the_objective_of_ppo():
    for now in ([0.3, 0.5, 0.41], [0.2, 0.35, 0.6]):
        for advantage in (1.5, -1.5):
            both = [objective([0.4, 0.4, 0.4], [0.4, 0.4, 0.4], now, advantage, terms)[:2] for terms in (areal.objective, COUPLED_OBJECTIVE)]
            assert both[0][0] == pytest.approx(both[1][0], abs=1e-6)
            assert both[0][1] == pytest.approx(both[1][1], abs=1e-6)


def test_the_clip_acts_on_the_step_of_the_update_and_not_on_the_age():
    value, slopes, metrics = objective([0.01, 0.9], [0.5, 0.1], [0.5, 0.1], -2.0)  # at the start of the update
    assert metrics["clip_share"] == 0
    assert value == pytest.approx(-2 * (50 + 1 / 9) / 2, rel=1e-5)
    assert slopes == pytest.approx([-50, -1 / 9], rel=1e-5)
    value, slopes, metrics = objective([0.1, 0.1], [0.2, 0.2], [0.3, 0.1], 1.0)  # u = 1.5 and 0.5
    assert value == pytest.approx((2 * 1.2 + 2 * 0.5) / 2, rel=1e-5)
    assert slopes == pytest.approx([0, 2 * 0.5 / 2], rel=1e-5)
    value, slopes, metrics = objective([0.1, 0.1], [0.2, 0.2], [0.3, 0.1], -1.0)
    assert value == pytest.approx(-(2 * 1.5 + 2 * 0.8) / 2, rel=1e-5)
    assert slopes == pytest.approx([-2 * 1.5 / 2, 0], rel=1e-5)


def test_the_gradient_equals_a_difference_quotient():
    """A perturbation of the current policy alone changes the objective: the weight is a constant."""
    now = np.array([0.42, 0.36])
    _, slopes, _ = objective([0.1, 0.6], [0.4, 0.4], now)
    for i in range(2):
        moved = [now * np.exp(np.eye(2)[i] * step) for step in (1e-6, -1e-6)]
        apart = [objective([0.1, 0.6], [0.4, 0.4], m)[0] for m in moved]
        assert slopes[i] == pytest.approx((apart[0] - apart[1]) / 2e-6, rel=1e-6)


def test_the_weight_has_a_bound_only_on_request():
    assert objective([0.01], [0.5], [0.5])[0] == pytest.approx(50, rel=1e-5)
    capped = areal.but(objective__policy__weight=TruncatedImportance(cap=5.0)).objective
    assert objective([0.01, 0.5], [0.5, 0.5], [0.5, 0.5], terms=capped)[0] == pytest.approx((5 + 1) / 2, rel=1e-5)
    masked = areal.but(objective__policy__weight=MaskedImportance(cap=5.0)).objective
    assert objective([0.01, 0.5], [0.5, 0.5], [0.5, 0.5], terms=masked)[0] == pytest.approx((0 + 1) / 2, rel=1e-5)  # both tokens count in the divisor


def test_the_advantages_by_hand():
    """Rewards 5 and -5 on answers of 1 and 3 tokens: the mean over the four tokens is -2.5, the deviation is sqrt(18.75)."""
    ((right, wrong),) = advantages_of(areal.credit, toy_group(5, -5, lengths=[1, 3]))
    deviation = math.sqrt((7.5**2 + 3 * 2.5**2) / 4)
    assert right == pytest.approx([7.5 / deviation])
    assert wrong == pytest.approx([-2.5 / deviation] * 3)
    assert advantages_of(areal.credit, toy_group(1, 0, lengths=[1, 3])) == [[pytest.approx(right), pytest.approx(wrong)]]  # the scale has no effect
    assert areal.reward.weights["verified"] == 10
    assert areal.reward.constant == -5


def test_the_rule_of_admission():
    """B = 4 and eta = 1: exactly 8 requests before the first update, 12 after it. The number of whole steps equals floor((N - 1) / B) <= v + eta."""
    for version, eta in ((0, 1), (1, 1), (3, 4), (5, 0)):
        admitted = 4 * (admitted_until(version, eta, None) + 1)
        assert admitted == max(n for n in range(1, 100) if (n - 1) // 4 <= version + eta)
    assert [4 * (admitted_until(version, 1, None) + 1) for version in (0, 1)] == [8, 12]


def test_without_staleness_it_trains_to_the_weights_of_the_synchronous_run():
    still = areal.but(system__staleness=0)
    check_same_update(still, SYNCHRONOUS, steps=3)
    check_same_update(still.but(objective=COUPLED_OBJECTIVE), SYNCHRONOUS.but(objective=COUPLED_OBJECTIVE), steps=3)
    check_different_update(SYNCHRONOUS, SYNCHRONOUS.but(update__count=1), steps=3)
    check_different_update(SYNCHRONOUS, reinforce, steps=3)
    check_micro_batches(SYNCHRONOUS, steps=2)


def test_old_tokens_have_another_weight_and_the_clip_acts():
    seen = [metrics for metrics, _ in steps_of(areal.but(system__staleness=2, system__interrupt=False), steps=6, learning_rate=0.5)]
    assert max(metrics["staleness"] for metrics in seen) >= 1
    assert max(metrics["clip_share"] for metrics in seen) > 0
    with_age = areal.but(system__staleness=2)
    assert (with_age.update.count, with_age.system.interrupt) == (4, True)


def test_the_numbers_of_the_paper():
    assert (areal.system.staleness, areal.system.interrupt, areal.update.count, areal.setting.group) == (4, True, 4, 16)
    trust, weight = areal.objective["policy"].trust, areal.objective["policy"].weight
    assert (trust.low, trust.high, weight.cap) == (0.2, 0.2, math.inf)
    assert COUPLED == "areal --objective.policy.weight none --objective.policy.ratio.against behaviour"
