"""GSPO: the sequence's ratio and its clip by hand, the token form, plain loops, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch.testing import assert_close

from gradus.objectives.ratios import SequenceTokenRatio, TokenRatio
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.gspo import gspo
from gradus.testing.methods import check_different_update, check_learns, check_micro_batches, check_same_update, toy_batch, toy_group
from gradus.types import Frozen
from gradus.types.signals import LogProb

ALONE = gspo.but(objective__kl=None).objective


def moved(lengths, advantages, log_ratios):
    """A batch whose weights have moved by these log-ratios since its start."""
    made = toy_batch(toy_group(*([0.0] * len(lengths)), lengths=lengths), advantages=advantages)
    made = replace(made, old={LogProb(): torch.full((sum(lengths),), -2.0, dtype=torch.float64)})
    return made, (made.old_logprobs + torch.tensor(log_ratios, dtype=torch.float64)).requires_grad_()


def test_loss_and_gradient_by_hand():
    # answer 1: log s = (.0002 + .0004)/2 = .0003, s = 1.0003 within 1.0004; answer 2: log s = .001, above: A = 1 is held at 1.0004
    made, logprobs = moved([2, 1], [2.0, 1.0], [0.0002, 0.0004, 0.001])
    loss, metrics = evaluate(ALONE, {LogProb(): logprobs}, made)
    s = math.exp(0.0003)
    assert_close(loss.item(), -(2 * s + 1.0004) / 2)
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([-s / 2, -s / 2, 0]).double())  # -s A / (2 tokens * 2 answers); the clipped one has none
    assert metrics["clip_share"].mean == 1 / 3


def test_the_token_form_has_the_same_value_and_gradient_for_one_advantage_an_answer():
    made, logprobs = moved([3, 2], [2.0, -1.0], [0.0002, 0.0004, -0.0001, 0.0001, -0.0002])
    found = []
    for terms in (ALONE, gspo.but(objective__kl=None, objective__policy__ratio=SequenceTokenRatio()).objective):
        loss, _ = evaluate(terms, {LogProb(): logprobs}, made)
        found.append((loss.detach(), *torch.autograd.grad(loss, logprobs)))
    assert_close(found[0], found[1])


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(0)
    lengths, given = [2, 5, 1], rng.normal(size=3).tolist()
    made, logprobs = moved(lengths, given, rng.normal(size=8) * 5e-4)
    loss, _ = evaluate(ALONE, {LogProb(): logprobs}, made)
    left, total = iter((logprobs.detach() + 2).tolist()), 0.0
    for n, a in zip(lengths, given, strict=True):
        s = math.exp(sum(next(left) for _ in range(n)) / n)
        total -= min(s * a, min(max(s, 1 - 3e-4), 1 + 4e-4) * a) / 3
    assert_close(loss.item(), total)


def test_without_its_differences_it_is_grpo():
    check_same_update(gspo.but(objective__policy__ratio=TokenRatio(), objective__policy__trust=Clip(0.2, 0.2), update__count=1), grpo)
    check_different_update(gspo, gspo.but(objective__policy__ratio=TokenRatio()))
    check_different_update(gspo, gspo.but(objective__policy__trust=Clip(0.2, 0.2)))


def test_no_cut_changes_it():
    check_micro_batches(gspo.but(objective=Frozen(policy=replace(ALONE["policy"], ratio=SequenceTokenRatio()))))


def test_it_learns():
    check_learns(gspo)
