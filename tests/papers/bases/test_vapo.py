"""VAPO: whose returns the critic learns from, what the first steps move, the loss in plain loops, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.gae import gae, whiten
from gradus.objectives.terms import evaluate
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.vapo import vapo
from gradus.testing.methods import check_different_update, check_same_update, toy_group, toy_run, train_toy, weights_after
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, Values

CRITIC = Values(player="critic")
READY = vapo.but(schedule__steps=0)


def test_the_critic_learns_whole_returns_and_the_policy_reads_by_length():
    rng = np.random.default_rng(0)
    made = toy_group(1, 0, lengths=[40, 100])
    signals = {CRITIC: {t.id: rng.normal(size=t.actions) for t in made.trajectories}}
    (policy,), (critic,) = vapo.credit.assign([made], signals), vapo.players["critic"].credit.assign([made], signals)
    for c, t in zip(critic, made.trajectories, strict=True):
        np.testing.assert_allclose(c.returns, np.full(t.actions, t.value), atol=1e-12)  # lam 1: the reward, whatever the critic says
    rows = []
    for t, lam in zip(made.trajectories, (0.5, 0.8), strict=True):  # 1 - 1/(.05 * 40), 1 - 1/(.05 * 100)
        rewards = np.zeros(t.actions)
        rewards[-1] = t.value
        rows.append(gae(rewards, signals[CRITIC][t.id], gamma=1.0, lam=lam))
    for found, expected in zip(policy, whiten(rows), strict=True):
        np.testing.assert_allclose(found.advantages, expected)


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(1)
    made = toy_group(1, 0, 1, lengths=[2, 3, 1])
    credited = [t.but(advantages=rng.normal(size=t.actions)) for t in made.trajectories]
    batch = make_batch([made.but(trajectories=tuple(credited))], dtype=torch.float64)
    batch = replace(batch, old={LogProb(): torch.from_numpy(-rng.uniform(0.5, 2, 6))})
    logprobs = batch.old_logprobs + torch.from_numpy(rng.normal(size=6) * 0.4)
    loss, _ = evaluate(vapo.objective, {LogProb(): logprobs}, batch)
    total, rows = 0.0, zip(logprobs.tolist(), batch.old_logprobs.tolist(), batch.advantages.tolist(), strict=True)
    for i, (new, old, a) in enumerate(rows):
        ratio = math.exp(new - old)
        total -= min(ratio * a, min(max(ratio, 0.8), 1.28) * a) / 6
        total -= 0.1 * new / 3 if i in (0, 1, 5) else 0.0  # the tokens of the right answers
    assert_close(loss.item(), total)


def test_the_first_steps_move_the_critic_alone():
    run = train_toy(vapo.but(schedule__steps=2), steps=3)
    assert run.players["policy"].updates == 16  # 16 answers in 16 mini-batches, once
    assert run.players["critic"].updates == 48
    early = train_toy(vapo, steps=2)
    start = toy_run(vapo).players["policy"].policy.network.logits
    assert torch.equal(early.players["policy"].policy.network.logits, start)


def test_without_its_differences_it_is_ppo():
    back = READY.but(
        credit=ppo.credit,
        objective=ppo.objective,
        players=ppo.players,
        update=ppo.update,
    )
    check_same_update(back, ppo)
    check_different_update(READY, ppo)
    check_different_update(READY, READY.but(players__critic__credit=None))
    check_different_update(READY, READY.but(objective__imitation=None))


@pytest.mark.parametrize("micro", [1, 7])
def test_gradients_of_both_players_do_not_depend_on_the_micro_batch(micro):
    whole, cut = weights_after(READY, steps=2), weights_after(READY, steps=2, micro=micro)
    for name, value in whole.items():
        assert_close(cut[name], value, rtol=0, atol=1e-10)


@pytest.mark.nightly
def test_it_learns():
    seen = []
    recipe = vapo.but(schedule__steps=5, update__count=2, credit__alpha=1.0)  # answers of 6 tokens: lam 5/6
    train_toy(recipe, steps=60, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics))
    errors, rewards = ([m[n] for m in seen] for n in ("critic/value_error", "reward"))
    assert np.mean(errors[-10:]) < np.mean(errors[:2]) - 0.1
    assert np.mean(rewards[-10:]) > np.mean(rewards[:5]) + 0.15
