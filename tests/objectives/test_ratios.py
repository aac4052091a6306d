"""Ratios of tokens and of sequences, by hand and by gradient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.ratios import JointRatio, Probability, SequenceRatio, SequenceTokenRatio, SpanRatio, TokenRatio
from gradus.objectives.trust import Clip
from gradus.recipe.overrides import override_all
from gradus.recipe.registry import recipe
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import Frozen, UserError


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_a_token_ratio_is_the_difference():
    made = replace(toy_batch(toy_group(1, lengths=[2])), behaviour_logprobs=numbers(-3, -1))
    now, old = numbers(-1, -2), numbers(-2, -4)
    assert_close(TokenRatio().log_ratio(now, old, made), numbers(1, 2))
    assert_close(TokenRatio(against="behaviour").log_ratio(now, old, made), numbers(2, -1))


def test_a_sequence_ratio_is_the_mean_of_its_tokens():
    # trajectories of 1 and 2 tokens: 0.5; (1 + 2) / 2
    made = toy_batch(toy_group(1, 0, lengths=[1, 2]))
    now = numbers(-0.5, -1, -2).requires_grad_()
    found = SequenceRatio().log_ratio(now, numbers(-1, -2, -4), made)
    assert_close(found, numbers(0.5, 1.5, 1.5))
    found.backward(numbers(1, 1, 0))
    assert_close(now.grad, numbers(1, 0.5, 0.5))  # the second trajectory's ratio is shared by its two tokens


def test_a_sequence_of_one_token_has_the_token_ratio():
    made = toy_batch(toy_group(1, 0, 1, lengths=[1, 1, 1]))
    now, old = numbers(-1, -2, -0.5), numbers(-2, -1, -0.25)
    assert torch.equal(SequenceRatio().log_ratio(now, old, made), TokenRatio().log_ratio(now, old, made))


def test_the_token_form_has_the_value_of_the_sequence_and_the_gradient_of_the_token():
    made = toy_batch(toy_group(1, 0, lengths=[1, 2]))
    now, old = numbers(-0.5, -1, -2).requires_grad_(), numbers(-1, -2, -4)
    found = SequenceTokenRatio().log_ratio(now, old, made)
    assert_close(found, SequenceRatio().log_ratio(now, old, made))
    found.backward(numbers(1, 1, 0))
    assert_close(now.grad, numbers(1, 1, 0))


def spanned(*spans, lengths):
    """A batch of answers of these lengths with these numbers of spans."""
    made, rows = toy_group(*[1] * len(lengths), lengths=lengths), np.split(np.array(spans, np.int32), np.cumsum(lengths)[:-1])
    streams = [replace(t.contexts[0], streams=Frozen(span=row)) for t, row in zip(made.trajectories, rows, strict=True)]
    return toy_batch(made.but(trajectories=tuple(t.but(contexts=(c,)) for t, c in zip(made.trajectories, streams, strict=True))))


def test_a_span_ratio_is_the_mean_of_its_tokens():
    # an item with log-ratios .3, 0, -.3 has the ratio 1; the spans of two answers are different although their numbers are equal
    made = spanned(0, 0, 0, -1, 1, 0, 0, lengths=[5, 2])
    now = numbers(0.3, 0, -0.3, 0.7, 0.2, 0.1, 0.5).requires_grad_()
    found = SpanRatio().log_ratio(now, torch.zeros(7, dtype=torch.float64), made)
    assert_close(found, numbers(0, 0, 0, 0.7, 0.2, 0.3, 0.3), rtol=0, atol=1e-15)
    found.backward(numbers(1, 0, 0, 1, 0, 0, 2))
    assert_close(now.grad, numbers(1 / 3, 1 / 3, 1 / 3, 1, 0, 1, 1))


def test_span_ratios_do_not_depend_on_slices_and_have_two_limits():
    made = spanned(0, 1, 1, -1, 0, 0, 2, lengths=[4, 3])
    now, old = numbers(*range(7)) ** 2 / 10, numbers(*range(7)) / 3
    whole = SpanRatio().log_ratio(now, old, made)
    for contexts in ([0], [1], [1, 0]):
        piece, index = made.slice(contexts)
        assert_close(SpanRatio().log_ratio(now[index], old[index], piece), whole[index])
    apart, one = spanned(0, 1, 2, 3, 0, 1, 2, lengths=[4, 3]), spanned(0, 0, 0, 0, 5, 5, 5, lengths=[4, 3])
    assert_close(SpanRatio().log_ratio(now, old, apart), TokenRatio().log_ratio(now, old, apart))
    assert_close(SpanRatio().log_ratio(now, old, one), SequenceRatio().log_ratio(now, old, one))


def chunked(turns, steps, lengths):
    """A batch whose contexts have these turns and steps."""
    made = toy_batch(toy_group(*([1] * len(lengths)), lengths=lengths))
    cuts = np.cumsum(lengths)[:-1]
    rows = zip(made.contexts, np.split(np.array(turns), cuts), np.split(np.array(steps), cuts), strict=True)
    return replace(made, contexts=tuple(replace(c, streams=Frozen(turn=t.astype(np.int32), step=s.astype(np.int32))) for c, t, s in rows))


def test_a_joint_ratio_is_the_sum_over_the_tokens_of_an_action():
    made = chunked([0, 0, 0, 0, 1, 0, 0], [0, 0, 1, 1, 0, 0, 0], [5, 2])
    now = numbers(0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4).requires_grad_()
    zero = torch.zeros(7, dtype=torch.float64)
    assert_close(JointRatio("step").log_ratio(now, zero, made), numbers(0.3, 0.3, 1.2, 1.2, 1.6, 9.6, 9.6))
    found = JointRatio().log_ratio(now, zero, made)
    assert_close(found, numbers(1.5, 1.5, 1.5, 1.5, 1.6, 9.6, 9.6))
    found.backward(numbers(1, 0, 0, 2, 0, 0, 5))
    assert_close(now.grad, numbers(3, 3, 3, 3, 0, 5, 5))
    for contexts in ([0], [1], [1, 0]):
        piece, index = made.slice(contexts)
        assert_close(JointRatio("step").log_ratio(now.detach()[index], zero[index], piece), JointRatio("step").log_ratio(now.detach(), zero, made)[index])


def test_the_mean_over_tokens_of_a_joint_loss_has_the_gradient_of_one_row_per_chunk():
    """Two chunks of three tokens: a loss with one row per chunk, in plain PyTorch, against the mean over six tokens."""
    made = chunked([0, 0, 0, 1, 1, 1], [0, 0, 1] * 2, [6])
    now, advantages = numbers(0.1, -0.2, 0.05, 0.3, 0.2, 0.1), numbers(2, 2, 2, -1, -1, -1)
    one, other = now.clone().requires_grad_(), now.clone().requires_grad_()
    zero = torch.zeros(6, dtype=torch.float64)
    losses, _ = Clip(0.2, 0.28).losses(JointRatio().log_ratio(one, zero, made), advantages, made)
    losses.mean().backward()
    ratio = other.reshape(2, 3).sum(1).exp()
    due = -torch.minimum(ratio * advantages[::3], ratio.clamp(0.8, 1.28) * advantages[::3]).mean()
    due.backward()
    assert_close(losses.mean(), due)
    assert_close(one.grad, other.grad)
    assert one.grad.abs().sum() > 0


def test_a_joint_ratio_of_single_tokens_is_the_token_ratio():
    made = chunked([0, 1, 2], [0, 0, 0], [3])
    now, old = numbers(-1, -2, -0.5), numbers(-2, -1, -0.25)
    for of in ("turn", "step"):
        assert_close(JointRatio(of).log_ratio(now, old, made), TokenRatio().log_ratio(now, old, made))


def test_a_probability_is_the_ratio_to_certainty():
    now = numbers(-1, -2).requires_grad_()
    assert torch.equal(Probability().log_ratio(now, numbers(-5, -5), toy_batch(toy_group(1))), now)


@pytest.mark.parametrize("ratio", ["TokenRatio", "SequenceRatio", "SequenceTokenRatio", "SpanRatio", "JointRatio"])
def test_what_it_is_against_is_one_of_two(ratio):
    with pytest.raises(UserError, match='unknown value "behavior"'):
        override_all(recipe("grpo"), [("objective.policy.ratio", ratio), ("objective.policy.ratio.against", "behavior")])
