"""The learning rate by hand, and AdamW's first step."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.updates.optimizers import AdamW, rate


def test_warm_up_is_linear_and_ends_at_the_peak():
    assert [rate(s, peak=8.0, warmup=4, total=10) for s in range(6)] == [2, 4, 6, 8, 8, 8]


def test_without_warm_up_the_first_step_has_the_peak():
    assert rate(0, peak=3.0, warmup=0, total=5) == 3.0


def test_linear_decay_by_hand():
    # warm-up 2, steps 2..6: done 0, 1/4, 1/2, 3/4, 1; from 8 to a quarter of it
    found = [rate(s, peak=8.0, warmup=2, total=7, decay="linear", final=0.25) for s in range(2, 7)]
    assert found == [8.0, 6.5, 5.0, 3.5, 2.0]


def test_cosine_decay_by_hand():
    # (1 + cos(pi x)) / 2 at x = 0, 1/2, 1
    assert [rate(s, peak=4.0, warmup=0, total=3, decay="cosine") for s in range(3)] == pytest.approx([4.0, 2.0, 0.0])


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_run_that_is_longer_than_planned_stays_at_the_final_rate(decay):
    assert rate(99, peak=1.0, warmup=0, total=10, decay=decay, final=0.1) == pytest.approx(0.1)


def test_the_first_step_of_adam_has_the_size_of_the_rate():
    # m / sqrt(v) = g / |g|; decay takes lr * 0.5 * w first
    weight = torch.nn.Parameter(torch.tensor([2.0, -3.0]))
    optimizer = AdamW(weight_decay=0.5).build([weight])
    optimizer.param_groups[0]["lr"] = 0.1
    weight.grad = torch.tensor([7.0, -0.01])
    optimizer.step()
    assert_close(weight.detach(), torch.tensor([2 * 0.95 - 0.1, -3 * 0.95 + 0.1]), rtol=0, atol=1e-5)


def test_the_parts_numbers_reach_the_optimizer():
    group = AdamW(betas=(0.5, 0.6), eps=1e-3, weight_decay=0.2).build([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert (group["betas"], group["eps"], group["weight_decay"], group["lr"]) == ((0.5, 0.6), 1e-3, 0.2, 0.0)
