"""The records: what a context's sequence is, what counts as a failure, what as right; settings that are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import NOT_APPLICABLE, Context, Failed, FailureKind, Frozen, Group, Problem, Sampling, UserError, prompt_context


def context(tokens, chosen, parent=None):
    return Context(np.array(tokens, np.int32), np.array(chosen, bool), parent=parent)


def test_a_sequence_is_the_inherited_prefix_and_the_own_tokens():
    root = prompt_context([1, 2, 3])
    child = context([4, 5, 6], [1, 0, 1], (root, 3))
    grandchild = context([7], [1], (child, 4))
    assert child.sequence.tolist() == [1, 2, 3, 4, 5, 6]
    assert (child.actions, child.action_positions.tolist()) == (2, [3, 5])
    assert grandchild.prefix.tolist() == [1, 2, 3, 4]
    assert grandchild.action_positions.tolist() == [4]
    assert (root.actions, root.prefix.tolist()) == (0, [])


def test_arrays_are_read_only_and_a_prompt_is_a_copy():
    tokens = np.array([1, 2], np.int32)
    root = prompt_context(tokens)
    with pytest.raises(ValueError, match="read-only"):
        root.tokens[0] = 5
    tokens[0] = 5
    assert root.tokens.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("reward", "reason"),
    [
        (0.0, None),
        (-2, None),
        (None, "no reward"),
        (NOT_APPLICABLE, "no reward"),
        (Failed("late"), "late"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_failures_have_reasons(reward, reason):
    failed = toy_trajectory([1], reward=reward).failed
    assert failed is None if reason is None else reason in failed


def test_a_value_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="t has no reward"):
        _ = toy_trajectory([1], reward=Failed("late")).value
    assert toy_trajectory([1], reward=1).value == 1.0


@pytest.mark.parametrize(
    ("reward", "components", "right"),
    [
        (1.0, {"verified": 1.0}, True),
        (0.4, {"verified": 1.0, "overlong": -0.6}, True),
        (2.0, {"verified": 0.5}, False),
        (0.9, {"environment": 1.0, "invalid": -0.1}, True),
        (1.0, {"mine": 0.0}, True),
        (0.99, {}, False),
        (None, {}, False),
        (Failed("x"), {"verified": Failed("x")}, False),
    ],
)
def test_right_is_what_the_verifier_said(reward, components, right):
    assert toy_trajectory([1]).but(reward=reward, components=Frozen(components)).right is right


def test_accuracy_is_over_what_could_be_judged():
    assert toy_group(1, 0, 0, Failed("x")).accuracy == 1 / 3
    assert toy_group(Failed("x")).accuracy is None
    assert Group("g", ()).accuracy is None
    assert toy_group(0.5, 2).rewards.tolist() == [0.5, 2]


def test_actions_and_streams_run_over_all_contexts():
    a, b = (replace(toy_trajectory(t).contexts[0], streams=Frozen(turn=np.array(t))) for t in ([1, 2], [3]))
    both = toy_trajectory([9]).but(contexts=(a, b))
    assert both.actions == 3
    assert both.stream("turn").tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "field", [{"temperature": -1}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.1}, {"min_p": 1.0}, {"min_p": -0.1}, {"max_tokens": 0}]
)
def test_sampling_out_of_range_is_named(field):
    (name, value), *_ = field.items()
    with pytest.raises(UserError, match=f"sampling: `{name}` is {value}"):
        Sampling(**field)


def test_the_question_is_the_last_message_or_the_text():
    messages = ({"role": "system", "content": "s"}, {"role": "user", "content": "q"})
    assert Problem("p", "t", messages).question == "q"
    assert Problem("p", "t", text="raw").question == "raw"


@pytest.mark.parametrize(
    ("answer", "text"),
    [("4", "4"), (4, "4"), (2.5, "2.5"), (True, "True"), (["4", "four"], "4"), ([], None), (None, None), ({"x": 1}, None), (10**4500, None)],
    ids=lambda value: str(value)[:12] if not isinstance(value, int) else "",
)
def test_the_reference_is_the_answer_as_text(answer, text):
    assert Problem("p", "t", answer=answer).reference == text


@pytest.mark.parametrize("reason", ["late", "died: x", "invalid: y", "a: b", "", "raised ValueError: no"])
@pytest.mark.parametrize("kind", FailureKind)
def test_a_failure_is_read_back_from_its_text(reason, kind):
    assert Failed.read(Failed(reason, kind).told) == Failed(reason, kind)


def test_a_failure_as_text():
    assert [Failed("late", FailureKind.TIMEOUT).told, Failed("returned nan").told] == ["timed out: late", "returned nan"]
    assert [k.chance for k in FailureKind] == [False, True, False, True, True]
