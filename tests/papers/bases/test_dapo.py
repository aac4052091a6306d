"""DAPO: its four differences one by one, and that without them it is GRPO."""

from __future__ import annotations

import asyncio
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
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Everything
from gradus.study.held_out import HeldOut, held_out_requests
from gradus.testing.methods import TOY, check_bound_acts, toy_group, toy_run, train_toy, weights_after
from gradus.types import Group, Key
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from tests.rewards.judged import score, trajectory


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


def judged(verdict, *lengths):
    """The group's rewards by hand: 2 verdict - 1, less the price of its length, under a limit of 10 new tokens."""
    (row,) = score(dapo.reward, [trajectory(tokens=range(n)) for n in lengths], verify=lambda problem, completion: verdict, max_tokens=10)
    return row


def test_right_and_wrong_answers_lie_two_apart():
    # the cache of 10 tokens is 2: 8 are free, 9 cost 1/2, 10 cost 1; the price weighs half as much against a verdict as against 0 and 1
    assert [j.reward for j in judged(1.0, 8, 9, 10)] == [1.0, 0.5, 0.0]
    assert [j.reward for j in judged(0.0, 8, 9, 10)] == [-1.0, -1.5, -2.0]
    assert [dict(j.components) for j in judged(1.0, 9)] == [{"verified": 1.0, "overlong": -0.5}]


@pytest.mark.parametrize(("verdict", "right"), [(0.0, False), (0.75, False), (1.0, True), (1.5, True)])
def test_an_answer_is_right_by_its_verdict_alone(verdict, right):
    made = [trajectory(tokens=range(n)) for n in (8, 10)]
    done = [t.but(reward=j.reward, components=j.components) for t, j in zip(made, judged(verdict, 8, 10), strict=True)]
    assert [t.right for t in done] == [right, right]
    assert Group("g", tuple(done)).accuracy == float(right)
    assert not dapo.selection.keep([Group("g", tuple(done))], Key())[0]  # rewards differ, but all are right or all are wrong


def test_the_price_moves_rewards_but_not_accuracy():
    # everything is right, lengths differ: rewards differ by the price alone, and no group is mixed
    seen = []
    task = replace(TOY, verify=lambda problem, completion: 1.0)
    run = train_toy(dapo.but(rollout=Auto()), task=task, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    for metrics, groups in seen:
        assert metrics["accuracy"] == metrics["reward/verified"] == 1.0
        assert metrics["reward/overlong"] < 0
        for t in (t for g in groups for t in g.trajectories):
            assert t.reward == (0.0 if t.actions == TOY.sampling.max_tokens else 1.0)  # the cache is the last token
    assert run.players["policy"].updates == 0


def test_held_out_figures_are_those_of_the_verifier():
    run = toy_run(dapo)
    found = asyncio.run(HeldOut(problems=8, greedy=False).measure(run, dapo, run.world(dapo, "held out")))
    groups = asyncio.run(Auto().run(held_out_requests(TOY.held_out, 8, 1, None), run.world(dapo, "held out")))
    rights = [t.components["verified"] == 1.0 for g in groups for t in g.trajectories]
    assert 0 < found["held_out/accuracy"] == np.mean(rights) < 1
    assert found["held_out/reward"] == pytest.approx(np.mean([t.value for g in groups for t in g.trajectories]))


def test_sixteen_updates_of_a_batch_and_the_clip_acts():
    check_bound_acts(dapo, updates=16)


def test_without_its_differences_it_is_grpo():
    plain = dapo.but(
        objective__policy__trust__high=0.2,
        objective__policy__average=SequenceMean(),
        objective__kl=grpo.objective["kl"],
        players__reference=grpo.players["reference"],
        reward=Verified(),
        rollout=Auto(),
        selection=Everything(),
        update__count=1,
    )
    ours, base = weights_after(plain, steps=2), weights_after(grpo, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


def test_it_learns():
    seen = []
    train_toy(dapo, steps=40, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.1
