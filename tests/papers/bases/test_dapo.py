"""DAPO: its four differences one by one, and that without them it is GRPO."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import evaluate
from gradus.papers.bases.dapo import dapo
from gradus.papers.bases.grpo import grpo
from gradus.rewards.overlong import Overlong
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Everything
from gradus.testing.methods import TOY, toy_group, train_toy, weights_after
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb


def rows(*values, lengths):
    made = toy_group(*([0.0] * len(lengths)), lengths=lengths)
    credited = [t.but(advantages=np.full(t.actions, a)) for t, a in zip(made.trajectories, values, strict=True)]
    return make_batch([made.but(trajectories=tuple(credited))], dtype=torch.float64)


def test_every_token_counts_alike():
    # ratio 1: answers of 1 and 3 tokens with A = 1 and -1: (-1 + 3) / 4; by sequence it would be 0
    loss, _ = evaluate(dapo.objective, {LogProb(): torch.zeros(4, dtype=torch.float64)}, rows(1.0, -1.0, lengths=[1, 3]))
    assert loss.item() == 0.5


def test_the_upper_bound_is_wider():
    batch = rows(1.0, -1.0, lengths=[3, 3])
    batch = replace(batch, old={LogProb(): torch.zeros(6, dtype=torch.float64)})
    ratios = torch.tensor([1.25, 1.3, 0.5, 1.3, 0.79, 0.81], dtype=torch.float64)
    logprobs = ratios.log().requires_grad_()
    loss, metrics = evaluate(dapo.objective, {LogProb(): logprobs}, batch)
    # A = 1: 1.25 stands, 1.3 is held at 1.28, 0.5 stands; A = -1: 1.3 stands, 0.79 is held at 0.8, 0.81 stands
    assert_close(loss.item(), (-1.25 - 1.28 - 0.5 + 1.3 + 0.8 + 0.81) / 6)
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([-1.25, 0, -0.5, 1.3, 0, 0.81], dtype=torch.float64) / 6)
    assert metrics["clip_share"].mean == pytest.approx(2 / 6)


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(1)
    batch = rows(*rng.normal(size=3), lengths=[2, 5, 1])
    batch = replace(batch, old={LogProb(): torch.from_numpy(-rng.uniform(0, 2, 8))})
    logprobs = batch.old_logprobs + torch.from_numpy(rng.normal(size=8) * 0.3)
    loss, _ = evaluate(dapo.objective, {LogProb(): logprobs}, batch)
    total = 0.0
    for new, old, a in zip(logprobs.tolist(), batch.old_logprobs.tolist(), batch.advantages.tolist(), strict=True):
        ratio = math.exp(new - old)
        total -= min(ratio * a, min(max(ratio, 0.8), 1.28) * a)
    assert_close(loss.item(), total / 8)


def test_a_step_is_filled_with_mixed_groups():
    steps = []
    run = train_toy(dapo, steps=3, prompts=6, group=4, watch=lambda run, metrics, groups: steps.append(groups))
    for groups in steps:
        mixed = [g for g in groups if 0 < g.accuracy < 1]
        assert len(mixed) == 6
        assert all((t.advantages is not None) == (g in mixed) for g in groups for t in g.trajectories)
    assert sum(len(groups) for groups in steps) > 18  # some problems were all right or all wrong, and others took their place
    assert len({t.id for groups in steps for g in groups for t in g.trajectories}) == 4 * sum(len(g) for g in steps)
    assert run.memory.states["curriculum"]["state"] == {"drawn": sum(len(g) for g in steps)}  # the curriculum gave them all


def test_the_penalty_moves_rewards_but_not_accuracy():
    # everything is right, lengths differ: rewards differ by the penalty alone, and no group is mixed
    seen = []
    task = replace(TOY, verify=lambda problem, completion: 1.0)
    priced = dapo.but(reward__parts__overlong=Overlong(max_tokens=6, cache=4), rollout=Auto())
    run = train_toy(priced, task=task, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    for metrics, groups in seen:
        assert metrics["accuracy"] == 1.0
        assert metrics["reward/overlong"] < 0
        for t in (t for g in groups for t in g.trajectories):
            assert t.reward == 1.0 + min(0.0, (2 - t.actions) / 4)  # 0 up to 2 tokens, -1 at 6
    assert run.players["policy"].updates == 0


def test_without_its_differences_it_is_grpo():
    plain = dapo.but(
        objective__policy__trust__high=0.2,
        objective__policy__average=SequenceMean(),
        objective__kl=grpo.objective["kl"],
        players__reference=grpo.players["reference"],
        reward=Verified(),
        rollout=Auto(),
        selection=Everything(),
    )
    ours, base = weights_after(plain, steps=2), weights_after(grpo, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


def test_it_learns():
    seen = []
    train_toy(dapo, steps=40, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.1
