"""NFT: odds and weights of questions, the two likelihoods with their gradients, the equality with GRPO, and the set-up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.dapo import dapo
from gradus.papers.objectives.nft import ImplicitNegative, SuccessRate, negative_likelihood, nft, question_weight
from gradus.recipe.core import changes
from gradus.selection.filters import Everything
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
from gradus.types import UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def credited(rule, *rewards):
    """Advantage and weight of each answer of a group."""
    return [(c.advantages[0], c.weights[0]) for c in rule.assign([toy_group(*rewards)], {})[0]]


def pulls(rule, *rewards):
    """The gradient weights at R = 1: advantage times weight."""
    return [a * w for a, w in credited(rule, *rewards)]


def batch_of(rule, ratios, *groups):
    """The batch of these groups under a rule, and log-probabilities with the given ratio for each answer."""
    made = [
        g.but(trajectories=tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(g.trajectories, row, strict=True)))
        for g, row in zip(groups, rule.assign(groups, {}), strict=True)
    ]
    batch = make_batch(made, dtype=torch.float64)
    old = torch.full((batch.actions,), -2.0, dtype=torch.float64)
    each = numbers(*ratios).log().index_select(0, batch.trajectory)
    return replace(batch, old={LogProb(): old}), (old + each).requires_grad_()


def test_the_weights_equal_grpos_advantages_at_a_quarter():
    # (1 - 1/4) / sqrt(3/16) = sqrt 3, and -1/4 / sqrt(3/16) = -1 / sqrt 3
    found = pulls(SuccessRate("deviation"), 1, 0, 0, 0)
    assert found == pytest.approx([1.7320508, -0.5773503, -0.5773503, -0.5773503])
    rows = GroupRelative().assign([toy_group(1, 0, 0, 0)], {})[0]
    assert found == pytest.approx([c.advantages[0] for c in rows])


def test_hard_questions_weigh_more():
    assert pulls(SuccessRate(), 1, 0, 0, 0) == pytest.approx([0.75, -0.25, -0.25, -0.25])
    assert pulls(SuccessRate("none"), 1, 0, 0, 0) == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert pulls(SuccessRate(), 1, 1, 1, 0) == pytest.approx([0.25, 0.25, 0.25, -0.75])
    plain = GroupRelative("none").assign([toy_group(1, 1, 0, 0, 0)], {})[0]  # the reward minus the mean
    assert pulls(SuccessRate(), 1, 1, 0, 0, 0) == pytest.approx([c.advantages[0] for c in plain])
    assert question_weight(0.2, "hard") == 0.8
    assert question_weight(0.2, "deviation") == pytest.approx(2.0)


def test_the_factor_on_wrong_answers_leaves_their_odds():
    assert credited(SuccessRate(negative=0.5), 1, 0) == [(1.0, 0.5), (-1.0, 0.25)]
    assert pulls(SuccessRate(negative=0.0), 1, 0) == [0.5, 0.0]


def test_the_rate_keeps_its_margin():
    # rate .98 of a group of right answers, .02 of one of wrong answers
    assert credited(SuccessRate(), 1, 1) == [(1.0, pytest.approx(0.02))] * 2
    assert credited(SuccessRate(), 0, 0) == [(pytest.approx(-0.02 / 0.98), pytest.approx(0.98))] * 2
    assert credited(SuccessRate("none"), *([1] * 99), 0)[-1] == (pytest.approx(-49.0), 1.0)


def test_a_group_of_one_and_a_partial_reward():
    assert credited(SuccessRate(margin=0.1), 1) == [(1.0, pytest.approx(0.1))]
    # 0.5 is not right: one of three answers is
    assert credited(SuccessRate("none"), 1, 0.5, 0) == [(1.0, 1.0), (pytest.approx(-0.5), 1.0), (pytest.approx(-0.5), 1.0)]


def test_a_bounded_value_keeps_its_gradient():
    # rate .5: (1 - .5 * 1.5) / .5 = .5, bounded to 1, so the loss is 0; its derivative by R is (r / (1 - r)) / 1 = 1
    ratio = numbers(1.5).requires_grad_()
    loss = negative_likelihood(ratio.log(), numbers(1.0), floor=1.0)
    loss.sum().backward()
    assert loss.item() == 0.0
    assert_close(ratio.grad, numbers(1.0))


def test_the_value_within_the_bound():
    # rate .25, R = .5: (1 - .125) / .75 = 7/6; derivative by R: (1/3) / (7/6) = 2/7
    ratio = numbers(0.5).requires_grad_()
    loss = negative_likelihood(ratio.log(), numbers(1 / 3), floor=1.0)
    loss.sum().backward()
    assert_close(loss.detach(), numbers(-math.log(7 / 6)))
    assert_close(ratio.grad, numbers(2 / 7))
    # with floor .4 the value .5 of R = 1.5 and rate .5 stands: -log .5, derivative 1 / .5
    ratio = numbers(1.5).requires_grad_()
    loss = negative_likelihood(ratio.log(), numbers(1.0), floor=0.4)
    loss.sum().backward()
    assert_close(loss.detach(), numbers(math.log(2)))
    assert_close(ratio.grad, numbers(2.0))


def test_a_ratio_far_above_one_has_an_exact_value():
    log_ratio = torch.tensor([9.5], requires_grad=True)  # float32: 1 - 49 (R - 1) is -650,000
    loss = negative_likelihood(log_ratio, torch.tensor([49.0]), floor=1.0)
    loss.sum().backward()
    assert loss.item() == 0.0
    assert_close(log_ratio.grad, torch.tensor([49 * math.exp(9.5)]))


def test_a_log_ratio_above_the_limit_has_no_gradient():
    log_ratio = numbers(11.0, 11.0, 9.0).requires_grad_()
    losses, _ = ImplicitNegative().losses(log_ratio, numbers(1.0, -1.0, 1.0), None)
    losses.sum().backward()
    assert_close(losses.detach(), numbers(-10.0, 0.0, -9.0))
    assert_close(log_ratio.grad, numbers(0.0, 0.0, -1.0))


def test_loss_and_gradient_by_hand():
    # rate .25, w .75; two tokens each, divided by 4 answers and 1000. Right at R = 2: -.75 log 2. Wrong at .5: -.75 log(7/6); at 1.5 and 1 the value is 1
    batch, logprobs = batch_of(SuccessRate(), [2.0, 0.5, 1.5, 1.0], toy_group(1, 0, 0, 0))
    loss, metrics = evaluate(nft.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    assert_close(loss.item(), -2 * 0.75 * (math.log(2) + math.log(7 / 6)) / 4000)
    slopes = [-0.75, 0.75 * 0.5 * 2 / 7, 0.75 * 1.5 / 3, 0.75 / 3]
    assert_close(logprobs.grad, numbers(*(s / 4000 for s in slopes for _ in range(2))))
    assert metrics["clamped_share"].mean == 1 / 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.floats(0.2, 3)), min_size=2, max_size=12), st.sampled_from(["hard", "deviation", "none"]), st.floats(0.2, 1))
def test_against_a_slow_loop(rows, kind, floor):
    rewards, ratios = [float(good) for good, _ in rows], [ratio for _, ratio in rows]
    batch, logprobs = batch_of(SuccessRate(kind, 0.7), ratios, toy_group(*rewards))
    objective = nft.but(objective__policy__trust=ImplicitNegative(floor)).objective
    loss, _ = evaluate(objective, {LogProb(): logprobs}, batch)
    loss.backward()
    rate = min(max(sum(rewards) / len(rewards), 0.02), 0.98)
    weight = {"hard": 1 - rate, "deviation": math.sqrt((1 - rate) / rate), "none": 1.0}[kind]
    total, slopes = 0.0, []
    for reward, ratio in zip(rewards, ratios, strict=True):
        share = (1 - rate * ratio) / (1 - rate)
        total += 2 * weight * (-math.log(ratio) if reward else -0.7 * math.log(max(share, floor)))
        slopes += [weight * (-1.0 if reward else 0.7 * ratio * rate / (1 - rate) / max(share, floor))] * 2
    assert_close(loss.item(), total / len(rows) / 1000, rtol=1e-9, atol=1e-12)
    assert_close(logprobs.grad, numbers(*slopes) / len(rows) / 1000, rtol=1e-9, atol=1e-12)


def test_the_gradient_equals_finite_differences_within_the_bound():
    odds = numbers(0.3, 1.0, 4.0)
    at = numbers(-0.4, -0.7, -0.1)
    assert torch.autograd.gradcheck(lambda x: negative_likelihood(x, odds, floor=1.0), at.requires_grad_())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=16).filter(lambda rows: 0 < sum(rows) < len(rows)))
def test_on_policy_the_gradient_is_grpos(rows):
    group = toy_group(*map(float, rows))
    batch, logprobs = batch_of(SuccessRate("deviation"), [1.0] * len(rows), group)
    evaluate(nft.objective, {LogProb(): logprobs}, batch)[0].backward()
    expected = toy_batch(group, advantages=[c.advantages[0] for c in GroupRelative().assign([group], {})[0]])
    other = torch.zeros(batch.actions, dtype=torch.float64, requires_grad=True)
    objective = dapo.but(objective__policy__average=nft.objective["policy"].average).objective
    evaluate(objective, {LogProb(): other}, expected)[0].backward()
    assert_close(logprobs.grad, other.grad, rtol=0, atol=1e-6)
    assert logprobs.grad.abs().max() > 0


def test_with_one_update_and_pairs_the_weights_equal_dapos():
    ours = nft.but(credit__weight="deviation", update__count=1)
    base = dapo.but(reward=nft.reward, objective__policy__average=nft.objective["policy"].average, update__count=1)
    check_same_update(ours, base, group=2)
    check_different_update(nft.but(update__count=1), base, group=2)


def test_without_wrong_answers_it_is_imitation_of_right_ones():
    # the surrogate's gradient at R = 1 is that of the log-likelihood
    ours = nft.but(credit__negative=0.0, update__count=1)
    check_same_update(ours, ours.but(objective__policy__trust=Unclipped()))
    check_different_update(ours, nft.but(update__count=1))


def test_without_its_differences_it_is_dapo():
    assert {c.split(".")[0] for c in changes(dapo, nft)} == {"reward", "credit", "objective"}
    check_same_update(nft.but(reward=dapo.reward, credit=dapo.credit, objective=dapo.objective), dapo)


def test_sixteen_updates_of_a_batch_move_the_ratios():
    check_bound_acts(nft, updates=16, metric="clamped_share", prompts=8, group=8)


def test_groups_without_spread_do_not_enter():
    seen = []
    train_toy(nft, steps=3, watch=lambda run, metrics, groups: seen.extend(groups))
    for group in seen:
        trained = [t for t in group.trajectories if t.advantages is not None]
        assert not trained or 0 < np.mean([t.right for t in trained]) < 1
    assert any(t.advantages is not None for g in seen for t in g.trajectories)
    train_toy(nft.but(selection=Everything()), steps=2)  # the margin keeps them finite


@pytest.mark.nightly
def test_it_learns():
    check_learns(nft, steps=40)


def test_micro_batches():
    check_micro_batches(nft)


@pytest.mark.parametrize("floor", [0.0, 1.5])
def test_a_floor_outside_its_range_is_refused(floor):
    with pytest.raises(UserError, match=rf"ImplicitNegative.floor is {floor}; it must lie in \(0, 1\]"):
        ImplicitNegative(floor=floor)
