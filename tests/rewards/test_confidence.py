"""Likelihoods of answers from the log-probabilities at sampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.rewards.confidence import confidence, mean_logprob, sampled_logprobs
from gradus.testing.methods import toy_trajectory
from gradus.types import UserError


def test_by_hand():
    answer = toy_trajectory([2, 3], logprobs=[-0.1, -0.3])
    assert mean_logprob(answer) == pytest.approx(-0.2)
    assert confidence(answer) == pytest.approx(0.8187, abs=5e-5)
    both = answer.but(contexts=(*answer.contexts, *toy_trajectory([4], logprobs=[-0.8]).contexts))
    np.testing.assert_allclose(sampled_logprobs(both), [-0.1, -0.3, -0.8], rtol=1e-6)
    assert mean_logprob(both) == pytest.approx(-0.4)  # over all tokens, not over contexts


def test_an_answer_without_a_token_is_certain():
    assert confidence(toy_trajectory([])) == 1.0


def test_an_answer_that_was_not_sampled_is_refused():
    answer = toy_trajectory([2])
    told = answer.but(contexts=(replace(answer.contexts[0], logprobs=None),))
    with pytest.raises(UserError, match="no log-probabilities from sampling"):
        confidence(told)
