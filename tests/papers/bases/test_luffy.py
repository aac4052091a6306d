"""LUFFY: the mixed group, the shaped weight and its denominator by hand and in plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.dr_grpo import dr_grpo
from gradus.papers.bases.luffy import luffy
from gradus.testing.methods import (
    advantages_of,
    check_bound_acts,
    check_different_update,
    check_learns,
    check_same_update,
    toy_group,
    toy_trajectory,
    train_toy,
)
from gradus.types.batch import make_batch
from gradus.types.signals import EntropyOf, LogProb


def mixed(own, given, reward, lengths):
    """A group of own answers with these rewards and a solution of `given` tokens."""
    made = toy_group(*own, lengths=lengths)
    return made.but(trajectories=(*made.trajectories, toy_trajectory([2] * given, reward=reward, name="g/e", source="expert")))


def batch_of(*groups):
    credited = [
        g.but(trajectories=tuple(t.but(advantages=np.array(a)) for t, a in zip(g.trajectories, row, strict=True)))
        for g, row in zip(groups, advantages_of(luffy.credit, *groups), strict=True)
    ]
    return make_batch(credited, dtype=torch.float64)


def test_the_solution_is_compared_with_the_answers():
    # rewards 0 0 0 1, the last given: mean 1/4, no deviation
    assert advantages_of(luffy.credit, mixed((0, 0, 0), 1, 1.0, [1, 1, 1])) == [[[-0.25], [-0.25], [-0.25], [0.75]]]


def test_loss_and_gradient_by_hand():
    # own answer of 1 token with A = -1/2, a solution of 2 with A = 1/2; Z = 3; p = .01 and .9: f = .01/.11, .9
    made = batch_of(mixed((0,), 2, 1.0, [1]))
    logprobs = torch.tensor([0.5, 0.01, 0.9], dtype=torch.float64).log().requires_grad_()
    entropy = torch.ones(3, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(luffy.objective, {LogProb(): logprobs, EntropyOf(): entropy}, made)
    assert_close(loss.item(), (0.5 - 0.5 * (0.01 / 0.11 + 0.9)) / 3 - 0.01)
    loss.backward()
    slopes = [0.5, -0.5 * 0.01 * 0.1 / 0.11**2, -0.5 * 0.9 * 0.1 / 1.0**2]
    assert_close(logprobs.grad, torch.tensor(slopes).double() / 3)
    assert_close(entropy.grad, torch.tensor([-0.01, 0, 0]).double())  # of the own tokens alone


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(7)
    groups = [mixed((1, 0), 3, 1.0, [2, 1]), replace(mixed((0, 0), 2, 1.0, [1, 4]), key="h")]
    made = batch_of(*groups)
    old = torch.from_numpy(-rng.uniform(0.1, 2, made.actions))
    made = replace(made, old={LogProb(): old})
    logprobs = old + torch.from_numpy(rng.normal(size=made.actions) * 0.3)
    terms = luffy.but(objective__entropy=None).objective
    loss, _ = evaluate(terms, {LogProb(): logprobs}, made)
    left, total = iter(zip(logprobs.tolist(), old.tolist(), strict=True)), 0.0
    for g in groups:
        mean = sum(t.value for t in g.trajectories) / 3
        for t in g.trajectories:
            a = t.value - mean
            for _ in range(t.actions):
                new, before = next(left)
                r, p = math.exp(new - before), math.exp(new)
                total -= p / (p + 0.1) * a if t.source == "expert" else min(r * a, min(max(r, 0.8), 1.2) * a)
    assert_close(loss.item(), total / made.actions)


def test_a_group_has_one_solution_less_one_sample():
    seen = []
    train_toy(luffy, steps=2, watch=lambda run, metrics, groups: seen.append(groups))
    assert all([t.source for t in g.trajectories] == ["policy"] * 3 + ["expert"] for groups in seen for g in groups)


def test_without_its_differences_it_is_dr_grpo():
    back = luffy.but(
        rollout=dr_grpo.rollout,
        objective__policy__average=dr_grpo.objective["policy"].average,
        objective__expert=None,
        objective__entropy=None,
        update=dr_grpo.update,
    )
    check_same_update(back, dr_grpo)
    check_different_update(luffy, luffy.but(objective__expert=None))
    check_different_update(luffy, luffy.but(update__count=1))


def test_two_updates_of_a_batch_and_the_clip_acts():
    check_bound_acts(luffy, updates=2, learning_rate=0.2)


def test_it_learns():
    check_learns(luffy)
