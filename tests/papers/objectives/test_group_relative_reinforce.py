"""Group-relative REINFORCE: which tokens each mask keeps, the weights, the penalties, and which answers balance drops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.kl import SquaredLogRatio
from gradus.objectives.ratios import SequenceTokenRatio
from gradus.objectives.terms import Imitation, evaluate
from gradus.objectives.trust import CappedWeight, Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.objectives.group_relative_reinforce import MaskedReinforce, group_relative_reinforce, kept_by
from gradus.recipe.core import changes
from gradus.selection.filters import BalancedGroups
from gradus.testing.methods import (
    advantages_of,
    check_bound_acts,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    toy_batch,
    toy_group,
    train_toy,
)
from gradus.types import Frozen, UserError
from gradus.types.signals import LogProb

BOUNDS = {"low": 0.2, "high": 0.2, "far_low": 0.6, "far_high": 2.0}
PLAIN = CappedWeight(cap=1.0, floor=1.0)  # -A log pi


def kept(mask, advantage, *ratios):
    given_ratios = torch.tensor(ratios, dtype=torch.float64)
    return kept_by(mask, given_ratios, torch.full_like(given_ratios, advantage), **BOUNDS).tolist()


def moved(ratios, advantages, lengths=None):
    """A batch, and log-probabilities with these ratios to those at the start of the update."""
    lengths = lengths or [1] * len(ratios)
    made = toy_batch(toy_group(*([0.0] * len(lengths)), lengths=lengths), advantages=advantages)
    made = replace(made, old={LogProb(): torch.full((len(ratios),), -3.0, dtype=torch.float64)})
    return made, (made.old_logprobs + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()


def slopes(objective, made, logprobs):
    leaf = logprobs.detach().clone().requires_grad_()
    loss, metrics = evaluate(objective, {LogProb(): leaf}, made)
    loss.backward()
    return leaf.grad, metrics


def variant(**of_trust):
    return group_relative_reinforce.but(objective__policy__trust=MaskedReinforce(**of_trust)).objective


def test_one_side_and_two_side_by_hand():
    assert kept("one_side", 1.0, 1.3, 0.5, 1.2, 1.0) == [False, True, True, True]
    assert kept("two_side", 1.0, 1.3, 0.5, 1.2, 1.0) == [False, False, True, True]
    assert kept("one_side", -1.0, 0.7, 1.5, 0.8, 1.0) == [False, True, True, True]
    assert kept("two_side", -1.0, 0.7, 1.5, 0.8, 1.0) == [False, False, True, True]
    assert kept("one_side", 0.0, 9.0, 0.1) == [True, True]
    assert kept("none", 1.0, 9.0, 0.1) == [True, True]


def test_the_ring_by_hand():
    assert kept("ring", 1.0, 0.3, 0.5, 1.0, 1.3, 3.0) == [True, False, True, False, False]
    assert kept("ring", -1.0, 3.0, 2.0, 1.0, 0.7, 0.3) == [True, False, True, False, False]


def test_gradient_by_hand():
    # the first ratio is masked; each other token has the gradient -A over all four tokens, whatever its ratio
    made, logprobs = moved([1.3, 0.5, 0.7, 1.5], [1.0, 1.0, -2.0, -2.0])
    found, metrics = slopes(group_relative_reinforce.objective, made, logprobs)
    assert_close(found, torch.tensor([0.0, -1.0, 0.0, 2.0]).double() / 4)
    assert metrics["masked_share"].mean == 0.5


def test_the_weights_by_hand():
    made, logprobs = moved([1.1, 0.9], [1.0, -1.0])
    assert_close(slopes(variant(weight="ratio"), made, logprobs)[0], torch.tensor([-1.1, 0.9]).double() / 2)
    shaped = slopes(variant(weight="advantage", temperature=0.5), made, logprobs)[0]
    assert_close(shaped, torch.tensor([-math.exp(2), math.exp(-2)]).double() / 2)


def test_gradients_equal_plain_loops():
    rng = np.random.default_rng(2)
    lengths = [3, 1, 4, 2]
    ratios, advantages = np.exp(rng.normal(size=10) * 0.5), rng.normal(size=4)
    made, logprobs = moved(ratios, advantages.tolist(), lengths)
    each = np.repeat(advantages, lengths)
    for mask in ("none", "one_side", "two_side", "ring"):
        for weight in ("none", "ratio", "advantage"):
            expected = []
            for r, a in zip(ratios.tolist(), each.tolist(), strict=True):
                inside = 0.8 <= r <= 1.2
                good = {"none": True, "one_side": r <= 1.2 if a > 0 else r >= 0.8, "two_side": inside}
                good["ring"] = inside or (r <= 0.4 if a > 0 else r >= 3)
                expected.append(-a * {"none": 1.0, "ratio": r, "advantage": math.exp(a)}[weight] / 10 if good[mask] else 0.0)
            assert_close(slopes(variant(mask=mask, weight=weight), made, logprobs)[0], torch.tensor(expected, dtype=torch.float64))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.3, 3), st.floats(-2, 2).filter(lambda a: a != 0)), min_size=1, max_size=12))
def test_one_side_with_the_ratio_as_weight_has_the_gradient_of_ppos_clip(rows):
    made, logprobs = moved(*(list(column) for column in zip(*rows, strict=True)))
    ours = slopes(variant(weight="ratio"), made, logprobs)[0]
    theirs = slopes(group_relative_reinforce.but(objective__policy__trust=Clip(0.2, 0.2)).objective, made, logprobs)[0]
    near = [min(abs(r - 0.8), abs(r - 1.2)) < 1e-9 for r, _ in rows]  # on a bound the clip has no single slope
    for one, other, edge in zip(ours.tolist(), theirs.tolist(), near, strict=True):
        assert edge or one == pytest.approx(other, abs=1e-6)


def test_the_mask_of_whole_answers():
    # mean log-ratios of the answers: log 1.3 / 2 = log 1.14, kept, though a token is at 1.3; (log 1.3 + log 1.2) / 2 = log 1.249, masked
    made, logprobs = moved([1.3, 1.0, 1.3, 1.2], [1.0, 1.0], [2, 2])
    whole = variant()["policy"]
    whole = {"policy": replace(whole, ratio=SequenceTokenRatio(), average=SequenceMean())}
    assert_close(slopes(whole, made, logprobs)[0], torch.tensor([-0.25, -0.25, 0.0, 0.0]).double())


def test_the_imitation_of_all_samples_lowers_the_baseline():
    made, logprobs = moved([1.3, 0.5, 0.7], [0.6, -0.4, -0.2])
    asym = {**variant(mask="none"), "near": Imitation(coefficient=0.1, source="policy")}
    lower, _ = moved([1.3, 0.5, 0.7], [0.7, -0.3, -0.1])
    assert_close(slopes(asym, made, logprobs)[0], slopes(variant(mask="none"), lower, logprobs)[0])


def test_advantages_have_no_deviation():
    assert advantages_of(group_relative_reinforce.credit, toy_group(1, 0, 0, 0)) == [[[0.75, 0.75], *[[-0.25, -0.25]] * 3]]


def test_with_infinite_bounds_it_is_the_plain_policy_gradient():
    free = group_relative_reinforce.but(objective__policy__trust=MaskedReinforce(low=1.0, high=math.inf))
    plain = group_relative_reinforce.but(objective__policy__trust=PLAIN)
    check_same_update(free, plain, rate=5.0, prompts=8, group=4)
    check_same_update(group_relative_reinforce.but(objective__policy__trust__mask="none"), plain, rate=5.0, prompts=8, group=4)
    check_different_update(group_relative_reinforce, plain, rate=5.0, prompts=8, group=4)


def test_without_its_differences_it_is_reinforce():
    assert set(changes(reinforce, group_relative_reinforce)) == {
        "credit", "objective.policy.trust", "objective.policy.average", "update.count",
    }  # fmt: skip
    policy = replace(group_relative_reinforce.objective["policy"], average=reinforce.objective["policy"].average)
    check_same_update(group_relative_reinforce.but(credit=reinforce.credit, update__count=1, objective=Frozen(policy=policy)), reinforce)


def test_twenty_updates_of_a_batch_and_the_mask_acts():
    check_bound_acts(group_relative_reinforce, updates=20, metric="masked_share", prompts=8, group=4)


@pytest.mark.parametrize("mask", ["none", "one_side", "two_side", "ring"])
def test_every_mask_trains_in_any_cut(mask):
    check_micro_batches(group_relative_reinforce.but(objective__policy__trust__mask=mask, update__count=4), rate=5.0)


def test_penalties_and_balance_train_from_the_command_line_form():
    for changed in (
        {"objective__near": SquaredLogRatio()},
        {"objective__near": Imitation(coefficient=0.1, source="policy")},
        {"selection": BalancedGroups()},
    ):
        seen = []
        made = group_relative_reinforce.but(objective__policy__trust__mask="none", **changed)
        run = train_toy(made, steps=2, watch=lambda run, metrics, groups, seen=seen: seen.append(metrics))
        assert run.players["policy"].updates > 2
        if "objective__near" in changed:
            assert "loss/near" in seen[0]


@pytest.mark.nightly
def test_it_learns():
    check_learns(group_relative_reinforce.but(update__count=4), prompts=8, group=8)


def test_a_ring_within_its_bounds_is_refused():
    with pytest.raises(UserError, match=r"far_low \(0.1\) must be at least `low` \(0.2\), and `far_high` \(2.0\) must be at least `high` \(0.2\); raise `far_low`"):
        MaskedReinforce(mask="ring", far_low=0.1)
    assert MaskedReinforce(mask="one_side", low=0.6, high=3.0).high == 3.0
    assert TokenMean() == group_relative_reinforce.objective["policy"].average
