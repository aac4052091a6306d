"""REINFORCE: its gradient by hand and in expectation, by enumerating a policy of one step."""

from __future__ import annotations

import numpy as np
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.testing.methods import toy_batch, toy_group, train_toy
from gradus.types.signals import LogProb


def test_loss_gradient_by_hand():
    # rewards 1 0 2: mean 1, advantages 0 -1 1; -A / 3 for every token
    made = toy_group(1, 0, 2, lengths=[2, 1, 2])
    (row,) = reinforce.credit.assign([made], {})
    assert [c.advantages.tolist() for c in row] == [[0, 0], [-1], [1, 1]]
    logprobs = torch.full((5,), -1.0, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(reinforce.objective, {LogProb(): logprobs}, toy_batch(made, advantages=[0, -1, 1]))
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([0, 0, 1, -1, -1], dtype=torch.float64) / 3)


def test_the_mean_gradient_is_that_of_the_expected_reward():
    logits, rewards = torch.tensor([0.3, -1.0, 0.5]).double().requires_grad_(), torch.tensor([1.0, 0.2, -2.0]).double()
    (exact,) = torch.autograd.grad((logits.softmax(-1) * rewards).sum(), logits)
    mean = torch.zeros(3).double()
    for choice in range(3):
        made = toy_batch(toy_group(0, lengths=[1]), advantages=[float(rewards[choice])])
        loss, _ = evaluate(reinforce.objective, {LogProb(): logits.log_softmax(-1)[choice : choice + 1]}, made)
        mean -= logits.detach().softmax(-1)[choice] * torch.autograd.grad(loss, logits)[0]
    assert_close(mean, exact)


def test_it_learns():
    seen = []
    train_toy(reinforce, steps=50, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.15
