"""OPRL: step rewards, both advantages and the pairs' loss by hand, who learns when, GRPO as its limit, and good steps that earn more than bad ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.oprl import ImplicitSteps, oprl
from gradus.rollouts.episodes import Episodes
from gradus.selection.pairs import Higher, RankedPairs
from gradus.testing.methods import (
    TOY_EPISODES,
    advantages_of,
    check_bound_acts,
    check_different_update,
    check_micro_batches,
    check_same_update,
    toy_batch,
    toy_trajectory,
    train_toy,
    weights_after,
)
from gradus.types import Frozen, Group, Key, UserError
from gradus.types.signals import LogProb, LogProbs

MODEL, OLD = LogProbs(player="prm", fresh=True), LogProbs()
PLAIN = {"objective__kl__coefficient": 0.01, "update__count": 4}


def episode(name, *turns, reward):
    """An episode of turns of these lengths in one context."""
    t = toy_trajectory([2] * sum(turns), reward=reward, name=name)
    numbers = np.repeat(np.arange(len(turns)), turns)
    return t.but(contexts=(replace(t.contexts[0], streams=Frozen(turn=numbers, state=numbers)),))


def signals(group, *ratios):
    """Signals in which log pi_phi - log pi_old has these rows."""
    rows = dict(zip((t.id for t in group.trajectories), ratios, strict=True))
    return {MODEL: {k: np.array(v) - 1.0 for k, v in rows.items()}, OLD: {k: np.full(len(v), -1.0) for k, v in rows.items()}}


def test_step_rewards_by_hand():
    # beta .05: steps of 2 and 1 tokens with log-ratios 4 + 2 and -2; of two steps without a scale each is half of the difference away from 0
    group = Group("g", (episode("a", 2, 1, reward=1.0),))
    (rows,) = advantages_of(ImplicitSteps(scale="none"), group, signals=signals(group, [4.0, 2.0, -2.0]))
    assert rows[0] == pytest.approx([0.2, 0.2, -0.2])
    quiet = Group("g", (episode("a", 1, 1, 1, reward=1.0),))
    (rows,) = advantages_of(ImplicitSteps(beta=1.0, scale="none"), quiet, signals=signals(quiet, [9e-6, -9e-6, 3e-5]))
    assert rows[0] == pytest.approx([-1e-5, -1e-5, 2e-5])  # rounding is no reward


def test_step_advantages_by_hand():
    # step rewards 1, 0, 0, -1: mean 0, deviation .7071; alpha 1/2; all tokens of a step have one advantage
    group = Group("g", (episode("a", 2, 1, reward=1.0), episode("b", 1, 2, reward=0.0)))
    seen = signals(group, [15.0, 5.0, 0.0], [0.0, -10.0, -10.0])
    (rows,) = advantages_of(ImplicitSteps(alpha=0.5), group, signals=seen)
    assert_close(np.array(rows), np.array([[1.7071, 1.7071, 1.0], [-1.0, -1.7071, -1.7071]]), rtol=0, atol=5e-5)
    (rows,) = advantages_of(ImplicitSteps(), group, signals=seen)
    assert_close(np.array(rows[0]) - 1, np.array([1.4142, 1.4142, 0.0]), rtol=0, atol=5e-5)
    (rows,) = advantages_of(ImplicitSteps(LeaveOneOut(), scale="none"), group, signals=seen)
    assert_close(np.array(rows), np.array([[2.0, 2.0, 1.0], [-1.0, -2.0, -2.0]]))


def test_the_loss_of_a_pair_by_hand():
    # sums of r are .3 and -.1: log(1 + exp(-.4)) = .513; slopes -beta sigmoid(-.4) and + that
    t = (episode("a", 2, 1, reward=1.0), episode("b", 1, reward=0.0))
    old = {"a": np.array([-1.0, -2.0, -1.0]), "b": np.array([-1.0])}
    batch = toy_batch(Group("g", t), signals={OLD: old})
    logprobs = torch.tensor([3.0, 0.0, -1.0, -3.0], dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(oprl.players["prm"].objective, {LogProb(): logprobs}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.4)))
    assert loss.item() == pytest.approx(0.513, abs=5e-4)
    slope = 0.05 / (1 + math.exp(0.4))
    assert_close(logprobs.grad, torch.tensor([-slope] * 3 + [slope], dtype=torch.float64))
    assert metrics["preferred"].mean == 1.0


def test_equal_outcomes_give_no_pair_but_may_give_step_advantages():
    group = Group("g", (episode("a", 1, 1, reward=1.0), episode("b", 1, 1, reward=1.0)))
    kept, dropped = oprl.players["prm"].selection.keep([group], Key())
    assert (kept, dropped) == ([], [group])
    seen = signals(group, [20.0, 0.0], [0.0, -20.0])
    (rows,) = advantages_of(oprl.credit, group, signals=seen)
    assert_close(np.array(rows), np.array([[2**0.5, 0], [0, -(2**0.5)]]))
    assert advantages_of(oprl.credit, group, signals=signals(group, [3.0, 3.0], [3.0, 3.0])) == [[[0.0, 0.0]] * 2]


def test_every_two_episodes_with_unequal_outcomes_are_a_pair():
    group = Group("g", tuple(episode(str(i), 1, reward=r) for i, r in enumerate((1.0, 0.0, 0.5, 0.0))))
    kept, _ = oprl.players["prm"].selection.keep([group], Key())
    assert sorted(tuple(t.value for t in g.trajectories) for g in kept) == [(0.5, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.5)]


def test_a_group_of_one_compares_its_own_steps():
    group = Group("g", (episode("a", 1, 1, reward=1.0),))
    assert advantages_of(oprl.credit, group, signals=signals(group, [20.0, 0.0])) == [[[1.0, -1.0]]]


def test_where_both_models_are_equal_it_is_grpo():
    group = Group("g", (episode("a", 2, 1, reward=1.0), episode("b", 1, reward=0.25)))
    same = signals(group, [0.0] * 3, [0.0])
    assert advantages_of(oprl.credit, group, signals=same) == advantages_of(GroupRelative(), group)
    base = grpo.but(rollout=Episodes(), reward=oprl.reward, **PLAIN)
    unlearned = oprl.but(players__prm__selection=RankedPairs(by=(Higher(9.0),)))
    check_same_update(unlearned, base, steps=1)  # pi_phi is pi_old in the first step
    check_same_update(oprl.but(credit__alpha=0.0), base, steps=3)
    check_different_update(oprl, base, steps=1)  # the policy reads the reward model after its update
    check_different_update(unlearned, base, steps=3)  # later pi_old has moved away


def test_both_models_learn_and_the_reference_does_not():
    run = train_toy(oprl, steps=2)
    assert run.players["policy"].updates == 8
    assert run.players["prm"].updates > 0
    assert run.players["reference"].updates == 0


def test_good_steps_earn_more_than_bad_ones():
    """In the corridor forward steps lead to the goal. In training the policy reads at least half a deviation more reward for them than for steps back."""
    forward, back, old = [], [], {}

    def table(run, name):
        return run.players[name].policy.network.logits.detach().log_softmax(-1).numpy().copy()

    def watch(run, metrics, groups):
        found = table(run, "prm") - old.get("policy", table(run, "reference"))  # the policy that played is that of the previous step
        old["policy"] = table(run, "policy")
        for c in (c for g in groups for t in g.trajectories for c in t.contexts):
            before, chosen = c.sequence[c.action_positions - 1], c.sequence[c.action_positions]
            forward.extend(found[before, chosen][chosen == 1].tolist())
            back.extend(found[before, chosen][chosen == 2].tolist())

    train_toy(oprl, steps=8, prompts=4, group=8, watch=watch)
    assert len(back) > 50
    assert np.mean(forward) > np.mean(back) + 0.5 * np.std(forward + back)


def test_micro_batches_change_nothing_and_the_clip_acts():
    check_micro_batches(oprl)
    check_bound_acts(oprl, updates=4, prompts=4, group=8)
    assert set(weights_after(oprl, steps=1)) >= {"policy.logits", "prm.logits"}


def test_answers_without_turns_are_refused():
    with pytest.raises(UserError, match="has no turns"):
        oprl.credit.assign([Group("g", (toy_trajectory([1, 2]),))], {MODEL: {"t": np.zeros(2)}, OLD: {"t": np.zeros(2)}})
    with pytest.raises(UserError, match="alpha"):
        ImplicitSteps(alpha=-1.0)
    assert train_toy(oprl, steps=1, task=TOY_EPISODES).task is TOY_EPISODES
