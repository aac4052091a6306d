"""CISPO: the capped weight by hand, in plain loops, and what it is without its difference."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.cispo import cispo
from gradus.papers.bases.dapo import dapo
from gradus.recipe.core import changes
from gradus.testing.methods import (
    check_bound_acts,
    check_different_update,
    check_learns,
    check_same_update,
    toy_batch,
    toy_group,
)
from gradus.types.signals import LogProb


def moved(lengths, advantages, ratios):
    made = toy_batch(toy_group(*([0.0] * len(lengths)), lengths=lengths), advantages=advantages)
    made = replace(made, old={LogProb(): torch.full((sum(lengths),), -3.0, dtype=torch.float64)})
    return made, (made.old_logprobs + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()


def test_gradient_by_hand():
    # weights 5 (of 8), 2, 0.01 over three tokens, the mean over all of them; PPO's clip would leave the first and the last without gradient
    made, logprobs = moved([2, 1], [1.0, -2.0], [8, 2, 0.01])
    loss, metrics = evaluate(cispo.objective, {LogProb(): logprobs}, made)
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([-5, -2, 0.02]).double() / 3)
    assert metrics["capped_share"].mean == 1 / 3
    clipped, _ = evaluate(dapo.objective, {LogProb(): (again := logprobs.detach().requires_grad_())}, made)
    clipped.backward()
    assert again.grad[0] == again.grad[2] == 0


def test_the_gradient_equals_plain_loops():
    rng = np.random.default_rng(4)
    lengths, given, ratios = [3, 1, 4], rng.normal(size=3), np.exp(rng.normal(size=8) * 1.5)
    made, logprobs = moved(lengths, given.tolist(), ratios)
    evaluate(cispo.objective, {LogProb(): logprobs}, made)[0].backward()
    expected, left = [], iter(ratios.tolist())
    for n, a in zip(lengths, given.tolist(), strict=True):
        expected += [-min(next(left), 5.0) * a / 8 for _ in range(n)]
    assert_close(logprobs.grad, torch.tensor(expected).double())


def test_without_its_differences_it_is_dapo():
    assert set(changes(dapo, cispo)) == {"objective.policy.trust"}  # reward and mini-batches are the base's
    check_same_update(cispo.but(objective__policy__trust=dapo.objective["policy"].trust), dapo)
    check_different_update(cispo, dapo)
    check_same_update(cispo.but(update__count=1), dapo.but(update__count=1))  # every ratio is 1, so weight and ratio have one gradient


def test_sixteen_updates_of_a_batch_and_the_cap_acts():
    check_bound_acts(cispo.but(objective__policy__trust__cap=1.2), updates=16, metric="capped_share")


def test_no_cap_is_the_unclipped_ratio():
    gradients = []
    for terms in (cispo.but(objective__policy__trust__cap=math.inf).objective, dapo.but(objective__policy__trust__high=math.inf).objective):
        made, logprobs = moved([2, 1], [1.0, 2.0], [8, 2, 0.01])
        evaluate(terms, {LogProb(): logprobs}, made)[0].backward()
        gradients.append(logprobs.grad)
    assert_close(*gradients)


def test_it_learns():
    check_learns(cispo, steps=30, gain=0.1)
