"""Step scores: where a score is read, the four ways to one number, and answers without a step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rewards.step_scores import StepScores, scores_at_ends, step_numbers
from gradus.testing.methods import toy_trajectory
from gradus.types import Failed, Group, UserError
from gradus.types.signals import Values
from gradus.types.spans import Separated

WORLD = SimpleNamespace(text=lambda tokens, player: "".join(" a;"[t] for t in tokens))


def test_a_score_is_read_where_the_next_step_begins():
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert scores_at_ends(values, np.array([0, 0, 1, 1, 1])).tolist() == [2, 4]
    assert scores_at_ends(values, np.array([0, 0, 0, 0, 0])).tolist() == [4]
    assert scores_at_ends(values, np.array([-1, 3, 3, 5, -1])).tolist() == [3, 4]
    assert scores_at_ends(values, np.full(5, -1)).tolist() == []


@pytest.mark.parametrize(("over", "reward"), [("last", 0.75), ("least", 0.5), ("mean", 0.625), ("product", 0.375)])
def test_four_ways_to_one_number(over, reward):
    """Steps "a;" and "a": the first score is the value before the third token, sigmoid(0); the second one sigmoid(log 3)."""
    made, part = toy_trajectory([1, 2, 1, 1], reward=0.0, name="t"), StepScores("judge", Separated(";"), over)
    assert step_numbers(part.marking, made, WORLD).tolist() == [0, 0, 1, 1]
    signals = {Values(player="judge"): {"t": np.array([9.0, 9.0, 0.0, np.log(3)])}}
    ((found,),) = asyncio.run(part.score([Group("g", (made,))], signals, WORLD))
    assert found.reward == pytest.approx(reward)
    assert dict(found.components) == {"step_scores": found.reward}


def test_an_answer_without_a_step_has_failed():
    made = toy_trajectory([], reward=0.0, name="t")
    ((found,),) = asyncio.run(StepScores().score([Group("g", (made,))], {Values(player="judge"): {"t": np.zeros(0)}}, WORLD))
    assert isinstance(found.reward, Failed)
    with pytest.raises(UserError, match="over is 'most'"):
        StepScores(over="most")
