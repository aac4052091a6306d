"""SWEET-RL: turn advantages, both losses and drawn pairs by hand, what critic and agent read, who learns when, and its limits."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.preference import preference_losses
from gradus.objectives.scores import LogRatio, TurnMeans
from gradus.objectives.terms import evaluate
from gradus.papers.credit.sweet_rl import CRITIC, RankedTurns, drawn_pairs, sweet_rl
from gradus.rollouts.privileged import STREAM, PrivilegedPrompt, WithAnswers
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import REFERENCE, check_micro_batches, check_same_update, toy_batch, toy_group, toy_trajectory, train_toy
from gradus.types import Frozen, Group, Key, UserError
from gradus.types.signals import LogProb

TURNS = sweet_rl.but(schedule=ConstantSchedule(), rollout__count=4)
LEARNED = sweet_rl.but(**{name.replace(".", "__"): value for name, value in CRITIC.items()}, schedule=ConstantSchedule())


def episode(name, *turns, reward):
    """An episode with turns of these lengths."""
    t = toy_trajectory([2] * sum(turns), reward=reward, name=name)
    numbers = np.repeat(np.arange(len(turns)), turns)
    return t.but(contexts=(replace(t.contexts[0], streams=Frozen(turn=numbers, state=numbers)),))


def scored(score, trajectories, ratios):
    """Scores for these log-ratios, one list a trajectory."""
    batch = toy_batch(Group("g", tuple(trajectories)), signals={REFERENCE: {t.id: np.full(t.actions, -1.0) for t in trajectories}})
    return score.scores(torch.tensor([x - 1 for row in ratios for x in row], dtype=torch.float64), batch).tolist()


def test_turn_advantages_by_hand():
    one, two = episode("a", 4, reward=1.0), episode("b", 8, reward=0.0)
    ratios = [0.4, 0, 0, 0.4]
    assert scored(TurnMeans(), [one, two], [ratios, ratios * 2]) == pytest.approx([0.2, 0.2])  # twice the length, the same mean
    assert scored(LogRatio(), [one, two], [ratios, ratios * 2]) == pytest.approx([0.8, 1.6])
    # turns of 1 and 3 tokens: .3 + (.6 + 0 + .3) / 3; two turns of one token: their sum
    both = [episode("a", 1, 3, reward=1.0), episode("b", 1, 1, reward=0.0)]
    assert scored(TurnMeans(), both, [[0.3, 0.6, 0.0, 0.3], [0.5, -0.2]]) == pytest.approx([0.6, 0.3])


def test_the_critics_loss_by_hand():
    assert preference_losses(torch.tensor(0.6), torch.tensor(0.0), beta=1.0).item() == pytest.approx(0.43749, abs=1e-5)
    shifted = preference_losses(torch.tensor(7.6, dtype=torch.float64), torch.tensor(7.0, dtype=torch.float64), beta=1.0)
    assert shifted.item() == pytest.approx(math.log(1 + math.exp(-0.6)))
    # beta .1: sums 6 = 2 + 4 and 0; the slope of a token is -beta sigmoid(-.6) over the length of its turn
    pair = (episode("a", 1, 2, reward=1.0), episode("b", 1, reward=0.0))
    batch = toy_batch(Group("g", pair), signals={REFERENCE: {"a": np.zeros(3), "b": np.zeros(1)}})
    rows = torch.tensor([2.0, 5.0, 3.0, 0.0], dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(CRITIC["players.critic"].objective, {LogProb(): rows}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(0.43749, abs=1e-5)
    slope = 0.1 / (1 + math.exp(0.6))
    assert_close(rows.grad, torch.tensor([-slope, -slope / 2, -slope / 2, slope], dtype=torch.float64))
    assert metrics["preferred"].mean == 1.0


def test_the_policys_loss_by_hand():
    # DPO on the sums, h = 2 and 0, and .01 times the mean negative log-likelihood of the better turn
    pair = (episode("a", 2, reward=1.0), episode("b", 1, reward=0.0))
    batch = toy_batch(Group("g", pair), signals={REFERENCE: {"a": np.array([-2.0, -3.0]), "b": np.array([-1.0])}})
    rows = torch.tensor([-1.0, -2.0, -1.0], dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(sweet_rl.objective, {LogProb(): rows}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.2)) + 0.01 * 1.5)
    slope = 0.1 / (1 + math.exp(0.2))
    assert_close(rows.grad, torch.tensor([-slope - 0.005, -slope - 0.005, slope], dtype=torch.float64))


def test_the_score_of_a_candidate_by_hand():
    # the critic minus the reference, as a mean over tokens: (.4 + 0 + 0 + .4) / 4
    rows = {"critic": np.array([-0.6, -1.0, -1.0, -0.6]), "reference": np.full(4, -1.0)}

    class Scoring:
        async def score(self, contexts, want, player):
            return [rows[player] for _ in contexts]

    (context,) = episode("a", 4, reward=1.0).contexts
    found = asyncio.run(RankedTurns(sees=None).scores([context], Scoring()))
    assert found == pytest.approx([0.2])


def test_pairs_are_one_of_each_half():
    scores, seen = [0.1, 0.9, 0.5, -0.3, 0.7, 0.0], Counter()
    for seed in range(40):
        found = drawn_pairs(scores, 4, Key(seed))
        assert len(found) == 4
        for i, j in found:
            assert i in (1, 4, 2)
            assert j in (0, 5, 3)
            seen[i, j] += 1
    assert len(seen) == 9
    assert drawn_pairs([1.0, 1.0], 2, Key(0)) == [(0, 1), (0, 1)]  # of equal scores the earlier one
    assert {j for s in range(20) for _, j in drawn_pairs([3.0, 2.0, 1.0], 4, Key(s))} == {1, 2}  # of three the worse half has two


def test_turns_are_needed():
    with pytest.raises(UserError, match="TurnMeans averages over turns"):
        TurnMeans().scores(torch.zeros(2), toy_batch(toy_group(1.0)))


def prompt(context):
    return context.until(int(context.action_positions[0])).sequence.tolist()


def test_episodes_are_not_trained_on_and_the_start_model_plays_them():
    seen = []
    train_toy(TURNS, steps=1, watch=lambda run, metrics, groups: seen.extend(groups))
    assert {(t.player, t.trained) for g in seen if not g.aside for t in g.trajectories} == {("reference", False)}


def with_taste(monkeypatch):
    """Lets the critic differ from the reference: the score of a candidate is the sum of its tokens. Returns (seen contexts, their originals)."""

    async def scores(self, contexts, world):
        seen.extend(c if self.sees is None else self.sees.of(c, Key()) for c in contexts)
        given.extend(contexts)
        return [float(c.sequence[c.action_positions].sum()) for c in contexts]

    seen, given = [], []
    monkeypatch.setattr(RankedTurns, "scores", scores)
    return seen, given


def test_the_policy_learns_pairs_of_turns_and_the_critic_reads_the_answer(monkeypatch):
    seen, given = with_taste(monkeypatch)
    steps = []
    run = train_toy(TURNS, steps=2, prompts=2, watch=lambda run, metrics, groups: steps.append((metrics, groups)))
    pairs = [g for _, groups in steps for g in groups if g.aside]
    assert run.players["policy"].updates == 2
    assert run.players["critic"].updates == 0
    assert {tuple(t.value for t in g.trajectories) for g in pairs} == {(1.0, 0.0)}
    for better, worse in (g.trajectories for g in pairs):
        assert prompt(better.contexts[0]) == prompt(worse.contexts[0])  # one state
        first, second = (t.contexts[0].sequence[t.contexts[0].action_positions].sum() for t in (better, worse))
        assert first >= second
    for told, plain in zip(seen, given, strict=True):
        hint = plain.streams[STREAM][0].tolist()
        assert len(hint) > 1
        assert prompt(told) == hint + prompt(plain)
        assert prompt(plain)[: len(hint)] != hint
    assert np.mean([m["gap"] for m, _ in steps]) > 0


def test_in_the_first_stage_only_the_critic_learns_and_orders_episodes():
    seen = []
    run = train_toy(LEARNED, steps=15, prompts=4, group=8, learning_rate=0.2, watch=lambda run, metrics, groups: seen.append(metrics))
    assert run.players["policy"].updates == 0
    assert run.players["critic"].updates > 10
    assert np.mean([m["critic/preferred"] for m in seen[-8:] if "critic/preferred" in m]) > 0.6


def test_with_nothing_to_tell_the_critic_is_one_without_the_view():
    blind, silent = LEARNED.but(players__critic__sees=None), LEARNED.but(rollout__tell="")
    ours, base = (train_toy(r, steps=3).players["critic"].policy.network.logits for r in (silent, blind))
    assert torch.equal(ours, base)
    assert LEARNED.players["critic"].sees == PrivilegedPrompt()


def test_without_the_likelihood_it_is_dpo_on_turns(monkeypatch):
    with_taste(monkeypatch)
    plain = TURNS.but(objective=Frozen(turns=sweet_rl.objective["turns"]))
    check_same_update(TURNS.but(objective__nll__coefficient=0.0), plain, steps=2)


def test_micro_batches_change_nothing(monkeypatch):
    check_micro_batches(LEARNED.but(rollout__rollout__max_turns=3), prompts=2)
    with_taste(monkeypatch)
    check_micro_batches(TURNS.but(rollout__count=2, rollout__pairs=1, rollout__rollout__max_turns=3), prompts=2, group=2)


def test_the_stages():
    stages = sweet_rl.schedule.stages
    assert stages["turns"].players == Frozen(critic="critic.critic")
    assert sweet_rl.players["critic"].objective is None
    assert CRITIC["rollout"] == WithAnswers(sweet_rl.rollout.rollout)
    assert (sweet_rl.rollout.count, sweet_rl.rollout.pairs, sweet_rl.rollout.rollout.max_turns) == (16, 4, 10)
    with pytest.raises(UserError, match="`tell` is"):
        RankedTurns(tell="no place")
