"""Q#: the optimum of a tree, the likelihood of rewards, the switch from guided to reference tokens, and what never moves."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.objectives.q_sharp import q_sharp
from gradus.rollouts.token_rules import GuidedByQ
from gradus.testing.methods import steps_of, toy_run, train_toy
from gradus.training.launch import go
from gradus.types import Key

WIDTH, DEPTH, ETA = 3, 3, 0.5


def tree():
    """A reference policy [prefix] -> log-probabilities of the next token, and a reward 0 or 1 for every leaf."""
    key = Key(11)
    prefixes = [p for depth in range(DEPTH) for p in product(range(WIDTH), repeat=depth)]
    reference = {p: torch.log_softmax(torch.from_numpy(key.fold("reference", *p).normal(WIDTH)), -1) for p in prefixes}
    rewards = {leaf: float(key.fold("reward", *leaf).uniform()[()] < 0.3) for leaf in product(range(WIDTH), repeat=DEPTH)}
    return reference, rewards


def chances(reference, rewards):
    """P(R = 1) under the reference after every prefix and token, [WIDTH] each."""
    found = {}

    def after(prefix):
        if len(prefix) == DEPTH:
            return rewards[prefix]
        row = torch.tensor([after((*prefix, a)) for a in range(WIDTH)], dtype=torch.float64)
        found[prefix] = row
        return float((reference[prefix].exp() * row).sum())

    after(())
    return found


def leaves_of(policy):
    """The probability of every leaf, in order, under rows of log-probabilities by prefix."""
    return torch.stack([sum(policy[leaf[:i]][a] for i, a in enumerate(leaf)).exp() for leaf in product(range(WIDTH), repeat=DEPTH)])


def guided(form):
    reference, rewards = tree()
    head = {p: torch.logit(row, eps=1e-15) for p, row in chances(reference, rewards).items()}
    rule = GuidedByQ(eta=ETA, form=form)
    return {p: rule.logits({"policy": reference[p][None], "value": head[p][None]}, [])[0].log_softmax(-1) for p in reference}


def test_exact_guidance_is_the_optimum_of_the_tree_and_the_mean_is_not():
    """The optimum of E[R] - eta KL over whole leaves is pi_ref(leaf) exp(R / eta) / Z, found without any recursion."""
    reference, rewards = tree()
    prior, reward = leaves_of(reference), torch.tensor(list(rewards.values()), dtype=torch.float64)
    assert 0 < float(reward.sum()) < len(reward)
    best = prior * (reward / ETA).exp()
    best = best / best.sum()
    assert_close(leaves_of(guided("chance")), best, atol=1e-6, rtol=0)
    mean = leaves_of(guided("mean"))
    assert float((mean - best).abs().max()) > 1e-3

    def value(law):
        return float((law * reward).sum() - ETA * (law * (law / prior).log()).sum())

    assert value(best) == pytest.approx(ETA * math.log(float((prior * (reward / ETA).exp()).sum())))
    assert value(mean) < value(best) - 1e-4
    assert value(prior) < value(mean)


def test_the_policy_never_moves_and_the_value_does():
    run = toy_run(q_sharp, steps=3)
    before = {name: {n: w.clone() for n, w in p.policy.network.state_dict().items()} for name, p in run.players.items()}
    go(run)
    after = {name: p.policy.network.state_dict() for name, p in run.players.items()}
    assert all(torch.equal(before["policy"][n], after["policy"][n]) for n in before["policy"])
    assert not torch.equal(before["value"]["heads.q"], after["value"]["heads.q"])


def test_only_tokens_after_the_switch_are_actions_and_every_answer_teaches():
    groups = [g for _, groups in steps_of(q_sharp.but(setting__max_tokens=4), steps=6, prompts=6) for g in groups]
    lengths = set()
    for t in (t for g in groups for t in g.trajectories):
        (context,) = t.contexts
        guided, at = context.parent
        h = at - (len(guided.sequence) - guided.actions)
        lengths.add((h, guided.actions))
        assert t.trained
        assert 0 <= h < guided.actions  # the end of the guided answer is never kept
        assert context.prefix[-h or len(context.prefix) :].tolist() == guided.tokens[:h].tolist()  # the roll-in is a prefix, not an action
        assert 1 <= context.actions <= 4 - h
    assert {h for h, length in lengths if length == 4} == {0, 1, 2, 3}
    assert min(length for _, length in lengths) < 4  # short answers are cut within their length


def test_the_roll_in_is_guided_and_the_rest_is_not():
    """With a head that forbids all tokens but one in effect, roll-ins hold that token alone; what follows does not."""
    run = toy_run(q_sharp, steps=1, prompts=8, max_tokens=6)
    with torch.no_grad():
        run.players["value"].policy.network.heads["q"].fill_(-50.0)
        run.players["value"].policy.network.heads["q"][:, 3] = 50.0
    seen = []
    run.on_step = lambda run, row, groups: seen.extend(t for g in groups for t in g.trajectories)
    run.recipe = run.recipe.but(rollout__rule__eta=0.02)
    go(run)
    inside = np.concatenate([t.contexts[0].prefix[1:] for t in seen if t.trained])
    after = np.concatenate([t.contexts[0].tokens for t in seen if t.trained])
    assert set(inside.tolist()) == {3}
    assert set(after.tolist()) - {3}


def test_a_large_eta_gives_the_reference():
    rows = {"policy": torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), "value": torch.zeros(4, 8)}
    rows["value"] = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = GuidedByQ(eta=1e9).logits(rows, []).log_softmax(-1)
    assert_close(found, rows["policy"].log_softmax(-1), atol=1e-8, rtol=0)


def test_earlier_groups_are_learned_again():
    run = train_toy(q_sharp, steps=3)
    assert len(run.memory.states["selection"]["state"]["units"]) == 12
