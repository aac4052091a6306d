"""Imitation of right answers: by hand, of the whole mini-batch, nothing where nothing is right."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from gradus.objectives.imitation import ImitateRight
from gradus.testing.methods import toy_batch, toy_group
from gradus.types.signals import LogProb


def test_by_hand_and_in_slices():
    # right: answers of 1 and 2 tokens; .1 * -(log pi summed) / 3; the wrong one's tokens have no gradient
    made = toy_batch(toy_group(1, 0, 1, lengths=[1, 3, 2]))
    logprobs = torch.tensor([-1, -9, -9, -9, -2, -3], dtype=torch.float64, requires_grad=True)
    loss, metrics = ImitateRight(0.1).loss({LogProb(): logprobs}, made)
    assert_close(loss.item(), 0.1 * 6 / 3)
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([1, 0, 0, 0, 1, 1]).double() * -0.1 / 3)
    assert metrics["right_share"].mean == 0.5
    pieces = [made.slice([i]) for i in range(3)]
    parts = [ImitateRight(0.1).loss({LogProb(): logprobs.detach()[rows]}, piece)[0] for piece, rows in pieces]
    assert_close(sum(parts), loss.detach())


def test_without_a_right_answer_nothing_is_added():
    logprobs = torch.full((4,), -1.0, dtype=torch.float64, requires_grad=True)
    loss, _ = ImitateRight().loss({LogProb(): logprobs}, toy_batch(toy_group(0, 0)))
    loss.backward()
    assert loss.item() == 0
    assert not logprobs.grad.any()
