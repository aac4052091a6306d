"""Trust regions: values and gradients by hand, their limits, extreme ratios."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.trust import (
    CappedWeight,
    Clip,
    DualClip,
    EntropyClip,
    Shaped,
    Unclipped,
    WeightedLikelihood,
    clipped_surrogate,
    entropy_bounds,
    surrogate,
)
from gradus.types import UserError
from gradus.types.signals import Entropy


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_clipped_surrogate_by_hand():
    log_ratio = numbers(1.5, 1.5, 0.5, 0.5).log().requires_grad_()
    loss = clipped_surrogate(log_ratio, numbers(1, -1, 1, -1), low=0.2, high=0.2)
    assert_close(loss, numbers(-1.2, 1.5, -0.5, 0.8))  # -min(1.5, 1.2); -min(-1.5, -1.2); -min(.5, .8); -min(-.5, -.8)
    loss.sum().backward()
    assert_close(log_ratio.grad, numbers(0, 1.5, -0.5, 0))  # -r A where the plain branch is taken, else 0


def test_the_two_bounds_are_their_own():
    losses, metrics = Clip(low=0.1, high=0.3).losses(numbers(1.25, 0.85, 1.35, 0.95).log(), numbers(1, -1, 1, -1), None)
    assert_close(losses, numbers(-1.25, 0.9, -1.3, 0.95))
    assert metrics["clip_share"].mean == 0.5  # the second and the third


def test_at_ratio_one_every_region_gives_the_policy_gradient():
    for trust in (Unclipped(), Clip(), DualClip()):
        log_ratio = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        losses, _ = trust.losses(log_ratio, numbers(2, -1, 0), None)
        losses.sum().backward()
        assert_close(losses, numbers(-2, 1, 0))
        assert_close(log_ratio.grad, numbers(-2, 1, 0))


def test_wide_bounds_do_not_clip():
    log_ratio, advantages = torch.randn(50, generator=torch.Generator().manual_seed(0)).double(), torch.linspace(-2, 2, 50).double()
    assert torch.equal(Clip(1.0, 1e9).losses(log_ratio, advantages, None)[0], surrogate(log_ratio, advantages))


def test_dual_clip_bounds_the_loss_of_a_bad_action():
    # A = -1: r = 5 costs 5 under the clip, 3 under the ceiling; r = 2 costs 2; A = 1: nothing changes
    losses, metrics = DualClip(ceiling=3.0).losses(numbers(5, 2, 5).log(), numbers(-1, -1, 1), None)
    assert_close(losses, numbers(3, 2, -1.2))
    assert metrics["ceiling_share"].mean == pytest.approx(1 / 3)


def test_dual_clip_without_ceiling_is_clip():
    log_ratio, advantages = numbers(2.0, -2.0, 1.0), numbers(-1, 1, -0.5)
    assert torch.equal(DualClip(ceiling=math.inf).losses(log_ratio, advantages, None)[0], Clip().losses(log_ratio, advantages, None)[0])


def test_the_upper_bound_grows_with_the_entropy():
    assert_close(entropy_bounds(numbers(0, 1, 2), high=0.2, most=0.28), numbers(0.2, 0.24, 0.28))
    assert_close(entropy_bounds(numbers(0, 0), high=0.2, most=0.28), numbers(0.2, 0.2))
    assert entropy_bounds(numbers(), high=0.2, most=0.28).tolist() == []


@pytest.mark.parametrize(
    ("ratio", "advantage", "slopes"),
    [
        (1.25, 1, [0, -1.25]),  # above 1 + .2, below 1 + .28
        (1.3, 1, [0, 0]),
        (1.1, 1, [-1.1, -1.1]),
        (0.7, -1, [0, 0]),  # the lower bound is 1 - .2 for both
        (1.5, -1, [1.5, 1.5]),
    ],
)
def test_only_an_uncertain_action_may_rise_further(ratio, advantage, slopes):
    log_ratio = numbers(ratio, ratio).log().requires_grad_()
    losses, metrics = EntropyClip().losses(log_ratio, numbers(advantage, advantage), SimpleNamespace(signals={Entropy(): numbers(0, 1)}))
    losses.sum().backward()
    assert_close(log_ratio.grad, numbers(*slopes))
    assert float(metrics["clip_share"].mean) == slopes.count(0) / 2


def test_without_entropy_it_is_the_clip():
    log_ratio, advantages = numbers(0.3, -0.3, 0.1, 0.4), numbers(1, -1, 1, -1)
    batch = SimpleNamespace(signals={Entropy(): numbers(0, 0, 0, 0)})
    assert torch.equal(EntropyClip().losses(log_ratio, advantages, batch)[0], Clip().losses(log_ratio, advantages, None)[0])


def test_an_action_that_became_impossible_has_a_finite_gradient():
    log_ratio = numbers(-800, -800).requires_grad_()
    clipped_surrogate(log_ratio, numbers(1, -1), low=0.2, high=0.2).sum().backward()
    assert_close(log_ratio.grad, numbers(0, 0))


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"shapes differ.*\(2,\).*\(1,\)"):
        clipped_surrogate(numbers(0, 0), numbers(1), low=0.2, high=0.2)


def test_a_capped_weight_drops_no_gradient():
    # cap 4: ratio 6 weighs 4, 2 weighs 2, 0.1 weighs 0.1 (no floor); the gradient is -weight A whatever the sign of A
    log_ratio = numbers(6, 6, 2, 0.1).log().requires_grad_()
    losses, metrics = CappedWeight(cap=4.0).losses(log_ratio, numbers(1, -1, 1, 2), None)
    assert_close(losses, numbers(-4, 4, -2, -0.2))
    losses.sum().backward()
    assert_close(log_ratio.grad, numbers(-4, 4, -2, -0.2))
    assert metrics["capped_share"].mean == 0.5
    floored, _ = CappedWeight(cap=4.0, floor=0.5).losses(log_ratio.detach(), numbers(1, 1, 1, 1), None)
    assert_close(floored, numbers(-4, -4, -2, -0.5))


def test_a_weight_without_bounds_has_the_gradient_of_the_surrogate():
    gradients = []
    for trust in (CappedWeight(cap=math.inf), Unclipped()):
        log_ratio = numbers(1.3, -0.7, 0.2).requires_grad_()
        trust.losses(log_ratio, numbers(1, -2, 0.5), None)[0].sum().backward()
        gradients.append(log_ratio.grad)
    assert_close(*gradients)


def test_a_floor_above_the_cap_is_refused():
    with pytest.raises(UserError, match=r"floor is 3.0, which is above CappedWeight.cap \(2.0\)"):
        CappedWeight(cap=2.0, floor=3.0)


def test_shaping_lifts_unlikely_actions():
    # gamma .1: f(.01) = .01/.11 = .0909, f(.9) = .9; f'(p) = .1/(p + .1)^2: 8.264 at .01, .1 at .9; d f / d log p = p f'(p)
    log_ratio = numbers(0.01, 0.9).log().requires_grad_()
    losses, _ = Shaped(0.1).losses(log_ratio, numbers(1, -2), None)
    assert_close(losses, numbers(-0.01 / 0.11, 2 * 0.9))
    losses.sum().backward()
    assert_close(log_ratio.grad, numbers(-0.01 * 0.1 / 0.11**2, 2 * 0.9 * 0.1))
    far = Shaped(0.1).losses(numbers(-800, 800), numbers(1, 1), None)[0]
    assert_close(far, numbers(0, -1))


def test_the_weighted_likelihood_has_no_ratio():
    logprobs = numbers(-0.5, -2.0).requires_grad_()
    losses, metrics = WeightedLikelihood().losses(logprobs, numbers(0.7, -0.3), None)
    assert_close(losses, numbers(0.35, -0.6))
    losses.sum().backward()
    assert_close(logprobs.grad, numbers(-0.7, 0.3))
    assert metrics == {}
