"""BAPO: the share of the positive tokens, the two bounds that the search finds, and the clip with these bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.bapo import BalancedClip, bapo, climb, positive_share
from gradus.recipe.core import changes
from gradus.testing.methods import (
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    toy_batch,
    toy_group,
    train_toy,
)
from gradus.types import UserError
from gradus.types.signals import LogProb

RELEASED = BalancedClip(share=0.7, low_step=0.05, first="low")  # steps and order of the released code


def moved(ratios, advantages):
    """A batch of answers of one token, and log-probabilities with these ratios to those at the start of the update."""
    made = toy_batch(toy_group(*([0.0] * len(ratios)), lengths=[1] * len(ratios)), advantages=advantages)
    made = replace(made, old={LogProb(): torch.full((len(ratios),), -3.0, dtype=torch.float64)})
    return made, (made.old_logprobs + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()


def found(trust, ratios, advantages):
    return trust.bounds(np.array(ratios, float), np.array(advantages, float))


def share(ratios, advantages, low, high, counted="passing"):
    return positive_share(np.array(ratios, float), np.array(advantages, float), low=low, high=high, ceiling=3.0, counted=counted)


def test_the_share_by_hand():
    # 1.5 is above the bound, .5 below: P = 1, Q = .72
    ratios, advantages = [1.5, 0.5, 0.72, 1.0], [1, -1, -1, 1]
    assert share(ratios, advantages, 0.6, 1.2) == pytest.approx(1 / 1.72)
    assert share(ratios, advantages, 0.75, 1.2) == 1.0  # Q = 0
    assert share(ratios, advantages, 0.4, 2.0) == pytest.approx(2.5 / 3.72)
    assert share([3.5, 1.0], [-1, 1], 0.6, 1.2) == 1.0  # above the ceiling a bad token has no gradient
    assert share([0.5], [-1], 0.6, 1.2) == 1.0
    assert share([1.0], [0], 0.6, 1.2) == 1.0
    # clipped values: P = 1.2 + 1, Q = .6 + .72, and a higher low bound makes Q larger
    assert share(ratios, advantages, 0.6, 1.2, "clipped") == pytest.approx(2.2 / 3.52)
    assert share(ratios, advantages, 0.75, 1.2, "clipped") == pytest.approx(2.2 / 3.7)


def test_low_rises_until_it_drops_the_bad_token():
    low, high, reached = found(RELEASED, [1.5, 0.5, 0.72, 1.0], [1, -1, -1, 1])
    assert (low, high, reached) == (pytest.approx(0.75), 1.2, 1.0)


def test_low_reaches_its_end_without_effect_and_high_lets_the_good_token_in():
    low, high, reached = found(RELEASED, [1.48, 0.95, 1.0], [1, -1, 1])
    assert (low, high, reached) == (0.9, pytest.approx(1.5), pytest.approx(2.48 / 3.43))


def test_the_papers_order_raises_high_first():
    low, high, reached = found(replace(RELEASED, first="high"), [1.48, 0.95, 1.0], [1, -1, 1])
    assert (low, high, reached) == (0.6, pytest.approx(1.5), pytest.approx(2.48 / 3.43))
    # at high 1.55 the share is 2.5 / 3.22 = .776, enough; in the other order low had moved
    assert found(replace(RELEASED, first="high"), [1.5, 0.5, 0.72, 1.0], [1, -1, -1, 1])[:2] == (0.6, pytest.approx(1.55))
    # nothing helps: both end at their last value
    assert found(BalancedClip(share=1.0), [1.0, 1.0], [1, -1])[:2] == (0.9, 3.0)


def test_clipped_values_cannot_be_helped_by_low():
    released = replace(RELEASED, counted="clipped")
    low, high, reached = found(released, [1.5, 0.5, 0.72, 1.0], [1, -1, -1, 1])
    # 2.2 / 3.52 at the start; low .9 makes Q 1.8, and P ends at 2.5
    assert (low, high, reached) == (0.9, 3.0, pytest.approx(2.5 / 4.3))


def test_steps_end_at_the_last_value():
    assert climb(0.6, 0.9, 0.05) == pytest.approx([0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9])
    assert climb(1.2, 1.25, 0.2) == [1.2, 1.25]
    assert climb(1.2, 1.2, 0.2) == [1.2]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.2, 4), st.floats(-2, 2)), min_size=1, max_size=12), st.sampled_from(["high", "low"]), st.floats(0, 1))
def test_the_search_stops_at_the_first_pair_that_reaches_the_share(rows, first, target):
    ratios, advantages = (np.array(column) for column in zip(*rows, strict=True))
    trust = BalancedClip(share=target, first=first)
    low, high, reached = trust.bounds(ratios, advantages)
    assert 0.6 <= low <= 0.9
    assert 1.2 <= high <= 3.0
    assert reached == share(ratios, advantages, low, high)
    if reached < target:
        assert (low, high) == (0.9, 3.0)
    elif first == "high" and low == 0.6 and high > 1.2:
        assert share(ratios, advantages, low, max(high - 0.05, 1.2)) < target


def test_loss_and_gradient_by_hand():
    # share 1 / 1.72 < .7, low becomes .75: the clip masks ratio 1.5 of A = 1, and .5 and .72 of A = -1; only the last token has a gradient
    made, logprobs = moved([1.5, 0.5, 0.72, 1.0], [1.0, -1.0, -1.0, 1.0])
    loss, metrics = evaluate(bapo.but(objective__policy__trust=RELEASED).objective, {LogProb(): logprobs}, made)
    loss.backward()
    assert_close(loss.item(), (-1.2 + 0.75 + 0.75 - 1.0) / 4)
    assert_close(logprobs.grad, torch.tensor([0.0, 0.0, 0.0, -1.0]).double() / 4)
    assert metrics["bound_low"].mean == pytest.approx(0.75)
    assert metrics["bound_high"].mean == pytest.approx(1.2)
    assert metrics["positive_share"].mean == 1.0
    assert metrics["clip_share"].mean == 3 / 4


def test_high_bound_gives_the_unlikely_good_token_its_gradient():
    made, logprobs = moved([1.48, 0.95, 1.0], [1.0, -1.0, 1.0])
    trust = replace(RELEASED, first="high")
    evaluate(bapo.but(objective__policy__trust=trust).objective, {LogProb(): logprobs}, made)[0].backward()
    assert_close(logprobs.grad, torch.tensor([-1.48, 0.95, -1.0]).double() / 3)
    fixed = logprobs.detach().requires_grad_()
    evaluate(bapo.but(objective__policy__trust=DualClip(0.4, 0.2)).objective, {LogProb(): fixed}, made)[0].backward()
    assert fixed.grad[0] == 0


def test_the_gradient_equals_finite_differences_while_the_bounds_stay():
    rng = np.random.default_rng(3)
    ratios, advantages = np.exp(rng.normal(size=30) * 0.4), rng.normal(size=30)
    made, logprobs = moved(ratios, advantages.tolist())
    objective = bapo.but(objective__policy__trust__share=0.6).objective
    loss, metrics = evaluate(objective, {LogProb(): logprobs}, made)
    loss.backward()
    low, high = metrics["bound_low"].mean, metrics["bound_high"].mean
    assert high > 1.2

    def value(i, step):
        total = 0.0
        for j, (r, a) in enumerate(zip(ratios, advantages, strict=True)):
            r = r * math.exp(step) if i == j else r
            plain = -min(r * a, min(max(r, low), high) * a)
            total += min(plain, -3 * a) if a < 0 else plain
        return total / 30

    slopes = [(value(i, 1e-6) - value(i, -1e-6)) / 2e-6 for i in range(30)]
    assert_close(logprobs.grad, torch.tensor(slopes, dtype=torch.float64), rtol=1e-5, atol=1e-8)


def test_a_masked_token_has_no_share():
    made, logprobs = moved([1.48, 0.95, 1.0], [1.0, -1.0, 1.0])
    masked = replace(made, weight=torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    _, metrics = evaluate(bapo.but(objective__policy__trust=RELEASED).objective, {LogProb(): logprobs}, masked)
    assert metrics["positive_share"].mean == 1.0
    assert metrics["bound_low"].mean == 0.6


def test_the_numbers_are_those_of_the_paper():
    paper = {"share": 0.4, "low": 0.6, "low_max": 0.9, "low_step": 0.02, "high": 1.2, "high_max": 3.0, "high_step": 0.05}
    assert bapo.objective["policy"].trust == BalancedClip(**paper, ceiling=3.0, first="high", counted="passing")


def test_every_token_counts_alike():
    _, found, _ = loss_and_gradient(bapo.objective, [toy_group(1, 0, lengths=[1, 3])], [0.0] * 4, advantages=[1.0, -1.0])
    assert found == pytest.approx([-1 / 4, 1 / 4, 1 / 4, 1 / 4])  # by answer it would be -1/2 and 1/6


def test_a_share_of_zero_is_the_dual_clip():
    fixed = bapo.but(objective__policy__trust=DualClip(low=0.4, high=0.2, ceiling=3.0))
    check_same_update(bapo.but(objective__policy__trust__share=0.0), fixed, rate=5.0)
    check_different_update(bapo.but(objective__policy__trust__share=0.9), fixed, rate=5.0)


def test_without_its_differences_it_is_grpo():
    assert {c.split(".")[0] for c in changes(grpo, bapo)} == {"objective", "players", "update"}
    policy = grpo.objective["policy"]
    plain = bapo.but(objective__policy=policy, update=grpo.update)
    check_same_update(plain, grpo.but(objective__kl=None, players__reference=None))


def test_eight_updates_of_a_batch_move_the_bounds():
    seen = []
    run = train_toy(bapo, steps=4, learning_rate=0.1, watch=lambda run, metrics, groups: seen.append(metrics))
    assert run.players["policy"].updates == 32
    assert max(m["bound_high"] for m in seen) > 1.2
    assert 0 < np.mean([m["clip_share"] for m in seen]) < 0.5
    seen.clear()
    train_toy(bapo.but(update__count=1, update__epochs=1), steps=2, watch=lambda run, metrics, groups: seen.append(metrics["clip_share"]))
    assert seen == [0, 0]


def test_bounds_that_cross_are_refused():
    with pytest.raises(UserError, match=r"BalancedClip.low is 0.95, which is above BalancedClip.low_max \(0.9\); set `low` to 0.9 or less"):
        BalancedClip(low=0.95)
    with pytest.raises(UserError, match=r"high_step"):
        BalancedClip(high_step=0.0)


@pytest.mark.nightly
def test_it_learns_and_does_not_depend_on_micro_batches():
    check_learns(bapo, prompts=8, group=8)
    check_micro_batches(bapo, rate=5.0)
