"""Frequencies by hand for every way of stretching."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from gradus.policies.rope import DynamicScaling, LinearScaling, Llama3Scaling, LongScaling, Rope, YarnScaling, frequencies


def test_plain_and_linear():
    # 10000^(-0/4) = 1, 10000^(-2/4) = 0.01
    assert_close(frequencies(Rope(), 4)[0], torch.tensor([1.0, 0.01]))
    assert_close(frequencies(Rope(scaling=LinearScaling(4.0)), 4)[0], torch.tensor([0.25, 0.0025]))
    assert_close(frequencies(Rope(scaling=DynamicScaling(4.0)), 4)[0], torch.tensor([1.0, 0.01]))  # within the context nothing is scaled


def test_a_share_of_the_head():
    # Half of 8 dimensions: two pairs, as a head of 4 has them
    assert_close(frequencies(Rope(share=0.5), 8)[0], torch.tensor([1.0, 0.01]))


def test_llama3_by_hand():
    scaling = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=1024)
    (plain, _), (scaled, factor) = frequencies(Rope(), 16), frequencies(Rope(scaling=scaling), 16)
    assert factor == 1
    laps = 1024 * plain / (2 * torch.pi)
    assert (laps > 4).sum() > 0  # fast ones stay as they are
    assert_close(scaled[laps > 4], plain[laps > 4])
    assert (laps < 1).sum() > 0  # slow ones are 8 times slower
    assert_close(scaled[laps < 1], plain[laps < 1] / 8)
    # frequency 10000^(-8/16) = 0.01 turns 1024 * 0.01 / 2 pi = 1.62975 times: kept share (1.62975 - 1) / 3 = 0.209916,
    # so 0.01 * 0.209916 + 0.01 / 8 * 0.790084 = 0.0030867655
    assert_close(scaled[4], torch.tensor(0.0030867655))


def test_yarn_by_hand():
    scaling = YarnScaling(factor=4.0, original_max_position_embeddings=628, attention_factor=1.5, beta_fast=10.0, beta_slow=1.0)
    turns, factor = frequencies(Rope(theta=100.0, scaling=scaling), 8)
    # pair(laps) = 8 ln(628 / (2 pi laps)) / (2 ln 100): 10 laps: 8 * 2.30236 / 9.21034 = 1.9998, rounded down to 1;
    # 1 lap: 8 * 4.60495 / 9.21034 = 3.9998, rounded up to 4. Stretched shares of pairs 0 to 3: 0, 0, 1/3, 2/3.
    plain = torch.tensor([1.0, 100**-0.25, 0.1, 100**-0.75])
    share = torch.tensor([0.0, 0.0, 1 / 3, 2 / 3])
    assert_close(turns, plain * (1 - share) + plain / 4 * share)
    assert factor == 1.5
    exact, _ = frequencies(Rope(theta=100.0, scaling=YarnScaling(4.0, 628, 1.0, 10.0, 1.0, truncate=False)), 8)
    # Not rounded the blend begins at pair 2 (nearly): pairs 0 to 2 stay, pair 3 is half stretched: 0.0316228 * (0.5 + 0.125)
    assert_close(exact, torch.tensor([1.0, 100**-0.25, 0.1, 100**-0.75 * 0.625]), atol=1e-4, rtol=1e-3)


def test_long_factors_by_hand():
    scaling = LongScaling((1.0, 2.0), (5.0, 7.0), 4096, math.sqrt(2.0))
    turns, factor = frequencies(Rope(scaling=scaling), 4)
    assert_close(turns, torch.tensor([1.0, 0.005]))  # 0.01 / 2
    assert factor == math.sqrt(2.0)
