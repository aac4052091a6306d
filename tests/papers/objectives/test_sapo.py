"""SAPO: the gate's gradient by hand, its limits, what it leaves of tokens that drifted, and that it acts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradus.objectives.ratios import Probability, SequenceRatio
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip, Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.sapo import SoftGate, gated_surrogate, sapo
from gradus.recipe.asks import check_asks
from gradus.testing.methods import (
    check_bound_acts,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    toy_batch,
    toy_group,
)
from gradus.types import UserError
from gradus.types.signals import LogProb


def slopes(trust, ratios, advantages):
    """The gradient of each action's loss by its log-ratio."""
    at = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    losses, _ = trust.losses(at, torch.tensor(advantages, dtype=torch.float64), None)
    losses.sum().backward()
    return at.grad.tolist()


def moved(term, ratios):
    """The gradient of a term by the log-probabilities of one right answer, which have these ratios to the policy that sampled."""
    rows = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    batch = replace(toy_batch(toy_group(1.0, lengths=[len(ratios)])), old={LogProb(): torch.zeros(len(ratios), dtype=torch.float64)})
    evaluate({"policy": term}, {LogProb(): rows}, batch)[0].backward()
    return rows.grad.tolist()


def weights(ratios, advantages, **taus):
    at = torch.tensor(ratios, dtype=torch.float64).log()
    return gated_surrogate(at, torch.tensor(advantages, dtype=torch.float64), **taus)[1].tolist()


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("advantage", [1.7, -0.6])
def test_at_ratio_one_the_gradient_is_the_policy_gradient(tau, advantage):
    assert slopes(SoftGate(tau, tau), [1.0], [advantage]) == pytest.approx([-advantage], abs=1e-12)


def test_weights_by_hand():
    # sech^2(tau (r - 1) / 2): at r = 2 of 0.5 and 0.525, at r = 0.5 of 0.25 and 0.2625
    taus = {"positive": 1.0, "negative": 1.05}
    assert weights([2, 2, 0.5, 0.5], [1, -1, 1, -1], **taus) == pytest.approx([0.7864, 0.7681, 0.9400, 0.9341], abs=5e-5)
    # the gradient is -w r A
    assert slopes(SoftGate(), [2, 2, 0.5, 0.5], [1, -1, 1, -1]) == pytest.approx([-1.5729, 1.5362, -0.4700, 0.4671], abs=1e-4)


def test_values_by_hand():
    # 4 sigmoid(0) = 2; 4 / 1.05 sigmoid(1.05) = 3.8095 * 0.7408 = 2.8220
    at = torch.tensor([1.0, 2.0], dtype=torch.float64).log()
    losses, metrics = SoftGate().losses(at, torch.tensor([1.0, -1.0], dtype=torch.float64), None)
    assert losses.tolist() == pytest.approx([-2.0, 2.8220], abs=5e-5)
    assert metrics["damped"].mean == pytest.approx((1 - 0.7681) / 2, abs=5e-5)


def test_a_token_that_the_clip_drops_keeps_some_gradient():
    assert slopes(Clip(0.2, 0.2), [3.0], [1.0]) == [0.0]
    assert slopes(SoftGate(), [3.0], [1.0]) == pytest.approx([-3 / math.cosh(1) ** 2])


def test_one_token_that_drifted_takes_nothing_from_the_others():
    ratios, pushes = [5.0] + [1.0] * 10, [1.0] * 11
    kept = weights(ratios, pushes, positive=1.0, negative=1.05)
    assert kept[1:] == pytest.approx([1.0] * 10)
    assert kept[0] == pytest.approx(1 / math.cosh(2) ** 2)
    assert moved(sapo.objective["policy"], ratios)[1:] == pytest.approx([-1 / 11] * 10)
    whole = replace(sapo.objective["policy"], ratio=SequenceRatio(), trust=Clip(3e-4, 4e-4))
    assert moved(whole, ratios) == [0.0] * 11  # the ratio of the answer is 5^(1/11) = 1.16: all tokens are clipped


def test_tau_depends_on_the_sign_of_the_advantage():
    low, high = SoftGate(0.5, 3.0), SoftGate(3.0, 0.5)
    assert slopes(low, [2.0], [1.0]) == pytest.approx([-x for x in slopes(high, [2.0], [-1.0])])
    assert slopes(low, [2.0], [1.0])[0] < slopes(high, [2.0], [1.0])[0] < 0
    assert slopes(low, [2.0], [0.0]) == [0.0]


@given(st.floats(-3, 1.5), st.floats(-2, 2), st.floats(0.1, 3), st.floats(0.1, 3))
def test_the_gradient_is_the_weight_times_the_policy_gradient(log_ratio, advantage, positive, negative):
    tau = positive if advantage > 0 else negative
    ratio = math.exp(log_ratio)
    p = 1 / (1 + math.exp(-tau * (ratio - 1)))
    (slope,) = slopes(SoftGate(positive, negative), [ratio], [advantage])
    assert slope == pytest.approx(-4 * p * (1 - p) * ratio * advantage, rel=1e-9, abs=1e-12)


def test_the_temperatures_are_those_of_the_paper():
    assert sapo.objective["policy"].trust == SoftGate(positive=1.0, negative=1.05)


def test_without_a_temperature_nothing_is_gated():
    ratios, pushes = [0.2, 1.0, 3.0, 6.0], [1.0, -1.0, 1.0, -1.0]
    assert slopes(SoftGate(1e-6, 1e-6), ratios, pushes) == pytest.approx(slopes(Unclipped(), ratios, pushes), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ratios_without_bound_have_no_gradient_and_no_error(dtype):
    at = torch.tensor([-200.0, 60.0, 200.0], dtype=dtype, requires_grad=True)
    losses, metrics = SoftGate().losses(at, torch.tensor([1.0, 1.0, -1.0], dtype=dtype), None)
    losses.sum().backward()
    assert at.grad.abs().max() < 1e-30
    assert torch.isfinite(losses).all()
    assert metrics["damped"].mean == pytest.approx((1 - 1 / math.cosh(0.5) ** 2 + 2) / 3)


def test_every_answer_counts_alike():
    _, found, _ = loss_and_gradient(sapo.objective, [toy_group(1, 0, lengths=[1, 3])], [0.0] * 4, advantages=[1.0, -1.0])
    assert found == pytest.approx([-1 / 2, 1 / 6, 1 / 6, 1 / 6])


def test_without_its_differences_it_is_grpo():
    plain = sapo.but(objective=grpo.objective, players__reference=grpo.players["reference"], update__count=1)
    check_same_update(plain, grpo)
    check_different_update(sapo, sapo.but(objective__policy__trust=Unclipped()), learning_rate=0.1)


def test_with_one_update_per_batch_the_gate_is_open():
    once = sapo.but(objective__policy__trust=SoftGate(1.0, 1.0), update__count=1)
    check_same_update(once, once.but(objective__policy__trust=Unclipped()))


def test_the_gate_acts():
    check_bound_acts(sapo, updates=4, metric="damped")


@pytest.mark.nightly
def test_it_learns():
    check_learns(sapo)


def test_the_gradient_does_not_depend_on_the_micro_batch():
    check_micro_batches(sapo)


def test_a_probability_is_no_ratio_around_one():
    with pytest.raises(UserError, match="does not support the ratio Probability"):
        check_asks(sapo.but(objective__policy__ratio=Probability()))


@pytest.mark.parametrize("field", ["positive", "negative"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_is_positive(field, value):
    with pytest.raises(UserError, match=field):
        SoftGate(**{field: value})
