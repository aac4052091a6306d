"""Distances of heads, and how far tokens look back and ahead, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.types.attention import fai, head_distances, middle_third, waad


def chain(length: int) -> torch.Tensor:
    """Every position attends to the one before it, the first to itself."""
    found = torch.zeros(length, length, dtype=torch.float64)
    found[torch.arange(length), (torch.arange(length) - 1).clamp(min=0)] = 1
    return found


def first(length: int) -> torch.Tensor:
    found = torch.zeros(length, length, dtype=torch.float64)
    found[:, 0] = 1
    return found


def test_a_head_on_the_token_before_and_a_head_on_the_first():
    reply = torch.arange(3, 30)
    assert head_distances(torch.stack([chain(30), first(30)]), reply).tolist() == [1.0, float(np.mean(np.arange(3, 30)))]
    assert waad(chain(30), reply, window=10).tolist() == [1.0] * 27
    assert waad(first(30), reply, window=10).tolist() == [float(min(t, 10)) for t in range(3, 30)]


def test_the_influence_counts_from_10_to_50_tokens_later():
    length = 80
    glob = torch.zeros(length, length, dtype=torch.float64)
    glob[14, 5] = 9.0  # 9 tokens later: too near
    glob[15, 5] = 2.0
    glob[55, 5] = 4.0
    glob[56, 5] = 9.0  # 51 later: too far
    glob[79, 66] = 3.0
    found = fai(glob, torch.arange(length), near=10, far=50)
    assert found[5].item() == pytest.approx(6 / 41)
    assert found[66].item() == pytest.approx(3 / 4)  # positions 76 to 79 are there
    assert not found[70:].any()  # none is 10 later


def test_the_influence_counts_tokens_of_the_reply_alone():
    """Positions 12 and 13 are an answer of the environment: of the tokens that stand 10 and more after the first, 2, only 14 and 15 count."""
    glob = torch.zeros(16, 16, dtype=torch.float64)
    glob[12, 2] = glob[13, 2] = 9.0
    glob[14, 2] = 3.0
    reply = torch.tensor([2, 3, 4, 5, 6, 7, 8, 9, 14, 15])
    assert fai(glob, reply, near=10, far=50).tolist() == [1.5] + [0.0] * 9


def test_the_middle_third_of_the_layers():
    assert middle_third(1) == (0,)
    assert middle_third(4) == (1, 2)
    assert middle_third(3) == (1, 2)
    assert middle_third(36) == (12, 15, 18, 21, 24)
