"""Magistral: each part of the reward, the normalisation of a mini-batch, the weight of an answer, weights in flight, and the way back to GRPO."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import GroupMean, SequenceMean
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.magistral import NormalisedClip, OptionalTags, magistral
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.rewards.overlong import Overlong
from gradus.rewards.tags import Tags
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.ramp import Ramp
from gradus.selection.filters import Everything
from gradus.testing.methods import check_bound_acts, toy_group, train_toy, weights_after
from gradus.types import Frozen, Key
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from tests.rewards.judged import score, trajectory


def paid(completion, length=4, *, right=1.0, question="how many?", limit=10, cache=4):
    reward = magistral.reward
    parts = Frozen({**reward.then.parts, "overlong": Overlong(limit, cache)})
    made = trajectory(completion, text=question, tokens=range(length))
    ((found,),) = score(replace(reward, then=replace(reward.then, parts=parts)), [made], verify=lambda problem, text: right)
    return found


@pytest.mark.parametrize(("length", "price"), [(6, 0.0), (8, -0.05), (10, -0.1), (12, -0.1)])
def test_the_price_of_length_by_hand(length, price):
    # l_max 10, l_cache 4: right, formatted and in one language is 1.1
    assert paid("<think>so</think> seven", length).reward == pytest.approx(1.1 + price)


def test_the_parts_of_the_reward_by_hand():
    assert paid("<think>so</think> seven").reward == pytest.approx(1.1)
    assert paid("<think>so</think> seven", right=0.0).reward == pytest.approx(0.2)
    assert paid("<think>so</think> семь").reward == pytest.approx(1.0)
    assert paid("<think>so seven").reward == 0  # bad format
    assert paid("<think>so seven").components["verified"] == 1  # the accuracy is still that of the verifier
    assert paid("").reward == 0


def test_without_tags_an_answer_may_be_judged_alone():
    free = OptionalTags(("think",), answer="any")
    assert [free.value(t) for t in ("7", "", "<think>7", "<think>a</think>7")] == [1, 0, 0, 1]
    assert Tags(("think",), answer="any").value("7") == 0


def credited(groups, rule):
    rows = rule.assign(groups, {})
    return [g.but(trajectories=tuple(t.but(advantages=c.advantages) for t, c in zip(g.trajectories, row, strict=True))) for g, row in zip(groups, rows, strict=True)]


def two_groups():
    first, second = toy_group(1, 1, 0, 0), toy_group(1, 0, 0, 0)
    return [first, second.but(key="h", trajectories=tuple(t.but(id=f"h/{i}") for i, t in enumerate(second.trajectories)))]


def test_advantages_are_normalised_over_the_mini_batch():
    groups = credited(two_groups(), magistral.credit)
    centred = [0.5, 0.5, -0.5, -0.5, 0.75, -0.25, -0.25, -0.25]
    assert [t.advantages[0] for g in groups for t in g.trajectories] == centred
    batch = make_batch(groups, dtype=torch.float64)
    deviation = math.sqrt(sum(a * a for a in centred) / 8)  # their mean is 0
    losses, _ = NormalisedClip().losses(torch.zeros(batch.actions, dtype=torch.float64), batch.advantages, batch)
    assert_close(losses, -batch.advantages / deviation)
    half = batch.subset([0, 1, 4, 5])  # .5 .5 .75 -.25: mean .375
    spread = math.sqrt((0.125**2 * 2 + 0.375**2 + 0.625**2) / 4)
    losses, _ = NormalisedClip().losses(torch.zeros(half.actions, dtype=torch.float64), half.advantages, half)
    assert_close(losses, -(half.advantages - 0.375) / spread)
    piece, _ = half.slice([1])  # a part of a mini-batch has the mean of the whole
    losses, _ = NormalisedClip().losses(torch.zeros(piece.actions, dtype=torch.float64), piece.advantages, piece)
    assert_close(losses, -(piece.advantages - 0.375) / spread)
    equal = batch.subset([0, 1])
    assert NormalisedClip().losses(torch.zeros(equal.actions, dtype=torch.float64), equal.advantages, equal)[0].tolist() == [0] * equal.actions


def test_a_group_with_equal_rewards_is_absent():
    kept, dropped = magistral.selection.keep([toy_group(1, 1), toy_group(1, 0)], Key())
    assert [g.rewards.tolist() for g in kept] == [[1, 0]]
    assert [g.rewards.tolist() for g in dropped] == [[1, 1]]


def test_an_answer_weighs_as_many_tokens_as_it_has():
    # 30 of the 100 tokens of its group; a second group has as much weight as the first
    first = toy_group(1, 0, lengths=[30, 70])
    second = toy_group(1, 0, lengths=[5, 5])
    second = second.but(key="h", trajectories=tuple(t.but(id=f"h/{i}") for i, t in enumerate(second.trajectories)))
    batch = make_batch(credited([first, second], magistral.credit), dtype=torch.float64)
    shares = GroupMean().coefficients(batch, "policy")
    assert magistral.objective["policy"].average == GroupMean()
    assert float(shares[:30].sum()) == pytest.approx(0.3 / 2)
    assert float(shares[:100].sum()) == pytest.approx(1 / 2)


def test_the_loss_equals_a_plain_loop():
    groups = credited(two_groups(), magistral.credit)
    batch = make_batch(groups, dtype=torch.float64)
    moves = 0.5 * torch.cos(torch.arange(batch.actions, dtype=torch.float64))
    logprobs = (batch.behaviour_logprobs + moves).requires_grad_()
    loss, metrics = evaluate(magistral.objective, {LogProb(): logprobs}, batch)
    each = np.array([t.advantages[0] for g in groups for t in g.trajectories])
    total = 0.0
    for i in range(batch.actions):
        a, ratio = (batch.advantages[i].item() - each.mean()) / each.std(), math.exp(moves[i])
        total += -min(ratio * a, min(max(ratio, 0.8), 1.28) * a) / float(batch.in_group[i]) / 2
    assert loss.item() == pytest.approx(total)
    assert 0 < metrics["clip_share"].mean < 1


def test_with_one_mini_batch_it_is_the_normalised_batch():
    plain = magistral.but(update__count=1)
    other = plain.but(credit=BatchRelative(), objective__policy__trust=Clip(0.2, 0.28))
    ours, base = (weights_after(r, steps=4)["policy.logits"] for r in (plain, other))
    assert_close(ours, base, rtol=0, atol=1e-12)


def test_without_its_differences_it_is_grpo():
    plain = magistral.but(
        rollout=Auto(),
        reward=Verified(),
        selection=Everything(),
        credit=GroupRelative(),
        objective__policy__ratio=TokenRatio(),
        objective__policy__trust=Clip(0.2, 0.2),
        objective__policy__average=SequenceMean(),
        objective__kl=grpo.objective["kl"],
        players__reference=grpo.players["reference"],
        update__count=1,
    )
    ours, base = weights_after(plain, steps=2), weights_after(grpo, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


def test_the_mini_batch_matters():
    ours = weights_after(magistral.but(rollout=Auto()), steps=2, learning_rate=0.1)["policy.logits"]
    whole = weights_after(magistral.but(rollout=Auto(), credit=BatchRelative(), objective__policy__trust=Clip(0.2, 0.28)), steps=2, learning_rate=0.1)
    assert not torch.equal(ours, whole["policy.logits"])


def test_the_clip_acts_and_answers_have_several_versions():
    check_bound_acts(magistral.but(rollout=Auto()), updates=2, learning_rate=0.4)
    seen = []
    train_toy(magistral, steps=8, learning_rate=0.1, watch=lambda run, metrics, groups: seen.extend(t for g in groups for t in g.trajectories))
    assert max(len(set(t.contexts[0].versions.tolist())) for t in seen) > 1


ALPHABETS = Frozen(low="abcd", high="efgh")


def share_of_one_language(weight, steps=60, **changes):
    """Mean share of answers in the language of their problem over the last ten toy steps. The letters of the toy task are two languages."""
    seen = []
    made = magistral.but(rollout=Auto(), reward__then__parts__language__alphabets=ALPHABETS, reward__then__weights__language=weight, **changes)
    watch = lambda run, metrics, groups: seen.extend([np.mean([t.components["language"] for g in groups for t in g.trajectories])] if groups else [])  # noqa: E731
    train_toy(made, steps=steps, prompts=8, group=8, learning_rate=0.1, watch=watch)
    return np.mean(seen[-10:])


@pytest.mark.nightly
def test_the_reward_for_language_keeps_the_language():
    paid, unpaid = share_of_one_language(0.5), share_of_one_language(0.0)
    assert paid > unpaid + 0.2
    assert share_of_one_language(1.0, reward__then__weights__verified=0.0) > 0.95


def test_a_stage_with_longer_answers_moves_the_price_of_length():
    limits = []
    staged = magistral.but(rollout=Auto(), schedule=Ramp("setting.max_tokens", ((0, 2), (2, 5)), "step"))
    train_toy(staged, steps=4, watch=lambda run, metrics, groups: limits.append(max((t.actions for g in groups for t in g.trajectories), default=0)))
    assert max(limits[:2]) <= 2 < max(limits[2:]) <= 5


def test_a_cut_of_the_batch_changes_nothing():
    whole, cut = (weights_after(magistral.but(rollout=Auto()), micro=m, steps=2)["policy.logits"] for m in (None, 1))
    assert_close(cut, whole, rtol=0, atol=1e-10)
