"""KL between Gaussian steps: hand numbers, torch's own KL, the gradient."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.flow_kl import TransitionKL, transition_kl
from gradus.types.signals import Prediction, Velocity
from tests.objectives.flow_batch import batch_of


def test_by_hand():
    # gain -3/8, spread 1/2: m - m_ref = -3/8 (1, 2) = (-3/8, -6/8); squares 9/64 + 36/64 = 45/64; over 2 * 1/4: 45/32
    v, reference = torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2)
    assert transition_kl(v, reference, torch.tensor([-0.375]), torch.tensor([0.5])).item() == pytest.approx(45 / 32)


def test_it_is_torch_s_kl_between_the_two_steps():
    torch.manual_seed(0)
    v, reference = torch.randn(4, 2).double(), torch.randn(4, 2).double()
    gain, spread, rest = -torch.rand(4).double(), torch.rand(4).double() + 0.1, torch.randn(4, 2).double()
    ours, theirs = (torch.distributions.Normal(rest + gain[:, None] * w, spread[:, None]) for w in (v, reference))
    expected = torch.distributions.kl_divergence(ours, theirs).sum(-1)
    assert_close(transition_kl(v, reference, gain, spread), expected)


def test_loss_and_gradient_by_hand():
    signal = Prediction(player="reference")
    streams = [{"gain": [-1.0, -0.5], "spread": [1.0, 0.5]}, {"gain": [-2.0], "spread": [4.0]}]
    batch = batch_of(streams, [1.0, -1.0], {signal: [[[0.0], [1.0]], [[2.0]]]})
    v = torch.tensor([[1.0], [3.0], [0.0]], dtype=torch.float64, requires_grad=True)
    loss, metrics = TransitionKL(0.5).loss({Velocity(): v}, batch)
    # (gain/spread)^2 d^2 / 2: 1 * 1/2, 1 * 4/2, 1/4 * 4/2 = 0.5, 2, 0.5; mean of (1.25, 0.5) = 0.875, half of it
    assert loss.item() == pytest.approx(0.4375)
    assert metrics["kl"].mean == pytest.approx(1.0)
    loss.backward()
    # (gain/spread)^2 d * 0.5 / (2 * actions): 1 * 0.125, 2 * 0.125, 1/4 * -2 * 0.25
    assert v.grad[:, 0].tolist() == pytest.approx([0.125, 0.25, -0.125])


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="shapes differ"):
        transition_kl(torch.zeros(2, 2), torch.zeros(2, 1), torch.ones(2), torch.ones(2))
