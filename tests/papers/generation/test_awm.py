"""AWM: the exact checks, a slow reference over two moves, limits, the moving average, and that any sampler will do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.flow_matching import MatchedPolicy, Robust, Weighted
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.flow_grpo import flow_grpo
from gradus.papers.generation.awm import VelocityGap, awm
from gradus.policies import flow
from gradus.policies.flow import FlowModel
from gradus.policies.flow_network import FlowConfig
from gradus.policies.flow_steps import matching_pairs
from gradus.recipe.core import changes
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import advantages_of, check_same_update, flow_ask, toy_flow, toy_group, train_toy, weights_after
from gradus.training.launch import go, prepare
from gradus.types import Context, Frozen, Group, Problem, Trajectory
from gradus.types.batch import make_batch
from gradus.types.samplers import Drawing, Ode, Sde
from gradus.types.signals import MatchedVelocity, MatchingError, MatchingTime, MatchingVelocity
from tests.objectives.flow_batch import batch_of as flow_batch

PLAIN = awm.but(objective__policy__likeness=Weighted(0), objective__kl=None, objective__proximal=None, players__average=None)


def batch_of(contexts, given, signals=None):
    made = tuple(
        Trajectory(f"t{i}", Problem("p", "flow_2d"), (c,), reward=0.0, advantages=np.full(1, a))
        for i, (c, a) in enumerate(zip(contexts, given, strict=True))
    )
    return make_batch([Group("g", made)], signals, dtype=torch.float64)


def samples(count=3):
    model = toy_flow()
    return model, model.act([flow_ask(Drawing(Ode(4)), "p", i) for i in range(count)])


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.network.parameters()])


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.network.parameters()])


def test_a_pair_by_hand(monkeypatch):
    # x_0 = 2, e = 0, t = 1/2: x_t = 1, target e - x_0 = -2; v = -x_t = -1, error 1, lp = -1
    model = FlowModel.fresh(FlowConfig(dimension=1, condition=0, width=1, depth=1, frequencies=0), dtype=torch.float64)
    monkeypatch.setattr(model.network, "forward", lambda x, time, condition: -x)
    monkeypatch.setattr(flow, "matching_pairs", lambda keys, draws, d: (np.full((1, 1), 0.5), np.zeros((1, 1, 1))))
    streams = Frozen(sample=np.full((1, 1), 2.0), condition=np.zeros((1, 0)), key=np.zeros(1, np.uint64))
    context = Context(np.zeros(1, np.int32), np.ones(1, bool), streams=streams)
    rows = model.evaluate([context], (MatchingError(1), MatchingVelocity(1), MatchingTime(1)))
    assert [r.item() for r in rows.values()] == [1.0, -1.0, 0.5]
    assert Weighted(0).logprob(rows[MatchingError(1)], rows[MatchingTime(1)]).item() == -1.0


@pytest.mark.parametrize("likeness", [Weighted(0), Weighted(1), Weighted(2), Robust(0.25)])
def test_at_the_same_weights_the_ratio_is_one_and_the_gradient_that_of_the_surrogate(likeness):
    model, contexts = samples()
    term, given = MatchedPolicy(draws=6, likeness=likeness, trust=Clip(1.0, 1.0)), [0.7, -0.2, 0.4]
    rows = model.evaluate(contexts, term.wants)
    loss, metrics = term.loss(rows, batch_of(contexts, given))
    assert metrics["ratio"].mean == 1.0
    loss.backward()
    ours = gradient(model)
    model.network.zero_grad()
    surrogate = likeness.logprob(*model.evaluate(contexts, term.wants).values())
    (-(torch.tensor(given, dtype=torch.float64)[:, None] * surrogate).mean()).backward()
    assert_close(ours, gradient(model), rtol=0, atol=1e-12)


def test_advantage_one_is_flow_matching_and_advantage_zero_is_nothing():
    model, contexts = samples()
    wants = tuple(w for term in PLAIN.objective.values() for w in term.wants)
    loss, _ = evaluate(PLAIN.objective, model.evaluate(contexts, wants), batch_of(contexts, [1.0] * 3))
    loss.backward()
    ours = gradient(model)
    model.network.zero_grad()
    pre_training = 0.0  # the loss of pre-training on these samples, written out
    for context in contexts:
        (times,), (noise,) = matching_pairs(context.streams["key"], 6, 2)
        for t, e in zip(times, noise, strict=True):
            clean = context.streams["sample"][0]
            place, told = torch.from_numpy((1 - t) * clean + t * e)[None], torch.tensor(context.streams["condition"])
            v = model.network(place, torch.tensor([t]), told)[0]
            pre_training = pre_training + (v - torch.from_numpy(e - clean)).square().mean() / 18
    pre_training.backward()
    assert_close(ours, gradient(model), rtol=0, atol=1e-12)
    model.network.zero_grad()
    loss, _ = evaluate(PLAIN.objective, model.evaluate(contexts, wants), batch_of(contexts, [0.0] * 3))
    loss.backward()
    assert torch.equal(gradient(model), torch.zeros_like(ours))


def test_advantages_by_hand():
    # one success among four: sqrt 3 and -1/sqrt 3, a fifth of them
    (row,) = advantages_of(awm.credit, toy_group(1, 0, 0, 0, lengths=[1] * 4))
    assert [a for (a,) in row] == pytest.approx([math.sqrt(3) / 5] + [-1 / math.sqrt(3) / 5] * 3)
    # one success among 37: sqrt 36 = 6 is held at 5, so 1
    (row,) = advantages_of(awm.credit, toy_group(1, *[0] * 36, lengths=[1] * 37))
    assert row[0] == [1.0]


def slow_loss(model, contexts, given, old, references, *, clip=1.0, kl=0.001, proximal=1.0):
    """The objective sample by sample and pair by pair; `old` errors, `references` velocities of the two frozen players."""
    total = 0.0
    for i, (context, advantage) in enumerate(zip(contexts, given, strict=True)):
        (times,), (noise,) = matching_pairs(context.streams["key"], 6, 2)
        for k, (t, e) in enumerate(zip(times, noise, strict=True)):
            clean = context.streams["sample"][0]
            place, told = torch.from_numpy((1 - t) * clean + t * e)[None], torch.tensor(context.streams["condition"])
            v = model.network(place, torch.tensor([t]), told)[0]
            error = sum((v[d] - (e[d] - clean[d])) ** 2 for d in range(2)) / 2
            lp, lp_old = (-t * (x + 1e-10) ** 0.25 / 0.25 for x in (error, old[i][k]))
            ratio = torch.exp(lp - lp_old)
            loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
            for coefficient, reference in zip((kl, proximal), references, strict=True):
                loss = loss + coefficient * sum((v[d] - float(reference[i][k][d])) ** 2 for d in range(2)) / 2
            total = total + loss / len(contexts) / 6
    return total


def test_loss_and_gradient_after_the_weights_moved_are_those_of_plain_loops():
    model, contexts = samples()
    given, players = [1.0, -0.6, 0.1], []
    old = model.evaluate(contexts, (MatchingError(6),))[MatchingError(6)].detach()
    for shift in (0.2, -0.1):
        other = toy_flow()
        with torch.no_grad():
            other.network.biases[0].add_(shift)
        players.append(other.evaluate(contexts, (MatchingVelocity(6),))[MatchingVelocity(6)].detach())
    with torch.no_grad():
        model.network.biases[-1].add_(0.4)
    names = [MatchedVelocity(player=name, draws=6) for name in ("reference", "average")]
    signals = {s: {f"t{i}": v[i][None].numpy() for i in range(3)} for s, v in zip(names, players, strict=True)}
    batch = batch_of(contexts, given, signals)
    batch.old[MatchingError(6)] = old
    wants = (MatchingError(6), MatchingTime(6), MatchingVelocity(6))
    loss, metrics = evaluate(awm.objective, model.evaluate(contexts, wants), batch)
    loss.backward()
    ours = gradient(model)
    model.network.zero_grad()
    expected = slow_loss(model, contexts, given, old.tolist(), players)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-10)
    assert_close(ours, gradient(model), rtol=0, atol=1e-10)
    assert metrics["ratio"].mean != 1.0


def test_a_second_update_on_a_batch_compares_with_the_weights_that_drew_it():
    seen = []
    recipe = PLAIN.but(update__epochs=2)
    after = weights_after(recipe, rate=0.5, watch=lambda run, metrics, groups: seen.extend(groups))
    contexts = [t.contexts[0] for g in seen for t in g.trajectories]
    given = torch.tensor([t.advantages[0] for g in seen for t in g.trajectories], dtype=torch.float64)[:, None]
    model, wants = toy_flow(), (MatchingError(6),)
    old = model.evaluate(contexts, wants)[wants[0]].detach()
    for _ in range(2):
        ratio = (old - model.evaluate(contexts, wants)[wants[0]]).exp()
        (-torch.minimum(ratio * given, ratio.clamp(0, 2) * given).mean()).backward()
        with torch.no_grad():
            for p in model.network.parameters():
                p.sub_(0.5 * p.grad)
        model.network.zero_grad()
    assert_close(torch.cat([w.flatten() for w in after.values()]), weights(model), rtol=0, atol=1e-10)
    assert not torch.equal(weights(model), weights(toy_flow()))


def test_without_its_differences_it_is_flow_grpo():
    plain = awm.but(rollout=flow_grpo.rollout, credit=flow_grpo.credit, objective=flow_grpo.objective, players__average=None)
    plain = plain.but(update=flow_grpo.update)
    assert changes(flow_grpo, plain) == {}
    check_same_update(plain, flow_grpo, rate=0.01)


@pytest.mark.parametrize("micro_tokens", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro_tokens):
    recipe = awm.but(update__epochs=2)
    whole, cut = weights_after(recipe, steps=2), weights_after(recipe, steps=2, micro_tokens=micro_tokens)
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_nothing_is_stored_but_samples_whatever_the_sampler():
    sizes = []
    for sampler in (Ode(3), Ode(30), Sde(10)):
        seen = []
        train_toy(awm.but(rollout__sampler=sampler), steps=1, watch=lambda run, metrics, groups, seen=seen: seen.extend(groups))
        contexts = [t.contexts[0] for g in seen for t in g.trajectories]
        assert all(c.logprobs is None and c.actions == 1 for c in contexts)
        sizes.append(sum(a.nbytes for c in contexts for a in (c.tokens, c.chosen, c.versions, *c.streams.values())))
    assert len(set(sizes)) == 1


def test_the_average_follows_the_policy_with_a_decay_that_rises():
    trail = [weights(toy_flow())]

    def watch(run, metrics, groups):
        trail.append(weights(run.players["policy"].policy))

    run = train_toy(awm, steps=3, watch=watch)
    average = trail[0]
    for n, moved in enumerate(trail[1:], 1):
        average = 0.001 * n * average + (1 - 0.001 * n) * moved
    assert_close(weights(run.players["average"].policy), average, rtol=0, atol=1e-12)
    assert torch.equal(weights(run.players["reference"].policy), trail[0])
    assert run.metrics[2]["gap/average"] < run.metrics[2]["gap/reference"]


def test_its_changes_are_all_that_turns_its_base_into_it():
    assert changes(awm, flow_grpo.plus(awm)) == {}


@pytest.mark.parametrize("sampler", [Ode(14), Sde(14)])
def test_samples_of_ode_and_sde_both_train(sampler):
    recipe = awm.but(rollout__sampler=sampler, setting__steps=40, setting__prompts=8, setting__eval_every=0, study__problems=128)
    before, *_, after = (m["held_out/reward"] for m in go(prepare(recipe, flow_2d(), seed=1)).metrics if "held_out/reward" in m)
    assert after > before + 0.08


def pairs(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_the_gap_by_hand():
    signal = MatchedVelocity(player="reference", draws=2)
    batch = flow_batch([{"sample": [[0.0]]}] * 2, (1.0, 1.0), {signal: [[[[0.0, 0.0], [1.0, 1.0]]], [[[0.0, 2.0], [0.0, 0.0]]]]})
    v = pairs([[1.0, 2.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 4.0]]).requires_grad_()
    loss, metrics = VelocityGap(0.5, draws=2).loss({MatchingVelocity(2): v}, batch)
    # squares 1 4 0 0, mean 5/4; 0 4 0 16, mean 5; their mean 25/8, half of it
    assert loss.item() == pytest.approx(25 / 16)
    assert metrics["gap/reference"].mean == pytest.approx(25 / 8)
    loss.backward()
    assert_close(v.grad, pairs([[0.125, 0.25], [0.0, 0.0]], [[0.0, -0.25], [0.0, 0.5]]))  # 0.5 * 2 d / (4 * 2) = d / 8
