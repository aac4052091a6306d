"""Earlier answers as drafts: the rule and the residual by hand, what is kept, the law of the answers, state, limits and stops."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts import drafts
from gradus.rollouts.auto import Auto
from gradus.rollouts.drafts import EarlierAnswers, accepted_tokens, joined, log_residual
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, scripted_context, scripted_world, stored_state, toy_run
from gradus.training.world import RunWorld
from gradus.types import Ended, Key, Request, Sampling, UserError, uniforms

OLD, NEW, DRAWS = np.log([0.5, 0.4, 0.2]), np.log([0.6, 0.1, 0.3]), np.array([0.9, 0.4, 0.1])


def played(rollout, *, steps=2, count=4, problems=3, change=0.0, keep=lambda state: state, sampling=None):
    """The groups and the metrics of several steps on the same problems. After each step, the logits change by random numbers of this size."""
    run, state, out = toy_run(reinforce), rollout.start(), []
    requests = [Request(p, count=count, sampling=sampling) for p in TOY.source.draw(range(problems), None, Key())]
    logits = run.players["policy"].policy.network.logits
    for step in range(steps):
        run.step = step
        _, world = run.at(step)
        groups, state = asyncio.run(rollout.run(requests, world, keep(state)))
        out.append(([t for g in groups for t in g.trajectories], world.notes, world.spent, logits.detach().clone()))
        with torch.no_grad():
            logits += change * torch.from_numpy(Key(step).normal(*logits.shape))
    return out


def test_the_rule_by_hand():
    assert accepted_tokens(NEW, OLD, 1.0, DRAWS) == 1  # 1, then 0.25 < 0.4
    assert accepted_tokens(NEW, OLD, math.exp(0.5), DRAWS) == 3  # 0.4122 at the second token
    assert accepted_tokens(NEW, OLD, 0.0, DRAWS) == 0
    assert accepted_tokens(NEW, OLD, math.inf, np.ones(3)) == 3
    assert accepted_tokens(np.log([0.25]), np.log([0.5]), 1.0, np.array([0.5])) == 1  # equal numbers accept
    assert accepted_tokens(np.zeros(0), np.zeros(0), 1.0, np.zeros(0)) == 0


@pytest.mark.parametrize("lenience", [0.0, 0.4, 1.0])
def test_the_residual_makes_the_law_that_of_the_new_policy(lenience):
    q, p = np.array([0.5, 0.3, 0.2, 1e-9]), np.array([0.2, 0.3, 0.1, 0.4])
    taken = np.minimum(q, lenience * p)
    law = taken + (1 - taken.sum()) * np.exp(log_residual(np.log(p), np.log(q), lenience))
    np.testing.assert_allclose(law, p, atol=1e-8)
    if lenience == 1:
        np.testing.assert_allclose(
            taken + (1 - taken.sum()) * p, [0.28, 0.42, 0.14, 0.16], atol=1e-8
        )  # another draw of p in place of the residual


def test_50000_answers_of_one_token_are_within_0_01_of_the_new_policy():
    q, p = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.3, 0.1, 0.4])
    old, new = np.log(q), np.log(p)
    drafted, draws, again = Key(1).uniform(3, 50_000)
    tokens = np.searchsorted(q.cumsum(), drafted)
    kept = np.array([accepted_tokens(new[[t]], old[[t]], 1.0, 1 - draws[[i]]) == 1 for i, t in enumerate(tokens)])
    others = np.searchsorted(np.exp(log_residual(new, old, 1.0)).cumsum()[:-1], again)
    found = np.bincount(np.where(kept, tokens, others), minlength=4) / 50_000
    assert abs(kept.mean() - np.minimum(p, q).sum()) < 0.01
    assert np.abs(found - p).sum() / 2 < 0.01


def test_equal_distributions_leave_no_residual():
    row = np.log([0.5, 0.5])
    assert log_residual(row, row, 1.0).tolist() == row.tolist()


@pytest.mark.parametrize("residual", [False, True])
def test_an_unchanged_policy_keeps_all_at_lenience_1_and_nothing_at_0(residual):
    first, second = played(EarlierAnswers(1.0, residual))
    assert [t.completion for t in second[0]] == [t.completion for t in first[0]]
    assert (second[1]["generated"], second[1]["reused"]) == (0, 1)
    assert second[2].get("rollout", 0) == 0
    first, second = played(EarlierAnswers(0.0))
    assert second[1]["kept"] == second[1]["reused"] == 0
    assert second[2]["rollout"] == sum(t.actions for t in second[0])


def test_without_drafts_it_is_plain_sampling():
    requests = [Request(p, count=3) for p in TOY.source.draw(range(3), None, Key())]
    run = toy_run(reinforce)
    plain = asyncio.run(Auto().run(requests, run.at(0)[1]))
    ours, _ = asyncio.run(EarlierAnswers().run(requests, run.at(0)[1], EarlierAnswers().start()))
    for a, b in zip((t for g in ours for t in g.trajectories), (t for g in plain for t in g.trajectories), strict=True):
        assert (a.id, a.completion, a.ended, a.value) == (b.id, b.completion, b.ended, b.value)
        assert a.contexts[0].logprobs.tolist() == b.contexts[0].logprobs.tolist()


@pytest.mark.parametrize("residual", [False, True])
def test_all_log_probabilities_are_those_of_the_current_policy(residual):
    mixed = 0
    for trajectories, notes, spent, logits in played(EarlierAnswers(1.0, residual), steps=4, change=0.4):
        table = logits.log_softmax(-1).numpy()
        for (c,) in (t.contexts for t in trajectories):
            due = [table[a, b] for a, b in pairwise(c.sequence[-c.actions - 1 :])]
            np.testing.assert_allclose(c.logprobs, due, rtol=1e-5, atol=1e-6)
            assert c.ended is Ended.STOP or c.actions == 6
        mixed += notes.get("kept", 0) > 0 and notes["reused"] < 1
        assert spent.get("rollout", 0) == round(notes["generated"] * len(trajectories))
    assert mixed == 3


def test_the_answers_of_one_token_have_the_distribution_of_the_new_policy():
    _, (answers, notes, _, logits) = played(EarlierAnswers(1.0, True), count=3000, problems=1, change=1.0, sampling=Sampling(max_tokens=1))
    found = np.bincount([t.contexts[0].tokens[0] for t in answers], minlength=8) / 3000
    due = logits.softmax(-1)[int(answers[0].contexts[0].sequence[-2])].numpy()
    assert notes["reused"] < 0.9
    assert np.abs(found - due).sum() / 2 < 0.035


def test_a_stop_string_that_began_in_the_kept_tokens_ends_the_answer():
    world, _ = scripted_world(TOY, lambda ask: "")
    request = Request(TOY.source.draw([0], None, Key())[0], sampling=Sampling(max_tokens=9, stops=("cd",)))
    answer = joined(scripted_context("abc"), scripted_context("defgh"), request, world)
    assert (world.text(answer.tokens, "policy"), answer.ended, answer.actions, len(answer.logprobs)) == ("abcd", Ended.STOP, 4, 4)


def test_the_check_has_its_own_draws_in_each_step_and_slot(monkeypatch):
    checks, keys = [], []
    rule, acted = drafts.accepted_tokens, RunWorld._acted
    monkeypatch.setattr(
        drafts, "accepted_tokens", lambda new, old, lenience, draws: checks.append(draws) or rule(new, old, lenience, draws)
    )
    monkeypatch.setattr(RunWorld, "_acted", lambda self, player, asks: keys.extend(a.key.value for a in asks) or acted(self, player, asks))
    played(EarlierAnswers(1e-9), steps=3, change=0.4)  # all slots sample in each step, because every draft is rejected
    found = np.concatenate(checks)
    assert (len(checks), len(keys)) == (24, 36)
    assert len(set(found)) == len(found)
    sampled = uniforms(np.array(keys, np.uint64)[:, None], np.arange(100)[None])
    assert not np.isin([found, 1 - found], sampled).any()


def test_a_stored_state_goes_on_alike():
    for residual in (False, True):
        stored, plain = (
            [
                [(t.id, t.completion, t.value) for t in step[0]]
                for step in played(EarlierAnswers(1.0, residual), steps=3, change=0.4, keep=keep)
            ]
            for keep in (stored_state, lambda state: state)
        )
        assert stored == plain


def test_the_oldest_answers_are_deleted_first():
    rollout, run = EarlierAnswers(most=5), toy_run(reinforce)
    requests = [Request(p, count=2) for p in TOY.source.draw(range(4), None, Key())]
    _, state = asyncio.run(rollout.run(requests, run.at(0)[1], rollout.start()))
    assert state["names"] == ["toy/1/1", "toy/2/0", "toy/2/1", "toy/3/0", "toy/3/1"]


def test_a_longer_limit_continues_a_cut_draft_and_a_shorter_limit_cuts_it():
    rollout, run = EarlierAnswers(math.inf), toy_run(reinforce)
    (problem,) = TOY.source.draw([0], None, Key())

    def answer(step, limit, state):
        request = Request(problem, count=8, sampling=Sampling(max_tokens=limit))
        (group,), state = asyncio.run(rollout.run([request], run.at(step)[1], state))
        return [t.contexts[0] for t in group.trajectories], state

    two, state = answer(0, 2, rollout.start())
    six, state = answer(1, 6, state)
    one, _ = answer(2, 1, state)
    assert any(c.actions > 2 for c in six)
    assert [c.tokens[:2].tolist() for c in six] == [c.tokens.tolist() for c in two]
    assert [c.tokens.tolist() for c in one] == [c.tokens[:1].tolist() for c in two]


def test_the_residual_refuses_sampling_that_excludes_tokens():
    with pytest.raises(UserError, match="needs whole distributions"):
        played(EarlierAnswers(1.0, True), sampling=Sampling(max_tokens=4, top_p=0.5))


def test_a_task_of_many_turns_is_refused():
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "up")
    with pytest.raises(UserError, match="set --rollout Episodes"):
        asyncio.run(EarlierAnswers().run([], world, EarlierAnswers().start()))
    assert isinstance(EarlierAnswers().test, Auto)
