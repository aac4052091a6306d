"""KL estimators: by hand, unbiased by enumeration, and the term that averages one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.averages import SequenceMean, TokenMean
from gradus.objectives.kl import KL, kl_estimate
from gradus.types.signals import LogProb, LogProbs
from tests.toy import batch, group

POLICY, REFERENCE = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.2, 0.6]).double()


def test_estimates_by_hand():
    # d = log(pi_ref / pi) = log 2: k1 = -log 2, k2 = (log 2)^2 / 2, k3 = 2 - log 2 - 1
    now, reference = torch.tensor([math.log(0.25)]).double(), torch.tensor([math.log(0.5)]).double()
    for estimator, value in (("k1", -math.log(2)), ("k2", math.log(2) ** 2 / 2), ("k3", 1 - math.log(2))):
        assert kl_estimate(now, reference, estimator=estimator).item() == pytest.approx(value)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_mean_over_the_policy_is_the_divergence(estimator):
    exact = (POLICY * (POLICY / REFERENCE).log()).sum()
    assert_close((POLICY * kl_estimate(POLICY.log(), REFERENCE.log(), estimator=estimator)).sum(), exact)


def test_the_mean_gradient_of_k2_is_that_of_the_divergence():
    logits = POLICY.log().clone().requires_grad_()
    exact = (logits.softmax(-1) * (logits.log_softmax(-1) - REFERENCE.log())).sum()
    (expected,) = torch.autograd.grad(exact, logits)
    sampled = (POLICY * kl_estimate(logits.log_softmax(-1), REFERENCE.log(), estimator="k2")).sum()
    assert_close(torch.autograd.grad(sampled, logits)[0], expected)


def test_k3_is_never_negative_and_keeps_its_digits():
    gaps = torch.tensor([1e-9, -1e-9, 0.0, 3.0, -3.0]).double()
    values = kl_estimate(torch.zeros(5).double(), gaps, estimator="k3")
    assert bool((values >= 0).all())
    assert_close(values[:2], torch.full((2,), 5e-19).double(), rtol=1e-3, atol=0)  # d^2 / 2


def test_an_unknown_estimator_is_named():
    with pytest.raises(ValueError, match="k4"):
        kl_estimate(torch.zeros(1), torch.zeros(1), estimator="k4")  # type: ignore[arg-type]


@pytest.mark.parametrize(("average", "expected"), [(SequenceMean(), (1.0 + 1.5) / 2), (TokenMean(), (1 + 1 + 2) / 3)])
def test_the_term_averages(average, expected):
    term = KL(coefficient=0.5, estimator="k1", average=average)
    rows = {LogProbs(player="reference"): {"g/0": np.array([-2.0]), "g/1": np.array([-2.0, -3.0])}}
    loss, metrics = term.loss({LogProb(): torch.full((3,), -1.0).double()}, batch(group(1, 0, lengths=[1, 2]), signals=rows))
    assert loss.item() == pytest.approx(0.5 * expected)  # k1 = 1, 1, 2
    assert metrics["kl"].mean == pytest.approx(4 / 3)
