"""KL estimators: by hand, unbiased by enumeration, and the term that averages one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.kl import KL, SquaredLogRatio, kl_estimate
from gradus.objectives.terms import TruncatedImportance, evaluate
from gradus.recipe.overrides import override_all
from gradus.recipe.registry import recipe
from gradus.testing.methods import toy_batch, toy_group, toy_run, train_toy
from gradus.types.signals import LogProb, LogProbs

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
    loss, metrics = term.loss({LogProb(): torch.full((3,), -1.0).double()}, toy_batch(toy_group(1, 0, lengths=[1, 2]), signals=rows))
    assert loss.item() == pytest.approx(0.5 * expected)  # k1 = 1, 1, 2
    assert metrics["kl"].mean == pytest.approx(4 / 3)


@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_the_gradient_of_k2_is_that_of_k3_times_the_ratio_while_the_ratio_is_one(drift):
    """What docs/from_trl.md says of TRL's bias correction: r k3 with gradient in r = pi / pi_old."""
    now, reference = torch.tensor([-0.5, -1.0, -2.0], dtype=torch.float64).requires_grad_(), torch.tensor([-0.7, -0.4, -2.0]).double()
    k2, k3 = (kl_estimate(now, reference, estimator=e) for e in ("k2", "k3"))
    ratio = (now - (now.detach() - drift)).exp()
    (plain,), (corrected,) = (torch.autograd.grad(x.sum(), now) for x in (k2, ratio * k3))
    assert torch.allclose(plain, corrected) == (drift == 0.0)


@pytest.mark.parametrize(("estimator", "slope"), [("k1", lambda d: 1.0), ("k2", lambda d: -d), ("k3", lambda d: 1 - math.exp(d))])
def test_gradients_of_the_term_equal_the_formula(estimator, slope):
    """d = log pi_ref - log pi: d k1 = 1, d k2 = -d, d k3 = 1 - exp(d) with respect to log pi."""
    rng = np.random.default_rng(6)
    theirs = {"g/0": rng.normal(size=2), "g/1": rng.normal(size=3)}
    made = toy_batch(toy_group(1, 0, lengths=[2, 3]), signals={LogProbs(player="reference"): theirs})
    now = torch.from_numpy(rng.normal(size=5)).requires_grad_()
    KL(coefficient=0.5, estimator=estimator).loss({LogProb(): now}, made)[0].backward()
    gaps = [*theirs["g/0"], *theirs["g/1"]] - now.detach().numpy()
    expected = [0.5 * slope(d) / (2 * n) for d, n in zip(gaps.tolist(), [2, 2, 3, 3, 3], strict=True)]
    assert_close(now.grad, torch.tensor(expected).double())


# What stands on the command line for each reference, and its weights after two updates that left the policy at w1 and w2, from w0.
REFERENCES = {
    "frozen": ([("players.reference.model", "Copy")], lambda w: w[0]),
    "synced": ([("players.reference.model", "MovingAverage(decay=0.0, every=2)")], lambda w: w[2]),
    "lagged": ([("players.reference.model", "Lagged"), ("players.reference.model.updates", "1")], lambda w: w[1]),
    "average": ([("players.reference.model", "MovingAverage(decay=0.75)")], lambda w: 0.75**2 * w[0] + 0.75 * 0.25 * w[1] + 0.25 * w[2]),
}
PLACES = {
    "loss": lambda estimator: [("objective.kl.estimator", estimator), ("objective.kl.coefficient", "0.1")],
    "reward": lambda estimator: [
        ("objective.kl", "none"),
        ("credit", "KLPenalty"),
        ("credit.estimator", estimator),
        ("credit.coefficient", "0.1"),
    ],
}


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_every_place_estimator_and_reference_is_said_by_fields(estimator, place, reference):
    fields, expected = REFERENCES[reference]
    made = override_all(recipe("grpo"), [*fields, *PLACES[place](estimator)])
    seen = []
    run = train_toy(made, steps=3, watch=lambda run, metrics, groups: seen.append(copied(run)))
    start = toy_run(made).players["policy"].policy.network.logits.detach()
    policy = [start, *(s["policy"] for s in seen)]
    assert_close(seen[1]["reference"], expected(policy), rtol=0, atol=1e-12)
    without = override_all(made, [("credit.coefficient" if place == "reward" else "objective.kl.coefficient", "0.0")])
    apart = train_toy(without, steps=3).players["policy"].policy.network.logits
    assert not torch.equal(apart, run.players["policy"].policy.network.logits)  # the penalty reaches the weights


def copied(run):
    return {name: p.policy.network.logits.detach().clone() for name, p in run.players.items()}


def test_weights_of_actions_and_factors_multiply_the_estimate():
    made = toy_batch(toy_group(1, lengths=[2]), advantages=[0.0], signals={LogProbs(player="reference"): {"g/0": np.array([-1.0, -1.0])}})
    made = replace(made, weight=torch.tensor([0.0, 3.0], dtype=torch.float64), behaviour_logprobs=torch.tensor([-2.0, -2 - math.log(0.5)]).double())
    logprobs = torch.tensor([-2.0, -2.0], dtype=torch.float64)
    plain = KL(2.0, "k1", average=TokenMean())  # d = 1 at both actions, so k1 is -1
    assert plain.loss({LogProb(): logprobs}, made)[0].item() == pytest.approx(2 * -3 / 2)
    corrected = replace(plain, weight=TruncatedImportance(cap=2.0))  # old / behaviour is 1/2 at the second
    assert corrected.loss({LogProb(): logprobs}, made)[0].item() == pytest.approx(2 * -3 * 0.5 / 2)


def test_squared_log_ratios_by_hand():
    # .1 / 2 * mean of (log 2)^2, 0: the gradient of the first is .1 log 2 / 2
    made = toy_batch(toy_group(0.0, 0.0, lengths=[1, 1]), advantages=[0.0, 0.0])
    made = replace(made, old={LogProb(): torch.full((2,), -3.0, dtype=torch.float64)})
    logprobs = (made.old_logprobs + torch.tensor([2.0, 1.0], dtype=torch.float64).log()).requires_grad_()
    loss, metrics = evaluate({"near": SquaredLogRatio(0.1)}, {LogProb(): logprobs}, made)
    loss.backward()
    assert_close(loss.item(), 0.05 * math.log(2) ** 2 / 2)
    assert_close(logprobs.grad, torch.tensor([0.1 * math.log(2) / 2, 0.0]).double())
    assert metrics["squared_log_ratio"].mean == pytest.approx(math.log(2) ** 2 / 2)
    fresh = replace(made, old={})
    assert evaluate({"near": SquaredLogRatio(0.1)}, {LogProb(): logprobs}, fresh)[0].item() == 0.0
