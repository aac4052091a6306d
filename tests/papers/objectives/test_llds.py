"""LLDS: which actions and tokens the penalty reaches, its divisor, and what it adds to GRPO."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.llds import PreserveLikelihood, llds, lost_likelihood
from gradus.recipe.core import changes
from gradus.testing.methods import check_different_update, check_learns, check_micro_batches, check_same_update, toy_group, train_toy
from gradus.types import Context, UserError, prompt_context
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from gradus.updates.minibatches import Minibatches


def answers(*rows, advantages=None, tools=()):
    """A batch with one answer per list of new log-probabilities, all old ones -1. `tools`: places in each answer before which a tool writes a token."""
    group = toy_group(*([0.0] * len(rows)), lengths=[len(r) for r in rows])
    made = []
    for t, a in zip(group.trajectories, advantages or [1.0] * len(rows), strict=True):
        chosen = np.insert(np.ones(t.actions, bool), list(tools), False)
        parent = prompt_context([1])
        context = Context(np.full(len(chosen), 2, np.int32), chosen, np.zeros(t.actions, np.float32), parent=(parent, 1))
        made.append(t.but(contexts=(context,), advantages=np.full(t.actions, a)))
    batch = make_batch([group.but(trajectories=tuple(made))], dtype=torch.float64)
    logprobs = torch.tensor([x for r in rows for x in r], dtype=torch.float64, requires_grad=True)
    return replace(batch, old={LogProb(): torch.full_like(logprobs, -1.0).detach()}), logprobs


def penalty(term, batch, logprobs):
    loss, metrics = evaluate({"preserve": term}, {LogProb(): logprobs}, batch)
    loss.backward()
    return loss.item(), logprobs.grad.tolist(), {name: t.mean for name, t in metrics.items()}


ONE = PreserveLikelihood(coefficient=1.0)


def test_the_gate_is_on_and_only_fallen_tokens_are_raised():
    # falls .2, -.1, .3: their sum is .4 > 0, L = (.2 + .3) / 3
    loss, slopes, metrics = penalty(ONE, *answers([-1.2, -0.9, -1.3]))
    assert loss == pytest.approx(0.5 / 3)
    assert slopes == pytest.approx([-1 / 3, 0, -1 / 3])
    assert metrics["lost_logprob"] == pytest.approx(0.5 / 3)
    assert metrics["penalised_share"] == pytest.approx(2 / 3)
    assert metrics["preserved_logprob"] == pytest.approx(-3.4 / 3)


def test_the_gate_is_off_if_the_whole_became_more_likely():
    # falls .2, -.5, .2: their sum is -.1
    loss, slopes, _ = penalty(ONE, *answers([-1.2, -0.5, -1.2]))
    assert (loss, slopes) == (0.0, [0.0, 0.0, 0.0])


def test_a_tools_text_divides_actions_and_counts_nowhere():
    # .2 and -.5 | .2: the second action alone became less likely
    loss, slopes, _ = penalty(ONE, *answers([-1.2, -0.5, -1.2], tools=[2]))
    assert loss == pytest.approx(0.2 / 3)  # a divisor of 3: the tool's token is none
    assert slopes == pytest.approx([0, 0, -1 / 3])
    whole = PreserveLikelihood(1.0, gate="response")
    assert penalty(whole, *answers([-1.2, -0.5, -1.2], tools=[2]))[0] == 0.0
    # of the whole answer .2 and -.1 and .3 the gate is on; the second token is not raised
    assert penalty(whole, *answers([-1.2, -0.9, -1.3], tools=[1, 2]))[0] == pytest.approx(0.5 / 3)


def test_negative_answers_have_no_penalty_and_no_part_in_the_divisor():
    loss, slopes, _ = penalty(ONE, *answers([-1.2, -1.2], [-3.0, -3.0], [-2.0], advantages=[0.5, -0.5, 0.0]))
    assert loss == pytest.approx((0.2 + 0.2 + 1.0) / 3)  # an advantage of 0 is in P
    assert slopes == pytest.approx([-1 / 3, -1 / 3, 0, 0, -1 / 3])
    assert penalty(ONE, *answers([-2.0], advantages=[-1.0]))[:2] == (0.0, [0.0])


def test_the_last_action_has_its_factor():
    term = PreserveLikelihood(1.0, last=0.25)
    loss, slopes, _ = penalty(term, *answers([-1.2, -1.2, -1.4], tools=[2]))
    assert loss == pytest.approx((0.2 + 0.2 + 0.25 * 0.4) / 3)
    assert slopes == pytest.approx([-1 / 3, -1 / 3, -0.25 / 3])


def test_a_masked_token_neither_opens_the_gate_nor_is_raised():
    batch, logprobs = answers([-2.0, -0.9])
    masked = replace(batch, weight=torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert penalty(ONE, masked, logprobs)[0] == 0.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(-3, -0.1).map(lambda x: round(x, 3)), min_size=1, max_size=5), min_size=1, max_size=4), st.integers(0, 3))
def test_loss_and_gradient_equal_slow_loops(rows, seed):
    draw = np.random.default_rng(seed)
    advantages = draw.choice([-1.0, 0.0, 0.5], size=len(rows)).tolist()
    batch, logprobs = answers(*rows, advantages=advantages, tools=[1])
    _, slopes, _ = penalty(PreserveLikelihood(0.3), batch, logprobs)
    size = max(sum(len(r) for r, a in zip(rows, advantages, strict=True) if a >= 0), 1)
    expected = []
    for row, a in zip(rows, advantages, strict=True):
        for action in (row[:1], row[1:]):
            falls = [-1.0 - x for x in action]
            expected += [-0.3 / size if a >= 0 and sum(falls) > 0 and f > 0 else 0.0 for f in falls]
    assume(all(abs(sum(-1.0 - x for x in part)) > 1e-9 for row in rows for part in (row[:1], row[1:]) if part))  # a sum of 0 up to rounding
    assert slopes == pytest.approx(expected)


def test_at_the_first_update_it_is_zero():
    batch, logprobs = answers([-1.5, -2.0])
    fresh = replace(batch, old={})
    loss, slopes, metrics = penalty(ONE, fresh, logprobs)
    assert (loss, slopes, metrics["lost_logprob"]) == (0.0, [0.0, 0.0], 0.0)
    seen = []
    train_toy(llds.but(update=Minibatches()), steps=2, watch=lambda run, metrics, groups: seen.append(metrics["loss/preserve"]))
    assert seen == [0.0, 0.0]


def test_an_empty_batch_of_rows_has_no_stretch():
    assert lost_likelihood(torch.zeros(0), torch.zeros(0), torch.zeros(0, dtype=torch.int64)).tolist() == []


def test_without_its_coefficient_it_is_grpo_with_its_mini_batches():
    assert {c.split(".")[1] for c in changes(grpo, llds) if c.startswith("objective")} == {"policy", "kl", "preserve"}
    plain = llds.but(objective__preserve=None)
    check_same_update(llds.but(objective__preserve__coefficient=0.0), plain, rate=5.0, prompts=8, group=5)
    check_different_update(llds, plain, rate=5.0, prompts=8, group=5)
    base = plain.but(objective__policy=grpo.objective["policy"], objective__kl=grpo.objective["kl"], update=grpo.update)
    check_same_update(base, grpo)


def test_the_numbers_are_those_of_the_paper():
    assert llds.objective["preserve"] == PreserveLikelihood(coefficient=0.2, gate="action", last=1.0)
    assert penalty(llds.objective["preserve"], *answers([-1.2, -0.9, -1.3]))[0] == pytest.approx(0.2 * 0.5 / 3)


def test_ten_updates_of_a_batch_and_the_penalty_acts():
    seen = []
    run = train_toy(llds, steps=4, prompts=8, group=5, learning_rate=0.1, watch=lambda run, metrics, groups: seen.append(metrics))
    assert run.players["policy"].updates == 40
    assert 0 < np.mean([m["penalised_share"] for m in seen]) < 0.5
    assert np.mean([m["loss/preserve"] for m in seen]) > 0
    assert all(math.isfinite(m["preserved_logprob"]) for m in seen)


@pytest.mark.parametrize("gate", ["action", "response"])
def test_gradient_does_not_depend_on_the_micro_batch(gate):
    check_micro_batches(llds.but(objective__preserve__gate=gate, objective__preserve__last=0.5, update__count=4), rate=5.0)


@pytest.mark.nightly
def test_it_learns():
    check_learns(llds.but(update__count=4), prompts=8, group=8)


def test_wrong_numbers_are_refused():
    with pytest.raises(UserError, match="last"):
        PreserveLikelihood(last=1.5)
    with pytest.raises(UserError, match="coefficient"):
        PreserveLikelihood(coefficient=-0.1)
