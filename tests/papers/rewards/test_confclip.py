"""ConfClip: clipped confidences, rewards and advantages by hand, and GRPO at equal bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.confclip import ClippedConfidence, FlooredRelative, confclip
from gradus.rewards.verified import Verified
from gradus.testing.methods import advantages_of, check_micro_batches, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import UserError


def answers(*pairs):
    """Answers with (reward, confidence); the two log-probabilities of an answer differ, and their mean is the logarithm of the confidence."""
    return [
        toy_trajectory([2, 3], reward=r, name=f"g/{i}", logprobs=[2 * math.log(c) + 0.05, -0.05])
        for i, (r, c) in enumerate(pairs)
    ]


def rewards(*pairs, **bounds):
    return [value for value, _ in ClippedConfidence(**bounds).paid(answers(*pairs))]


def test_rewards_by_hand() -> None:
    assert rewards((1.0, 0.99), (1.0, 0.3), (0.0, 0.8), (0.0, 0.1)) == pytest.approx([0.95, 0.5, -0.8, -0.5])
    (_, found), = ClippedConfidence().paid([toy_trajectory([2, 3], reward=1.0, logprobs=[-0.1, -0.3])])
    assert found["confidence"] == pytest.approx(0.8187, abs=5e-5)


def test_advantages_of_a_group_of_right_answers_by_hand() -> None:
    """0.6 0.7 0.8 0.9: mean 0.75, deviation 0.1118. Confidences from 0.990 to 0.999 are all clipped to 0.95."""
    found = rewards((1.0, 0.6), (1.0, 0.7), (1.0, 0.8), (1.0, 0.9))
    credited = advantages_of(confclip.credit, toy_group(*found, lengths=[1] * 4))[0]
    assert [a[0] for a in credited] == pytest.approx([-1.3416, -0.4472, 0.4472, 1.3416], abs=5e-5)
    assert advantages_of(grpo.credit, toy_group(1, 1, 1, 1))[0] == [[0.0, 0.0]] * 4
    flat = rewards((1.0, 0.99), (1.0, 0.993), (1.0, 0.996), (1.0, 0.999))
    assert flat == [0.95] * 4
    assert advantages_of(confclip.credit, toy_group(*flat))[0] == [[0.0, 0.0]] * 4


def test_a_small_deviation_is_not_divided_by() -> None:
    """0.700 and 0.712 differ by 0.012, the deviation is 0.006: centred only. 0.70 and 0.73 have the deviation 0.015."""
    assert advantages_of(FlooredRelative(), toy_group(0.7, 0.712))[0][0] == pytest.approx([-0.006] * 2)
    assert advantages_of(FlooredRelative(), toy_group(0.7, 0.73))[0][0] == pytest.approx([-1.0] * 2)
    assert advantages_of(FlooredRelative(0.0), toy_group(0.7, 0.712))[0][0] == pytest.approx([-1.0] * 2)
    assert advantages_of(FlooredRelative(), toy_group(0.7))[0] == [[0.0, 0.0]]


def test_equal_bounds_give_the_advantages_of_plus_and_minus_one() -> None:
    pairs = [(1.0, 0.3), (0.0, 0.9), (0.0, 0.6), (1.0, 0.99)]
    flat = rewards(*pairs, low=0.7, high=0.7)
    assert flat == [0.7, -0.7, -0.7, 0.7]
    np.testing.assert_allclose(advantages_of(confclip.credit, toy_group(*flat))[0], advantages_of(grpo.credit, toy_group(1, -1, -1, 1))[0])
    base = grpo.but(reward=2 * Verified() - 1)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (confclip.but(reward=ClippedConfidence(low=1.0, high=1.0)), base))
    assert torch.equal(one, other)


def test_no_gradient_flows_through_the_confidence() -> None:
    """A wrong group has a gradient because its advantages differ; the loss is linear in them, and they are plain numbers."""
    seen: list[dict] = []
    train_toy(confclip.but(reward__low=0.0), steps=4, watch=lambda run, metrics, groups: seen.append(dict(metrics)))
    assert all(row["informative"] > 0.7 for row in seen)
    for answer in answers((1.0, 0.8)):
        (value, _), = ClippedConfidence().paid([answer])
        assert isinstance(value, float)
    check_micro_batches(confclip)


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"above ClippedConfidence\.high"):
        ClippedConfidence(low=0.9, high=0.5)
    with pytest.raises(UserError, match=r"ClippedConfidence.high"):
        ClippedConfidence(high=1.5)
    assert (confclip.reward.low, confclip.reward.high, confclip.credit.floor) == (0.5, 0.95, 0.01)
