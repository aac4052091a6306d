"""Credit by changes of value: numbers by hand, their sum, whitening, and answers without values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.credit.step_values import LAST, CriticAdvantage, StepChances, ValueChanges, sigmoid, steps_of, value_changes
from gradus.testing.methods import advantages_of, toy_group, toy_trajectory
from gradus.types import Frozen, Group, UserError


def answer(steps, values, reward, name="t", **more):
    """An answer whose actions have these steps (-1: none); `values` are those before each step."""
    made = toy_trajectory([2] * len(steps), reward=reward, name=name, **more)
    value = np.array([values[s] if s >= 0 else np.nan for s in steps])
    return made.but(contexts=(replace(made.contexts[0], streams=Frozen(span=np.array(steps, np.int32), value=value)),))


def test_changes_by_hand():
    assert value_changes(np.array([0.5, 0.75]), 0.0).tolist() == [0.25, -0.75]
    assert value_changes(np.array([0.5, 0.25, 0.75]), 1.0).tolist() == [-0.25, 0.5, 0.25]
    assert value_changes(np.array([0.5, 0.5]), 1.0, gamma=0.5).tolist() == [-0.25, 0.5]
    assert value_changes(np.array([]), 1.0).tolist() == []


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8), st.floats(-2, 2))
def test_they_sum_to_what_the_answer_gains(values, reward):
    assert value_changes(np.array(values), reward).sum() == pytest.approx(reward - values[0], abs=1e-12)


def test_all_actions_of_a_step_share_its_change():
    made = Group("g", (answer([0, 0, 1, 1, 1], [0.5, 0.75], 0.0), answer([-1, 0, -1], [0.25], 1.0, "u")))
    assert advantages_of(ValueChanges(whitened=False), made) == [[[0.25, 0.25, -0.75, -0.75, -0.75], [0, 0.75, 0]]]


def test_whitening_leaves_out_actions_without_a_step_and_answers_that_are_not_trained():
    made = Group("g", (answer([0, 1], [0.5, 1.0], 1.0), answer([-1, 0], [0.25], 0.25, "u"), answer([0], [0.0], 9.0, "v", trained=False)))
    # changes .5, 0 and 0: mean 1/6, deviation sqrt(1/18)
    (rows,) = advantages_of(ValueChanges(), made)
    assert rows[0] == pytest.approx([(0.5 - 1 / 6) * 18**0.5, -(18**0.5) / 6])
    assert rows[1] == pytest.approx([0, -(18**0.5) / 6])
    assert rows[2] == [0]


def test_steps_of_several_contexts_are_counted_through():
    a, b = answer([0, 0, 1], [0.5, 1.0], 1.0), answer([0, 1], [0.25, 0.75], 1.0)
    two = a.but(contexts=(*a.contexts, *b.contexts))
    numbers, values = steps_of(two)
    assert (numbers.tolist(), values.tolist()) == ([0, 0, 1, 2, 3], [0.5, 1.0, 0.25, 0.75])


def test_answers_without_values_are_refused():
    with pytest.raises(UserError, match="set --rollout MonteCarloValues"):
        ValueChanges().assign([toy_group(1, 0)], {})
    with pytest.raises(UserError, match="gamma"):
        ValueChanges(gamma=2.0)


def test_advantages_of_a_critic_by_hand():
    # V along a right path: .5, .7, .6, and the reward 1
    chances, found = [0.5, 0.7, 0.6], []
    logits = [math.log(v / (1 - v)) for v in chances]
    rule = CriticAdvantage()
    before, after = rule.needs
    for i in range(3):
        last = i == 2
        t = toy_trajectory([2, 3], reward=1.0 if last else 0.0, name="t", links=Frozen({LAST: last}))
        rows = {before: {"t": np.array([logits[i], 9.0])}, after: {"t": np.array([9.0, 9.0 if last else logits[i + 1]])}}
        ((row,),) = advantages_of(rule, Group("g", (t,)), signals=rows)
        assert row[0] == row[1]  # all tokens of a step
        found.append(row[0])
    assert found == pytest.approx([0.2, -0.1, 0.4])
    assert found == pytest.approx(value_changes(np.array(chances), 1.0).tolist())
    whole = toy_trajectory([2, 3], reward=1.0, name="t")  # without the link it is a whole answer
    assert advantages_of(rule, Group("g", (whole,)), signals={before: {"t": np.zeros(2)}, after: {"t": np.zeros(2)}}) == [[[0.5, 0.5]]]
    assert sigmoid(np.array([-800.0, 0.0, 800.0])).tolist() == [0.0, 0.5, 1.0]


def test_a_critic_learns_the_values_at_the_first_token_of_each_step():
    made = Group("g", (answer([0, 0, 1, 1], [0.5, 0.75], 1.0),))
    ((found,),) = StepChances().assign([made], {})
    assert found.returns.tolist() == [0.5, 0.5, 0.75, 0.75]
    assert found.weights.tolist() == [1, 0, 1, 0]
    assert found.advantages.tolist() == [1] * 4
    with pytest.raises(UserError, match=r"has the value 1\.5"):
        StepChances().assign([Group("g", (answer([0, 1], [1.0, 1.5], 1.0),))], {})


def test_the_answer_itself_is_the_label_of_the_last_action():
    made = Group("g", (answer([0, 0, 1, 1], [0.5, 0.25], 1.0), answer([0, 1], [0.5, 0.25], 1.0, "u")))
    ((found, short),) = StepChances(last=True).assign([made], {})
    assert found.returns.tolist() == [0.5, 0.5, 0.25, 1.0]
    assert found.weights.tolist() == [1, 0, 1, 1]
    assert (short.returns.tolist(), short.weights.tolist()) == ([0.5, 0.25], [1, 1])  # a last step of one action keeps its own label
    with pytest.raises(UserError, match=r"has the value 1\.5"):
        StepChances(last=True).assign([Group("g", (answer([0, 0], [1.0], 1.5),))], {})
