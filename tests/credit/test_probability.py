"""Factors by the probability of actions, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.probability import ByProbability
from gradus.testing.methods import toy_trajectory
from gradus.types import Group, UserError


def test_factors_by_hand():
    group = Group("g", (toy_trajectory([2, 3], logprobs=np.log([0.7, 0.1]).tolist()),))
    ((found,),) = ByProbability(0.3).factors([group], {})
    assert found == pytest.approx([0.91, 0.73])
    assert ByProbability(0.0).factors([group], {})[0][0].tolist() == [1.0, 1.0]


def test_given_text_and_wrong_numbers_are_refused():
    made = toy_trajectory([2])
    told = Group("g", (made.but(contexts=(replace(made.contexts[0], logprobs=None),)),))
    with pytest.raises(UserError, match="has no log-probabilities"):
        ByProbability().factors([told], {})
    with pytest.raises(UserError, match="alpha"):
        ByProbability(1.5)
