"""GPPO: values and gradients of clipped tokens by hand, the paper's formula as autograd sees it, imitation of right answers, and that it acts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.objectives.ratios import Probability
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip, Unclipped, clipped_surrogate
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.gppo import PreservingClip, gppo
from gradus.recipe.asks import check_asks
from gradus.selection.filters import Everything
from gradus.tasks.code.unit_tests import UnitTests
from gradus.testing.methods import (
    check_bound_acts,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    toy_batch,
    toy_group,
    train_toy,
)
from gradus.types import Key, Problem, UserError
from gradus.types.signals import LogProb
from tests.sandbox.isolated import isolated


def found(trust, log_ratios, advantages):
    """The losses, and the gradient of each by its log-ratio."""
    at = torch.tensor(log_ratios, dtype=torch.float64, requires_grad=True)
    losses, _ = trust.losses(at, torch.tensor(advantages, dtype=torch.float64), None)
    losses.sum().backward()
    return losses.tolist(), at.grad.tolist()


@pytest.mark.parametrize(("ratio", "advantage", "value"), [(2.0, 1.0, -1.2), (0.5, -1.0, 0.8)])
def test_a_clipped_token_keeps_the_gradient_of_its_bound(ratio, advantage, value):
    narrow = {"low": 0.2, "high": 0.2}
    assert found(PreservingClip(**narrow), [math.log(ratio)], [advantage]) == (pytest.approx([value]), pytest.approx([value]))
    assert found(Clip(**narrow), [math.log(ratio)], [advantage]) == (pytest.approx([value]), [0.0])


@pytest.mark.parametrize("ratio", [0.8 + 1e-9, 0.9, 1.0, 1.1, 1.2 - 1e-9])
@pytest.mark.parametrize("advantage", [1.5, -0.7])
def test_within_the_bounds_it_is_the_clip(ratio, advantage):
    at = [math.log(ratio)]
    assert found(PreservingClip(0.2, 0.2), at, [advantage]) == found(Clip(0.2, 0.2), at, [advantage])


def test_a_token_that_came_back_is_not_held():
    for ratio, advantage in ((0.5, 1.0), (2.0, -1.0), (2.0, 0.0)):
        values, slopes = found(PreservingClip(0.2, 0.2), [math.log(ratio)], [advantage])
        assert (values, slopes) == found(Clip(0.2, 0.2), [math.log(ratio)], [advantage])
        assert slopes == pytest.approx([-ratio * advantage])


@given(st.lists(st.tuples(st.floats(-4, 4), st.floats(-2, 2)), min_size=1, max_size=12), st.floats(0, 0.95), st.floats(0, 2))
def test_it_is_the_formula_of_the_paper(rows, low, high):
    at, pushes = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    expected = at.clone().requires_grad_()
    for i in range(len(rows)):  # min(r A, clip(r, (1 - low) r / sg[r], (1 + high) r / sg[r]) A), token by token
        r = expected[i].exp()
        passed = r / r.detach()
        inside = 1 - low <= r.item() <= 1 + high
        clipped = r if inside else ((1 - low) * passed if r.item() < 1 - low else (1 + high) * passed)
        first, second = r * pushes[i], clipped * pushes[i]
        (-(first if first.item() <= second.item() else second)).backward()
    values, slopes = found(PreservingClip(low, high), at.tolist(), pushes.tolist())
    assert_close(torch.tensor(slopes, dtype=torch.float64), expected.grad, rtol=1e-9, atol=1e-12)
    assert_close(torch.tensor(values, dtype=torch.float64), clipped_surrogate(at, pushes, low=low, high=high), rtol=1e-9, atol=1e-12)


def test_every_token_with_an_advantage_has_a_gradient():
    draw = torch.Generator().manual_seed(3)
    at, pushes = (torch.randn(200, generator=draw, dtype=torch.float64).tolist() for _ in range(2))
    kept, dropped = (sum(s != 0 for s in found(trust, at, pushes)[1]) / 200 for trust in (PreservingClip(), Clip(0.2, 0.28)))
    assert kept == 1.0
    assert 0.3 < dropped < 0.9
    _, metrics = PreservingClip().losses(torch.tensor(at), torch.tensor(pushes), None)
    assert metrics["clip_share"].mean == pytest.approx(1 - dropped)


def test_without_bounds_it_is_the_plain_surrogate():
    at, pushes = [-5.0, -0.3, 0.0, 0.4, 4.0], [-1.0, 1.0, -0.5, 2.0, 1.0]
    assert found(PreservingClip(1.0, math.inf), at, pushes) == found(Unclipped(), at, pushes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_ratio_that_overflows_is_held(dtype):
    at = torch.tensor([800.0, -800.0], dtype=dtype, requires_grad=True)
    losses, _ = PreservingClip(0.2, 0.2).losses(at, torch.tensor([1.0, -1.0], dtype=dtype), None)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([-1.2, 0.8], rel=1e-4)
    assert at.grad.tolist() == pytest.approx([-1.2, 0.8], rel=1e-4)


def test_right_answers_are_imitated_beside_it():
    """The gradient is the clip's plus 0.1 times that of the negative log-likelihood of right tokens: three of the five tokens."""
    groups = [toy_group(1.0, 0.0, lengths=[3, 2])]
    batch = replace(toy_batch(*groups, advantages=[1.0, -1.0]), old={LogProb(): torch.zeros(5, dtype=torch.float64)})
    rows = torch.tensor([0.5, -0.1, -2.0, -0.9, 0.1], dtype=torch.float64)

    def gradient(terms):
        leaves = rows.clone().requires_grad_()
        evaluate(terms, {LogProb(): leaves}, batch)[0].backward()
        return leaves.grad

    alone, whole = gradient({"policy": gppo.objective["policy"]}), gradient(gppo.objective)
    # token mean over five: ratios e^.5 = 1.65 held at 1.28, e^-.1, e^-2; wrong: e^-.9 = 0.41 held at 0.8, e^.1
    assert alone.tolist() == pytest.approx([-1.28 / 5, -math.exp(-0.1) / 5, -math.exp(-2) / 5, 0.8 / 5, math.exp(0.1) / 5])
    assert_close(whole - alone, torch.tensor([-0.1 / 3] * 3 + [0.0] * 2, dtype=torch.float64))


@isolated
def test_the_reward_of_code_is_the_share_of_tests():
    asked = Problem("p", "code", messages=({"role": "user", "content": "write f"},), answer=tuple(f"assert f({n}) == {n * n}" for n in range(5)))
    assert UnitTests(share=True)(asked, "def f(x): return x * x if x < 3 else 0") == pytest.approx(0.6)


def test_groups_with_equal_rewards_are_dropped():
    mixed, equal = toy_group(1, 0, key="a"), toy_group(0.6, 0.6, key="b")
    kept, dropped = gppo.selection.keep([mixed, equal], Key(0))
    assert (kept, dropped) == ([mixed], [equal])


def test_without_its_differences_it_is_grpo():
    plain = gppo.but(objective=grpo.objective, players__reference=grpo.players["reference"], selection=Everything(), update__count=1)
    check_same_update(plain, grpo)


def test_with_one_update_per_batch_it_is_the_clip_and_with_eight_it_is_not():
    once, clip = gppo.but(update__count=1), {"objective__policy__trust": Clip(0.2, 0.28)}
    check_same_update(once, once.but(**clip))
    check_different_update(gppo, gppo.but(**clip), rate=50.0, prompts=8, group=8)


def test_tokens_leave_the_bounds():
    check_bound_acts(gppo, updates=8, prompts=8, group=8)


@pytest.mark.nightly
def test_it_learns():
    check_learns(gppo)


def test_the_gradient_does_not_depend_on_the_micro_batch():
    check_micro_batches(gppo)


def test_a_batch_of_equal_groups_is_survived():
    train_toy(gppo, steps=2, prompts=1, group=1)


def test_a_probability_is_no_ratio_around_one():
    with pytest.raises(UserError, match="does not support the ratio Probability"):
        check_asks(gppo.but(objective__policy__ratio=Probability()))


@pytest.mark.parametrize(("field", "value"), [("low", -0.1), ("low", 1.1), ("high", -0.1), ("high", math.nan)])
def test_bounds_out_of_range_are_refused(field, value):
    with pytest.raises(UserError, match=field):
        PreservingClip(**{field: value})
