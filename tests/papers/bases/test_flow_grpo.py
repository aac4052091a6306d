"""Flow-GRPO: a slow reference in plain loops, the gradient, the limit, and what it does to the built-in generator."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import group_relative
from gradus.objectives.kl import KL
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.flow_grpo import flow_grpo
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import flow_ask, toy_flow, toy_run, train_toy, weights_after
from gradus.training.launch import go, prepare
from gradus.training.state_format import join, split
from gradus.types import Group, Problem, Trajectory
from gradus.types.batch import make_batch
from gradus.types.samplers import Drawing, Ode, Sde
from gradus.types.signals import LogProb, Prediction, Velocity

STEPS = 3


def drawn(advantages):
    """A model, and a batch of two of its samples with these advantages, the reference's velocities beside."""
    model, other = toy_flow(), toy_flow()
    with torch.no_grad():
        other.network.biases[-1].add_(0.3)
    contexts = model.act([flow_ask(Drawing(Sde(STEPS), "steps"), "p", i) for i in range(2)])
    made = [Trajectory(f"t{i}", Problem("p", "flow_2d"), (c,), reward=0.0) for i, c in enumerate(contexts)]
    group = Group("g", tuple(t.but(advantages=np.full(STEPS, a)) for t, a in zip(made, advantages, strict=True)))
    signal = Prediction(player="reference")
    rows = {t.id: other.evaluate(t.contexts, (Velocity(),))[Velocity()].detach().numpy() for t in made}
    return model, contexts, make_batch([group], {signal: rows}, dtype=torch.float64), rows


def slow_loss(contexts, velocities, references, old_logprobs, advantages, *, clip, beta, noise=0.7):
    """The paper's objective, sample by sample, step by step, dimension by dimension; no coefficient of a sampler is used."""
    total = 0.0
    for context, v, v_ref, old, advantage in zip(contexts, velocities, references, old_logprobs, advantages, strict=True):
        for k in range(STEPS):
            t, dt = 1 - k / STEPS, 1 / STEPS
            s = noise * math.sqrt(t / (1 - (t if k else 1 - dt)))
            x, after = context.streams["latent"][k], context.streams["next"][k]
            logp, kl = 0.0, 0.0
            for d in range(2):
                mean, mean_ref = (x[d] - (w[k][d] + s**2 / (2 * t) * (x[d] + (1 - t) * w[k][d])) * dt for w in (v, v_ref))
                logp += -((after[d] - mean) ** 2) / (2 * s**2 * dt) - math.log(s * math.sqrt(2 * math.pi * dt))
                kl += (mean - mean_ref) ** 2 / (2 * s**2 * dt)
            ratio = math.exp(logp - old[k])
            held = min(max(ratio, 1 - clip), 1 + clip)
            total += (-min(ratio * advantage, held * advantage) + beta * kl) / STEPS / len(contexts)
    return total


@pytest.mark.parametrize("clip", [1e-4, 0.04, 0.2])
def test_the_loss_is_what_plain_loops_give(clip):
    model, contexts, batch, references = drawn([1.5, -0.5])
    rows = model.evaluate(contexts, (LogProb(), Velocity()))
    old = (rows[LogProb()] + torch.tensor([0.1, -0.2, 0.0, 0.3, -0.1, 0.05])).detach()
    objective = flow_grpo.but(objective__policy__trust=Clip(clip, clip)).objective
    loss, metrics = evaluate(objective, rows, replace(batch, old={LogProb(): old}))
    pieces = [r.detach().numpy().reshape(2, STEPS, -1) for r in (rows[Velocity()], old)]
    expected = slow_loss(contexts, pieces[0], list(references.values()), pieces[1][..., 0], [1.5, -0.5], clip=clip, beta=0.04)
    assert loss.item() == pytest.approx(expected, rel=1e-10)
    assert metrics["kl"].mean > 0


def test_gradient_by_hand():
    model, contexts, batch, references = drawn([1.5, -0.5])
    rows = {w: r.detach().requires_grad_() for w, r in model.evaluate(contexts, (LogProb(), Velocity())).items()}
    loss, _ = evaluate(flow_grpo.objective, rows, batch)
    loss.backward()
    # at ratio 1 d loss / d log pi = -A / (3 steps * 2 samples)
    assert_close(rows[LogProb()].grad, torch.tensor([-1.5] * 3 + [0.5] * 3, dtype=torch.float64) / 6)
    # d loss / d v = 0.04 (gain / spread)^2 (v - v_ref) / 6
    gap = rows[Velocity()].detach() - torch.from_numpy(np.concatenate(list(references.values())))
    factor = (batch.stream("gain") / batch.stream("spread")).square()[:, None]
    assert_close(rows[Velocity()].grad, 0.04 / 6 * factor * gap)


def test_advantages_are_the_group_s_for_every_step():
    seen = []
    train_toy(flow_grpo, steps=1, watch=lambda run, metrics, groups: seen.extend(groups))
    for group in seen:
        expected = (group.rewards - group.rewards.mean()) / group.rewards.std()
        for trajectory, a in zip(group.trajectories, expected, strict=True):
            assert trajectory.advantages == pytest.approx(np.full(10, a))


def test_rewards_too_small_to_differ_give_no_advantage():
    assert group_relative(np.array([1e-200, 3e-200, 0.0])).tolist() == [0.0, 0.0, 0.0]


def test_without_its_differences_it_is_grpo():
    ratio = {"objective__policy__trust": Clip(0.2, 0.2), "objective__kl": KL(0.04)}
    plain = flow_grpo.but(rollout=grpo.rollout, setting=grpo.setting, update=grpo.update, **ratio)
    assert changes(grpo, plain) == {}
    ours, base = weights_after(plain), weights_after(grpo)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


@pytest.mark.parametrize("micro_tokens", [10, 70])  # 10 actions a sample: one sample a micro-batch, and seven
def test_gradient_does_not_depend_on_the_micro_batch(micro_tokens):
    recipe = flow_grpo.but(update__epochs=2, objective__policy__trust=Clip(0.2, 0.2))
    whole = weights_after(recipe, steps=2, rate=1e-3)
    cut = weights_after(recipe, steps=2, rate=1e-3, micro_tokens=micro_tokens)
    assert_close(cut, whole, rtol=0, atol=1e-10)
    assert not any(torch.equal(whole[f"policy.{name}"], p) for name, p in toy_flow().network.named_parameters())


def test_two_steps_twice_are_the_same_and_the_reference_stays():
    run = train_toy(flow_grpo)
    first = torch.cat([p.detach().flatten() for p in run.players["policy"].policy.network.parameters()])
    again = train_toy(flow_grpo).players["policy"].policy.network
    assert torch.equal(first, torch.cat([p.detach().flatten() for p in again.parameters()]))
    for a, b in zip(run.players["reference"].policy.network.parameters(), toy_flow().network.parameters(), strict=True):
        assert torch.equal(a, b)
    assert all(m["ratio"] != 1.0 for m in run.metrics)  # the second update of a batch has moved on
    once = train_toy(flow_grpo.but(update__count=1))
    assert [m["ratio"] for m in once.metrics] == [1.0, 1.0]
    assert once.metrics[0]["kl"] == pytest.approx(0, abs=1e-12)  # signals are float32
    assert once.metrics[1]["kl"] > 1e-6


def test_the_state_can_be_stored():
    run = train_toy(flow_grpo)
    state = {name: entry["state"] for name, entry in run.memory.states.items()}
    assert join(*split(state)) == state
    other = toy_run(flow_grpo)
    other.players["policy"].load(run.players["policy"].tensors(), run.players["policy"].updates)
    for a, b in zip(run.players["policy"].tensors().values(), other.players["policy"].tensors().values(), strict=True):
        assert torch.equal(a, b)


def test_few_steps_in_training_and_many_at_test():
    assert flow_grpo.rollout.sampler == Sde(10, 0.7)
    assert flow_grpo.rollout.test.sampler == Ode(40)


def test_the_bound_is_that_of_the_release_at_two_dimensions():
    # a drift x in each of n dimensions moves their mean by about x / sqrt(n) and the sum over two by x sqrt(2): 1e-4 * 256 * 1.414 = .0362
    trust = flow_grpo.objective["policy"].trust
    assert trust.low == trust.high == pytest.approx(1e-4 * math.sqrt(64 * 64 * 16) * math.sqrt(2), rel=0.15)


def test_two_updates_of_a_batch_and_the_clip_acts():
    seen = []
    recipe = flow_grpo.but(setting__steps=12, setting__prompts=8, setting__warmup=0, study=None)
    run = prepare(recipe, flow_2d())
    run.on_step = lambda run, metrics, groups: seen.append(metrics["clip_share"])
    assert go(run).players["policy"].updates == 24
    assert 0.005 < np.mean(seen) < 0.2


def test_it_raises_the_reward_of_the_built_in_generator():
    recipe = flow_grpo.but(setting__steps=40, setting__prompts=8, setting__eval_every=0, study__problems=128)
    before, *_, after = (m["held_out/reward"] for m in go(prepare(recipe, flow_2d())).metrics if "held_out/reward" in m)
    assert after > before + 0.2
