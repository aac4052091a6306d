"""PPO: advantages by hand, both losses against plain loops, the critic, its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch.testing import assert_close

from gradus.credit.gae import GAE, gae
from gradus.credit.groups import BatchBaseline
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.reinforce import reinforce
from gradus.testing.methods import advantages_of, toy_group, toy_run, train_toy, weights_after
from gradus.training.launch import go
from gradus.types.batch import make_batch
from gradus.types.players import Copy, Player
from gradus.types.signals import LogProb, LogProbs, Value, Values

CRITIC = Values(player="critic")


def test_advantages_by_hand():
    # reward 1 at the last of three tokens, values 1/2: d = 0, 0, 1/2; A_2 = .5, A_1 = .95 * .5, A_0 = .95 * .475
    assert_close(
        torch.tensor(gae(np.array([0, 0, 1.0]), np.full(3, 0.5), gamma=1.0, lam=0.95)), torch.tensor([0.45125, 0.475, 0.5]).double()
    )


def test_the_penalty_stands_in_the_reward_and_returns_are_not_whitened():
    # log pi - log pi_ref = log 2 at the first token, 0 at the second; values 0; lam .95: r = -.02 log 2, 1; A_1 = 1, A_0 = r_0 + .95
    signals = {
        CRITIC: {"g/0": np.zeros(2)},
        LogProbs(): {"g/0": np.log([0.5, 0.5])},
        LogProbs(player="reference"): {"g/0": np.log([0.25, 0.5])},
    }
    ((credited,),) = ppo.credit.assign([toy_group(1.0)], signals)
    first = 0.95 - 0.02 * math.log(2)
    assert_close(torch.tensor(credited.returns), torch.tensor([first, 1.0]).double())
    assert_close(torch.tensor(credited.advantages), torch.tensor([-1.0, 1.0]).double())  # two numbers whiten to -1 and 1


def test_a_constant_batch_whitens_to_zero():
    signals = {CRITIC: {f"g/{i}": np.zeros(1) for i in range(3)}}
    assert advantages_of(GAE(), toy_group(1, 1, 1, lengths=[1, 1, 1]), signals=signals) == [[[0], [0], [0]]]


def batch_of_five():
    rng = np.random.default_rng(0)
    made = toy_group(1, 0, 1, lengths=[1, 3, 1])
    rows = {t.id: rng.normal(size=t.actions) for t in made.trajectories}
    credited = [t.but(advantages=rng.normal(size=t.actions), returns=rng.normal(size=t.actions)) for t in made.trajectories]
    batch = make_batch([made.but(trajectories=tuple(credited))], {CRITIC: rows}, dtype=torch.float64)
    return batch, rng


def test_the_policy_loss_equals_plain_loops():
    batch, rng = batch_of_five()
    batch = replace(batch, old={LogProb(): torch.from_numpy(-rng.uniform(0.5, 2, 5))})
    assert batch.old_logprobs is not None
    logprobs = (batch.old_logprobs + torch.from_numpy(rng.normal(size=5) * 0.4)).requires_grad_()
    loss, metrics = evaluate(ppo.objective, {LogProb(): logprobs}, batch)
    total, clipped = 0.0, 0
    for new, old, a in zip(logprobs.tolist(), batch.old_logprobs.tolist(), batch.advantages.tolist(), strict=True):
        ratio = math.exp(new - old)
        held = min(max(ratio, 0.8), 1.2)
        total += -min(ratio * a, held * a) / 5
        clipped += (ratio > 1.2 and a > 0) or (ratio < 0.8 and a < 0)
    assert_close(loss.item(), total)
    assert metrics["clip_share"].mean == clipped / 5
    assert 0 < clipped < 5


def test_the_value_loss_equals_plain_loops():
    batch, rng = batch_of_five()
    values = torch.from_numpy(rng.normal(size=5)).requires_grad_()
    loss, _ = evaluate(ppo.players["critic"].objective, {Value(): values}, batch)
    total = 0.0
    for v, old, goal in zip(values.tolist(), batch.signals[CRITIC].tolist(), batch.returns.tolist(), strict=True):
        held = old + min(max(v - old, -0.2), 0.2)
        total += max((v - goal) ** 2, (held - goal) ** 2) / 2 / 5
    assert_close(loss.item(), total)


def test_four_epochs_move_policy_and_critic_and_not_the_reference():
    run = train_toy(ppo, steps=2)
    assert [run.players[n].updates for n in ("policy", "critic", "reference")] == [8, 8, 0]


def test_the_critic_learns_the_values():
    seen = []
    train_toy(ppo, steps=40, prompts=8, watch=lambda run, metrics, groups: seen.append(metrics))
    errors = [m["critic/value_error"] for m in seen]
    assert np.mean(errors[-10:]) < np.mean(errors[:5]) / 2
    assert np.mean([m["reward"] for m in seen[-10:]]) > np.mean([m["reward"] for m in seen[:5]]) + 0.15


def test_a_critic_that_says_zero_and_lam_one_is_reinforce_without_baseline():
    blind = ppo.but(
        credit=GAE(lam=1.0, whitened=False),
        objective=reinforce.objective,
        update__epochs=1,
        players__critic=Player(Copy("policy")),
        players__reference=None,
    )
    run = toy_run(blind)
    with torch.no_grad():
        run.players["critic"].policy.network.values.zero_()
    base = train_toy(reinforce.but(credit=BatchBaseline("none")))
    assert torch.equal(go(run).players["policy"].policy.network.logits, base.players["policy"].policy.network.logits)


def test_without_its_differences_it_is_reinforce():
    plain = ppo.but(
        credit=BatchBaseline(),
        objective__policy__trust=Unclipped(),
        objective__policy__average=SequenceSum(),
        players__critic=None,
        players__reference=None,
        update__epochs=1,
    )
    assert torch.equal(weights_after(plain)["policy.logits"], weights_after(reinforce)["policy.logits"])
