"""Log-probabilities of steps and pairs of flow matching: hand numbers and what they depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradus.policies.flow_steps import matching_pairs, transition_logprob


def test_log_probability_by_hand():
    after, mean, spread = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]]), torch.tensor([0.5])
    # squares of (1, 2) / 0.5: 4 + 16 = 20, half is 10; two dimensions of log(0.5 sqrt(2 pi)) = -0.6931 + 0.9189 = 0.2258
    assert transition_logprob(after, mean, spread).item() == pytest.approx(-10 - 2 * (math.log(0.5) + math.log(2 * math.pi) / 2))


def test_it_is_torch_s_normal_summed_over_dimensions():
    after, mean, spread = torch.randn(5, 3).double(), torch.randn(5, 3).double(), torch.rand(5).double() + 0.1
    expected = torch.distributions.Normal(mean, spread[:, None]).log_prob(after).sum(-1)
    torch.testing.assert_close(transition_logprob(after, mean, spread), expected)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="shapes differ"):
        transition_logprob(torch.zeros(2, 2), torch.zeros(2, 1), torch.ones(2))


KEYS = np.random.default_rng(0).integers(0, 2**64, 4000, dtype=np.uint64)


def test_every_time_is_uniform_in_its_own_part():
    times, _ = matching_pairs(KEYS, 4, 2)
    assert np.array_equal(np.floor(times * 4), np.tile(np.arange(4.0), (len(KEYS), 1)))
    assert np.all((times > 0) & (times < 1))
    # uniform in a part of length 1/4: mean (k + 1/2)/4, deviation 1/4/sqrt(12) = 0.072; of a mean of 4000: 0.0011
    assert times.mean(0) == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.005)


def test_noise_is_standard_normal_and_its_parts_are_apart():
    _, noise = matching_pairs(KEYS, 2, 2)
    flat = noise.reshape(len(KEYS), 4)
    assert flat.mean(0) == pytest.approx(np.zeros(4), abs=0.06)  # deviation of a mean of 4000: 0.016
    assert np.cov(flat.T) == pytest.approx(np.eye(4), abs=0.09)  # deviation of a variance: sqrt(2 / 4000) = 0.022


@given(st.lists(st.integers(0, 3999), min_size=1, max_size=9))
def test_a_pair_depends_on_its_own_key_alone(rows):
    alone, together = matching_pairs(KEYS[rows[:1]], 3, 2), matching_pairs(KEYS[rows], 3, 2)
    for a, b in zip(alone, together, strict=True):
        assert np.array_equal(a[0], b[0])
