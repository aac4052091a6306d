"""Stratified GRPO: advantages within numbers of calls by hand, the blend, its limits, and the loss against plain loops."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.credit.within import Calls, Linked, Within
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.stratified_grpo import stratified_grpo
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import (
    REFERENCE,
    TOY_EPISODES,
    advantages_of,
    scripted_world,
    toy_group,
    train_toy,
    turn_of,
    weights_after,
)
from gradus.types import Key, Request
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb

REWARDS, CALLS = [0, 0, 1, 1, 1, 0], [0, 0, 0, 2, 2, 2]


def searching(rewards, counts, lengths=None):
    """A group whose episodes call the search this often."""
    made = toy_group(*rewards, lengths=lengths)
    told = ["search: a\n" * n + "answer: b" for n in counts]
    return made.but(trajectories=tuple(t.but(completion=text) for t, text in zip(made.trajectories, told, strict=True)))


def first(rule, group):
    return [row[0] for row in advantages_of(rule, group)[0]]


def test_advantages_by_hand():
    made = searching(REWARDS, CALLS)
    within = [-0.7071, -0.7071, 1.4142, 0.7071, 0.7071, -1.4142]  # no call: mean 1/3, two calls: mean 2/3; deviation sqrt(2)/3 = .4714
    assert_allclose(first(replace(stratified_grpo.credit, blend=0.0), made), [-1, -1, 1, 1, 1, -1])
    assert_allclose(first(replace(stratified_grpo.credit, blend=1.0), made), within, atol=5e-5)
    assert_allclose(first(stratified_grpo.credit, made), [-0.7657, -0.7657, 1.3314, 0.7657, 0.7657, -1.3314], atol=5e-5)


def test_a_constant_on_one_stratum_leaves_the_strata_alone_and_moves_the_whole():
    more = [r + 3 * (n == 2) for r, n in zip(REWARDS, CALLS, strict=True)]
    inside = replace(stratified_grpo.credit, blend=1.0)
    assert_allclose(first(inside, searching(more, CALLS)), first(inside, searching(REWARDS, CALLS)), atol=1e-12)
    assert np.abs(np.subtract(first(GroupRelative(), searching(more, CALLS)), first(GroupRelative(), searching(REWARDS, CALLS)))).min() > 0.1


@pytest.mark.parametrize("blend", [0.0, 0.3, 0.8, 1.0])
def test_one_stratum_is_grpo(blend):
    made = searching(REWARDS, [1] * 6)
    assert first(replace(stratified_grpo.credit, blend=blend), made) == first(GroupRelative(), made)


def test_a_stratum_of_one_or_of_equal_rewards_keeps_a_fifth_of_the_whole():
    made = searching([1, 0, 0], [0, 1, 1])
    assert_allclose(first(stratified_grpo.credit, made), 0.2 * np.array(first(GroupRelative(), made)))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=12))
def test_every_stratum_has_mean_0_and_variance_1(rows):
    rewards, counts = [r / 4 for r, _ in rows], np.array([n for _, n in rows])
    found = np.array(first(replace(stratified_grpo.credit, blend=1.0), searching(rewards, counts)))
    assert abs(found.mean()) < 1e-9
    for n in set(counts.tolist()):
        own = found[counts == n]
        differs = len({r for r, k in zip(rewards, counts, strict=True) if k == n}) > 1
        assert own.var() == pytest.approx(1.0 if differs else 0.0)


def test_strata_are_the_searches_of_a_question():
    task = search_qa(level=2, people=40)
    (problem,) = task.source.draw([0], 2, Key())
    way = [say for _, say in problem.meta["demonstration"]]

    world, _ = scripted_world(task, lambda ask: "answer: nobody" if ask.request.sample % 2 else way[turn_of(ask)], reward=stratified_grpo.reward)
    (group,) = asyncio.run(stratified_grpo.rollout.run([Request(problem, count=4)], world))
    assert [Calls().of(t) for t in group.trajectories] == [2, 0, 2, 0]
    assert group.rewards.tolist() == [1, 0, 1, 0]
    # in both strata all rewards are equal, so only a fifth of the whole comparison is left
    assert_allclose([row[0] for row in advantages_of(stratified_grpo.credit, group)[0]], [0.2, -0.2, 0.2, -0.2])


def test_the_loss_and_its_gradient_equal_plain_loops():
    lengths = [2, 3, 1, 2, 1, 2]
    made = searching(REWARDS, CALLS, lengths)
    credited = tuple(t.but(advantages=c.advantages) for t, c in zip(made.trajectories, stratified_grpo.credit.assign([made], {})[0], strict=True))
    rng = np.random.default_rng(3)
    reference = {t.id: rng.normal(size=t.actions) for t in credited}
    old = torch.from_numpy(rng.normal(size=11))
    batch = replace(make_batch([made.but(trajectories=credited)], {REFERENCE: reference}, dtype=torch.float64), old={LogProb(): old})
    logprobs = (old + torch.from_numpy(rng.normal(size=11) * 0.4)).requires_grad_()
    loss, _ = evaluate(stratified_grpo.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    rewards, calls = np.array(REWARDS, float), np.array(CALLS)
    total, slopes, at = 0.0, [], 0
    for i, t in enumerate(credited):
        own = rewards[calls == calls[i]]
        a = 0.8 * (rewards[i] - own.mean()) / own.std() + 0.2 * (rewards[i] - rewards.mean()) / rewards.std()
        for k in range(lengths[i]):
            ratio, d = math.exp(logprobs[at].item() - old[at].item()), reference[t.id][k] - logprobs[at].item()
            clipped = min(max(ratio, 0.8), 1.2)
            share = 1 / lengths[i] / 6
            total += share * (-min(ratio * a, clipped * a) + 0.001 * (math.exp(d) - d - 1))
            slopes.append(share * ((-ratio * a if ratio * a <= clipped * a else 0.0) + 0.001 * (1 - math.exp(d))))
            at += 1
    assert_close(loss.item(), total)
    assert_close(logprobs.grad, torch.tensor(slopes, dtype=torch.float64))


def test_without_strata_it_is_grpo_on_episodes():
    base = grpo.but(rollout=stratified_grpo.rollout, reward=stratified_grpo.reward, objective__kl__coefficient=0.001, update__count=2)
    ours, theirs = (weights_after(r, steps=2, task=TOY_EPISODES)["policy.logits"] for r in (stratified_grpo.but(credit__blend=0.0), base))
    assert torch.equal(ours, theirs)


def test_toy_episodes_are_compared_within_strata():
    seen = []
    recipe = stratified_grpo.but(credit=Within(Linked("turns")))
    train_toy(recipe, task=TOY_EPISODES, steps=6, prompts=3, group=8, learning_rate=0.3, watch=lambda run, row, groups: seen.append((row, groups)))
    assert np.mean([row["clip_share"] for row, _ in seen]) > 0
    groups = [g for _, found in seen for g in found]
    assert any(len({t.links["turns"] for t in g.trajectories}) > 1 for g in groups)
    for g in groups:
        for n in {t.links["turns"] for t in g.trajectories}:
            own = [t.advantages[0] for t in g.trajectories if t.links["turns"] == n and t.advantages is not None and len(t.advantages)]
            assert abs(sum(own)) < 1e-9
