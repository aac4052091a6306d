"""Entropy-SFT: the chosen tokens by hand, the loss, and SFT with all tokens."""

from __future__ import annotations

import pytest
import torch

from gradus.papers.bases.sft import sft
from gradus.papers.rewards.light_if_sft import HardImitation, hardest, light_if_sft
from gradus.testing.methods import toy_batch, toy_group, weights_after
from gradus.types import UserError
from gradus.types.signals import EntropyOf, LogProb


def test_the_hardest_tokens():
    logprobs = torch.tensor([-1.0, -2.0, -0.1, -2.0, -3.0, -0.2, -0.3, -0.4, -0.5, -0.6])
    entropies = torch.tensor([0.0, 1.5, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    # delta with 0.8 H: 1, 0.8, 0.1, 2, 0.6, ...
    chosen = hardest(logprobs, entropies, share=0.2, coefficient=0.8)
    assert chosen.nonzero().flatten().tolist() == [0, 3]  # exactly 2 of 10
    assert hardest(logprobs, entropies, share=0.01, coefficient=0.0).nonzero().flatten().tolist() == [4]
    assert hardest(logprobs, entropies, share=1.0, coefficient=0.8).all()


def evaluated(term, logprobs, entropies):
    batch = toy_batch(toy_group(1, 1, lengths=[2, 3]))
    ours = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    theirs = torch.tensor(entropies, dtype=torch.float64, requires_grad=True)
    loss, metrics = term.loss({LogProb(): ours, EntropyOf(): theirs}, batch)
    loss.backward()
    return loss.item(), ours.grad.tolist(), theirs.grad, metrics


def test_the_loss_is_the_mean_over_the_chosen():
    loss, slopes, of_entropy, _metrics = evaluated(HardImitation(0.4, 0.8), [-1.0, -2.0, -0.5, -3.0, -0.1], [0, 0, 0, 5.0, 0])
    assert loss == pytest.approx((1.0 + 2.0) / 2)  # the fourth has 3 - 4 = -1
    assert slopes == pytest.approx([-0.5, -0.5, 0, 0, 0])
    assert of_entropy is None
    assert evaluated(HardImitation(1.0), [-1.0, -2.0, -0.5, -3.0, -0.1], [0] * 5)[0] == pytest.approx(6.6 / 5)


def test_with_all_tokens_it_is_sft():
    one, other, hard = (weights_after(r, steps=3)["policy.logits"] for r in (light_if_sft.but(objective__imitation__share=1.0), sft, light_if_sft))
    assert torch.allclose(one, other, atol=1e-12)
    assert not torch.allclose(hard, other)


def test_ranges():
    with pytest.raises(UserError, match="share"):
        HardImitation(share=0.0)
