"""Coupled-GRPO: the estimate and its variance on the built-in model, equal masks, leave-one-out, moves, the reference, and its base at the limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from gradus.credit.groups import leave_one_out
from gradus.objectives.denoised import DenoisedPolicy
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.generation.coupled_grpo import DenoisedKL, coupled_grpo
from gradus.policies import registry
from gradus.policies.unmasking import scores
from gradus.recipe.core import changes
from gradus.study.unmasking_order import global_at
from gradus.tasks.puzzles.sudoku4 import sudoku4
from gradus.testing.methods import masked_ask, steps_of, toy_batch, toy_masked, train_toy, weights_after
from gradus.training.world import Ask
from gradus.types import Group, Key, Problem, Request, Sampling, Trajectory
from gradus.types.masks import Coupled, Denoised, OneStep, Unmask
from gradus.types.players import MovingAverage
from gradus.updates.minibatches import Minibatches, keys_of


@dataclass(frozen=True)
class Independent:
    """As `Coupled`, but the last mask is no complement: each token is in it with probability 1 - m, whatever the other mask holds."""

    def draw(self, actions, shared, own):
        hidden, factors = Coupled().draw(actions, shared, own)
        hidden[2] = own.fold("other").uniform(actions) < 1 - 0.5 / factors[1, 0]
        return hidden, factors


def built_in_model():
    return registry.load(None, "masked", "sudoku4", registry.Loading(torch.float32))


def asked(model, problem, sample=0):
    prompt = model.opening(problem.messages)
    return Ask(prompt, len(prompt.sequence), Sampling(max_tokens=16), Key(1).fold(problem.id, *[sample] * bool(sample)), 0, Request(problem))


def built_in_answer(index=1):
    model = built_in_model()
    return model, model.act([asked(model, sudoku4().held_out.draw([index], 3, Key(0))[0])])


def sums(model, contexts, masks, repeats=200):
    want = Denoised(masks)
    with torch.no_grad():
        return [float(model.evaluate(contexts, (want,), Key(i))[want].sum()) for i in range(repeats)]


@pytest.mark.nightly
def test_the_variance_is_at_least_a_fifth_below_that_of_independent_masks():
    # 200 repeats, three passes each, on an answer of the built-in model
    model, contexts = built_in_answer()
    coupled, independent = (sums(model, contexts, masks) for masks in (Coupled(), Independent()))
    assert np.var(coupled) <= 0.8 * np.var(independent)
    assert np.mean(coupled) == pytest.approx(np.mean(independent), abs=0.6)


def test_rewards_1_0_0_give_1_and_minus_a_half():
    assert leave_one_out(np.array([1.0, 0.0, 0.0])).tolist() == [1.0, -0.5, -0.5]


def test_its_changes():
    assert set(changes(grpo, coupled_grpo)) == {"rollout", "credit", "objective.policy", "objective.kl", "players.reference.model", "update.epochs"}
    policy, kl = coupled_grpo.objective["policy"], coupled_grpo.objective["kl"]
    assert (policy.masks, policy.trust) == (Coupled(0.2, 0.8), Clip(0.5, 0.5))
    assert (kl.masks, kl.coefficient, kl.moves) == (policy.masks, 0.01, coupled_grpo.update.epochs)
    assert coupled_grpo.players["reference"].model == MovingAverage("policy", decay=0.4, every=64)


def test_unchanged_weights_have_the_ratio_one_exactly_in_both_moves():
    model = toy_masked()
    contexts = model.act([masked_ask("p", i) for i in range(4)])
    for key in keys_of(coupled_grpo.objective, 2, Key(9)):
        want = Denoised(Coupled())
        new, old = (policy.evaluate(contexts, (want,), key)[want].sum(-1) for policy in (model, model.clone()))
        assert ((new - old).exp() == 1).all()


def test_the_masks_of_the_second_move_are_new_and_the_reference_has_them_too():
    first, second = keys_of(coupled_grpo.objective, 2, Key(9))
    assert first != second
    assert keys_of(grpo.objective, 2, Key(9)) == [Key(9), Key(9)]
    model = toy_masked()
    contexts = model.act([masked_ask("p", i) for i in range(3)])
    for move, key in enumerate((first, second)):
        now = model.evaluate(contexts, (Denoised(Coupled()),), key)
        reference = model.clone().evaluate(contexts, (Denoised(Coupled(), move),), Key(9))
        assert torch.equal(*now.values(), *reference.values())


def test_the_clip_acts_and_the_kl_moves():
    seen = steps_of(coupled_grpo.but(optimizer__clip=None), steps=3, learning_rate=0.3)
    assert any(metrics["clip_share"] > 0 for metrics, _ in seen)
    assert any(metrics["kl"] > 0 for metrics, _ in seen)


def test_without_a_step_both_updates_have_the_ratio_one_and_no_kl():
    # each update has masks of its own; the start of the update and the reference are read on the same ones, or k3 were above 0
    ((metrics, _),) = steps_of(coupled_grpo, steps=1, learning_rate=0.0)
    assert metrics["ratio"] == 1.0
    assert metrics["kl"] == 0.0


def test_the_reference_becomes_six_tenths_of_the_policy_every_64_updates():
    # two updates a step: every 32 steps; here every 4 updates, so after the second and the fourth of four steps
    recipe = coupled_grpo.but(players__reference__model__every=4)
    seen = []

    def look(run, metrics, groups):
        ours, theirs = (run.players[n].policy.network.state_dict() for n in ("policy", "reference"))
        seen.append({n: (ours[n].clone(), theirs[n].clone()) for n in ours})

    train_toy(recipe, steps=4, watch=look, learning_rate=0.1)
    for name, (_, start) in seen[0].items():
        policies, references = [step[name][0] for step in seen], [step[name][1] for step in seen]
        once = 0.6 * policies[1] + 0.4 * start
        for found, expected in zip(references, (start, once, once, 0.6 * policies[3] + 0.4 * once), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert any((policy - reference).abs().max() > 1e-3 for policy, reference in seen[1].values())


def test_one_full_mask_is_the_limit_without_the_second_and_third_pass():
    # a law with the factors (1, 0, 0) is OneStep
    @dataclass(frozen=True)
    class Only:
        def draw(self, actions, shared, own):
            hidden, factors = Coupled().draw(actions, shared, own)
            return hidden, factors * np.array([[2.0], [0.0], [0.0]])

    one, other = (
        coupled_grpo.but(objective__policy=DenoisedPolicy(masks, trust=Clip(0.5, 0.5)), objective__kl=DenoisedKL(masks, 0.01, moves=2))
        for masks in (OneStep(), Only())
    )
    found, expected = weights_after(one), weights_after(other)
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-12)
    assert any((value - before).abs().max() > 1e-3 for value, before in zip(found.values(), weights_after(one, rate=0.0).values(), strict=True))


def test_one_update_has_the_gradient_of_the_estimate_times_the_advantage():
    model = toy_masked()
    contexts = model.act([masked_ask("p", i) for i in range(3)])
    want = Denoised(Coupled())
    rows = model.evaluate(contexts, (want,), Key(2))[want].sum(-1)
    made = tuple(Trajectory(f"t{i}", Problem("p", "toy"), (c,), reward=0.0) for i, c in enumerate(contexts))
    given = [1.0, -0.5, -0.5]
    batch = toy_batch(Group("g", made), advantages=given)
    loss, metrics = DenoisedPolicy(Coupled(), trust=Clip(0.5, 0.5)).loss({want: model.evaluate(contexts, (want,), Key(2))[want]}, batch)
    assert metrics["ratio"].mean == 1.0
    by_hand = -sum(a * piece.mean() for a, piece in zip(given, rows.split([c.actions for c in contexts]), strict=True)) / 3
    weight = model.network.model.embed_tokens.weight
    ours, theirs = (torch.autograd.grad(x, weight, retain_graph=True)[0] for x in (loss, by_hand))
    assert theirs.abs().max() > 0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_decoding_from_left_to_right_is_causal_and_by_entropy_is_not():
    model = toy_masked()
    left, free = ([c.streams["order"] for c in model.act([masked_ask("p", i, how=how) for i in range(20)])] for how in (Unmask("left"), Unmask()))
    assert all(global_at(order, 1) == 1.0 for order in left)
    assert np.mean([global_at(order, 1) for order in free]) < 0.9


def test_its_update_is_two_epochs_of_one_batch():
    assert coupled_grpo.update == Minibatches(epochs=2)
    run = train_toy(coupled_grpo, steps=1)
    assert run.players["policy"].updates == 2
    assert replace(coupled_grpo.update, epochs=1) != coupled_grpo.update


def path(model, context):
    """The exact log-probability of an answer: each token given what was filled in before it."""
    order, at = torch.from_numpy(context.streams["order"].astype(np.int64)), len(context.prefix)
    rows = torch.from_numpy(context.sequence.astype(np.int64)).repeat(len(order), 1)
    rows[:, at:] = torch.where(order[None] >= torch.arange(len(order))[:, None], model.config.mask, rows[:, at:])
    places, steps = torch.argsort(order), torch.arange(len(order))
    logprobs = scores(model.network, model.network.hidden(rows)[:, at:], model.config.mask).log_softmax(-1)
    return logprobs[steps, places, torch.from_numpy(context.tokens.astype(np.int64))[places]].sum()


@pytest.mark.nightly
def test_the_estimate_points_where_the_exact_policy_gradient_does():
    # built-in model, 3 boards, 12 answers each, reward: the share of right cells; exact: the log-probability of the order in which they were written
    model, want = built_in_model(), Denoised(Coupled())
    rewards, contexts = [], []
    for problem in sudoku4().held_out.draw(range(3), 3, Key(0)):
        mine = model.act([asked(model, problem, i) for i in range(12)])
        contexts += mine
        rewards.append([np.mean([a == b for a, b in zip(model.said(c, len(c.prefix)), problem.answer, strict=True)]) for c in mine])
    advantages = np.concatenate([leave_one_out(np.array(r)) for r in rewards])
    batch = toy_batch(Group("g", tuple(Trajectory(f"t{i}", Problem("p", "toy"), (c,), reward=0.0) for i, c in enumerate(contexts))), advantages=advantages)
    loss, _ = DenoisedPolicy(Coupled(), trust=Clip(0.5, 0.5)).loss(model.evaluate(contexts, (want,), Key(2)), batch)
    exact = sum(a * path(model, c) for a, c in zip(advantages.tolist(), contexts, strict=True))
    weights = list(model.network.parameters())
    ours, theirs = (torch.cat([g.flatten().double() for g in torch.autograd.grad(x, weights)]) for x in (-loss, exact))
    assert torch.nn.functional.cosine_similarity(ours, theirs, dim=0) > 0.5


@pytest.mark.nightly
def test_a_right_answer_becomes_likelier_and_wrong_ones_less_likely():
    # built-in model, one board, twelve of its answers; four batches of two updates with the weights at the start of each
    model, want, term = built_in_model(), Denoised(Coupled()), DenoisedPolicy(Coupled(), trust=Clip(0.5, 0.5))
    problem = next(p for p in sudoku4().held_out.draw(range(20), 3, Key(0)) if 2 <= sum(p.answer == s for s in said(model, p)) <= 10)
    contexts = model.act([asked(model, problem, i) for i in range(12)])
    rewards = np.array([float(model.said(c, len(c.prefix)) == problem.answer) for c in contexts])
    group = Group("g", tuple(Trajectory(f"t{i}", Problem("p", "toy"), (c,), reward=r) for i, (c, r) in enumerate(zip(contexts, rewards, strict=True))))
    batch, rule = toy_batch(group, advantages=leave_one_out(rewards).tolist()), torch.optim.Adam(model.network.parameters(), 1e-4)
    before = np.array([path(model, c).item() for c in contexts])
    for first in range(4):
        start = model.clone()
        for key in keys_of(coupled_grpo.objective, 2, Key(first)):
            with torch.no_grad():
                old = {want: start.evaluate(contexts, (want,), key)[want]}
            rule.zero_grad()
            term.loss(model.evaluate(contexts, (want,), key), replace(batch, old=old))[0].backward()
            rule.step()
    change = np.array([path(model, c).item() for c in contexts]) - before
    assert change[rewards == 1].mean() > 0.1
    assert change[rewards == 0].mean() < -0.1


def said(model, problem):
    return [model.said(c, len(c.prefix)) for c in model.act([asked(model, problem, i) for i in range(12)])]
