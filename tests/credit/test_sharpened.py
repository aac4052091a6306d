"""Sharpened advantages by hand, and means over tokens."""

from __future__ import annotations

import numpy as np
import pytest
from torch.testing import assert_close

from gradus.credit.sharpened import Sharpened, sharpened
from gradus.testing.methods import toy_group
from gradus.types import UserError
from gradus.types.signals import LogProbs


def test_the_example_by_hand():
    # the mean of s is -1: eta = exp(.6) = 1.8221 and exp(-.6) = .5488; 2.5 x .4512 = 1.128 is above kappa A = .5, .5 x .4512 = .2256 is not
    means, right = np.array([-0.4, -1.6, -0.8, -1.2]), np.array([True, True, False, False])
    advantages = np.array([1.0, 1.0, -1.0, -1.0])
    assert_close(sharpened(advantages, means, right, weight=2.5, most=0.5), np.array([1.0, 1.5, -1.0, -1.0]))
    assert_close(sharpened(advantages, means, right, weight=0.5, most=0.5), np.array([1.0, 1.2256, -1.0, -1.0]), rtol=0, atol=5e-5)
    assert_close(sharpened(advantages, means, right, weight=2.5, most=0.0), advantages)
    assert_close(sharpened(-advantages, means, right, weight=2.5, most=0.5), -advantages)  # no answer with A < 0 is touched


def test_the_part_takes_means_over_tokens():
    group = toy_group(1, 1, 0, 0, lengths=[1, 3, 1, 1])
    rows = {"g/0": np.array([-0.4]), "g/1": np.array([-1.0, -1.0, -2.8]), "g/2": np.array([-0.8]), "g/3": np.array([-1.2])}
    ((first, second, *wrong),) = Sharpened().assign([group], {LogProbs(): rows})
    assert first.advantages.tolist() == [1.0]
    assert second.advantages.tolist() == [1.5] * 3
    assert [c.advantages.tolist() for c in wrong] == [[-1.0], [-1.0]]
    assert LogProbs() in Sharpened().needs


def test_a_negative_share_is_refused():
    with pytest.raises(UserError, match="it must"):
        Sharpened(most=-1.0)
