"""Light-IF: the dense reward and the weights of entropy by hand, and GRPO without both."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.light_if import Covariance, DenseInstruction, entropy_weights, light_if
from gradus.recipe.core import changes
from gradus.rewards.judge import ScriptedPoints
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, check_micro_batches, toy_trajectory, weights_after
from gradus.types import Frozen, Group

CHECKS = ScriptedPoints(Frozen({c: (lambda problem, text, c=c: c in text) for c in "abcd"}))


def test_the_dense_reward():
    t = toy_trajectory([2])
    problem = replace(t.problem, meta=Frozen({**t.problem.meta, "checklist": tuple("abcd")}))
    rows = tuple(t.but(completion=c, problem=problem, id=c) for c in ("x</think>abc", "</think>abcd", "abcd", "</think>", "a</think>"))
    world = SimpleNamespace(task=TOY, note=lambda name, value: None)
    ((*found,),) = asyncio.run(DenseInstruction(CHECKS).score([Group("g", rows)], {}, world))
    assert [j.reward for j in found] == [0.75, 1.5, 0.0, 0.0, 0.25]
    assert found[2].components == {"dense": 0.0, "share": 1.0}


def test_weights_of_entropy_by_hand():
    logprobs = torch.log(torch.tensor([0.5, 0.25, 0.5, 0.25, 0.25]))
    found = entropy_weights(logprobs, torch.tensor([1.0, 1, -1, -1, -1]), torch.tensor([0, 0, 1, 1, 1]), scale=3.0, most=1.5)
    # A = 1: p / sum p = 2/3, 1/3, times 3: 2 (at most 1.5), 1; A = -1: (1/p) / sum = 2, 4, 4 of 10, times 3
    assert found.tolist() == pytest.approx([1.5, 1.0, 0.6, 1.2, 1.2])
    equal = entropy_weights(logprobs, torch.zeros(5), torch.tensor([0, 0, 1, 1, 1]), scale=10.0, most=5.0)
    assert equal.tolist() == pytest.approx([5.0, 5.0, 10 / 3, 10 / 3, 10 / 3])
    assert entropy_weights(torch.tensor([-1e4, 0.0]), torch.tensor([9.0, 9.0]), torch.tensor([0, 0]), scale=1.0, most=9.0).tolist() == [0.0, 1.0]
    assert math.isfinite(float(entropy_weights(torch.zeros(0), torch.zeros(0), torch.zeros(0, dtype=torch.long), scale=1.0, most=1.0).sum()))


def test_the_mean_log_probability_cancels():
    logprobs, trajectory = torch.log(torch.tensor([0.5, 0.2, 0.9])), torch.zeros(3, dtype=torch.long)
    advantages = torch.full((3,), 0.7)
    cov = torch.softmax(advantages * (logprobs - logprobs.mean()), 0) * 10
    assert torch.allclose(entropy_weights(logprobs, advantages, trajectory, scale=10.0, most=99.0), cov)


def test_without_both_changes_it_is_grpo():
    base = grpo.but(objective__policy__trust=DualClip(1.0, 1.0, 10.0), objective__kl__coefficient=0.001, update__count=4)
    plain = light_if.but(reward=Verified(), objective__entropy=None)
    one, other, ours = (weights_after(r, steps=3)["policy.logits"] for r in (plain, base, light_if.but(reward=Verified())))
    assert torch.equal(one, other)
    assert not torch.equal(ours, other)
    assert set(changes(grpo, light_if)) == {"reward", "objective.policy.trust", "objective.kl.coefficient", "objective.entropy", "update.count", "requires"}
    check_micro_batches(light_if.but(reward=Verified()))
    assert Covariance().scale == 10
