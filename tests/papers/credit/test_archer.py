"""ArCHer: targets and advantages of utterances by hand, what is read where, fresh utterances, the slow copy, and who moves when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.turns import first_tokens
from gradus.objectives.terms import evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.credit.archer import HEADS, UtteranceAdvantage, UtteranceTargets, archer, readers, utterance_targets
from gradus.testing.methods import steps_of, toy_run, toy_trajectory
from gradus.training.launch import go
from gradus.types import Frozen, Group, Key
from gradus.types.batch import make_batch
from gradus.types.readers import After
from gradus.types.signals import LogProb


def episode(*turns, reward):
    """An episode of turns of these lengths, with the streams of `Episodes`; the whole reward is at its end."""
    lengths = np.array(turns)
    t = toy_trajectory([2] * int(lengths.sum()), reward=reward, name="e")
    streams = Frozen(turn=np.repeat(np.arange(len(turns)), lengths), state=np.repeat(np.arange(len(turns)), lengths))
    return t.but(contexts=(replace(t.contexts[0], streams=streams),), source="replay")


def fresh(length, name="f"):
    return toy_trajectory([2] * length, reward=0.0, name=name).but(links=Frozen(fresh=0))


def signals(rule, rows):
    """{signal: {trajectory: rows}} from rows of q1, q2, v1, v2 by trajectory id."""
    return {need: {name: np.array(given[i], np.float32) for name, given in rows.items()} for i, need in enumerate(rule.needs)}


def test_targets_of_q_by_hand():
    """The last turn pays -1: its target is -1. A turn before, reward 0 and Vbar(s') = 2 with gamma 0.95: 1.9."""
    assert utterance_targets(np.array([0.0, -1.0]), np.array([7.0, 2.0]), gamma=0.95).tolist() == [1.9, -1.0]


def test_the_steps_own_episodes_have_no_targets():
    rule, t = UtteranceTargets(), episode(2, reward=1.0).but(weight=0.0)
    (row,) = rule.assign([Group("g", (t,))], signals(rule, {"e": [[0] * 2] * 4}))
    assert not np.isfinite(row[0].returns).any()


def test_targets_stand_at_the_ends_of_utterances_and_read_the_next_state():
    rule = UtteranceTargets()
    t = episode(2, 3, reward=-1.0)
    v1, v2 = [5, 5, 2, 8, 8], [5, 5, 4, 8, 8]  # Vbar before every token; the second utterance begins at token 2
    (row,) = rule.assign([Group("g", (t,))], signals(rule, {"e": [[9] * 5, [9] * 5, v1, v2]}))
    found = row[0].returns
    assert np.argwhere(np.isfinite(found)).tolist() == [[1, 0], [1, 1], [4, 0], [4, 1]]
    assert found[1, :2].tolist() == pytest.approx([1.9, 3.8])
    assert found[4, :2].tolist() == [-1.0, -1.0]


def test_the_target_of_v_is_the_slow_q_of_the_fresh_utterance():
    rule = UtteranceTargets()
    (row,) = rule.assign([Group("g", (fresh(3),))], signals(rule, {"f": [[1, 2, 3], [4, 5, 6], [0] * 3, [0] * 3]}))
    assert row[0].returns[0].tolist()[2:] == [3.0, 6.0]  # after the last token
    assert np.isfinite(row[0].returns).sum() == 2


def test_all_tokens_of_an_utterance_share_one_advantage():
    """min(3, 6) - min(0.5, 0.25) = 2.75."""
    rule = UtteranceAdvantage()
    rows = {"f": [[1, 2, 3], [4, 5, 6], [0.5, 9, 9], [0.25, 9, 9]], "e": [[9] * 2] * 4}
    (row,) = rule.assign([Group("g", (fresh(3), episode(1, 1, reward=0.0)))], signals(rule, rows))
    assert row[0].advantages.tolist() == [2.75] * 3
    assert row[1].advantages.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("advantage", [0.0, 2.0])
def test_the_actor_is_plain_reinforce(advantage):
    """loss = -A sum_t log pi: the gradient of every token is -A, exactly 0 for A = 0."""
    t = fresh(3).but(advantages=np.full(3, advantage))
    made = make_batch([Group("g", (t,))], dtype=torch.float64)
    logprobs = torch.tensor([-1.0, -0.5, -2.0], dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(archer.objective, {LogProb(): logprobs}, made)
    loss.backward()
    assert logprobs.grad.tolist() == [-advantage] * 3
    assert archer.objective == reinforce.objective


def test_q_is_read_after_the_utterance_and_v_before_it():
    t = fresh(3)
    (context,) = t.contexts
    seen = After().of(context, Key())
    assert (seen.action_positions - context.action_positions).tolist() == [1, 1, 1]
    assert [s.want.view for s in readers("critic", fresh=True)] == [After(), After(), None, None]
    assert [s.reads.needed for s in readers("critic", fresh=True)] == [frozenset({f"head:{name}"}) for name in HEADS]


def test_fresh_utterances_begin_where_the_turns_of_replayed_episodes_begin():
    seen = steps_of(archer.but(rollout__batch=3), steps=3)
    for step, (_, groups) in enumerate(seen):
        own = [g for g in groups if not g.aside]
        old, new = ([g for g in groups if g.key.startswith(f"{kind}/")] for kind in ("replay", "fresh"))
        assert len(old) == len(new) == 3
        assert {(t.weight, t.source) for g in own for t in g.trajectories} == {(0.0, "replay")}
        for g, h in zip(old, new, strict=True):
            (t,) = g.trajectories
            assert t.source == "replay"
            assert [u.contexts[0].parent[1] for u in h.trajectories] == first_tokens(t)
            assert all(u.contexts[0].parent[0] is t.contexts[0] for u in h.trajectories)
            assert {int(v) for u in h.trajectories for v in u.contexts[0].versions} == {step if step > 20 else 0}


def test_only_the_critic_moves_in_the_warm_up_and_it_moves_first():
    """16 rounds a step: the critic and its slow copy move in each, the policy in the last one of a step after the warm-up."""
    run = go(toy_run(archer.but(schedule__steps=2), steps=4))
    assert {n: p.updates for n, p in run.players.items()} == {"policy": 2, "critic": 64, "target": 64}
    assert (archer.selection.count, archer.update.every, archer.update.delays("critic")) == (16, 16, False)


def test_values_spread_over_many_turns_in_one_step():
    """Only the last of three turns pays. One round moves Q of the last turn alone; in more rounds the slow copy carries it to the first.

    The toy critic has a value per token, so the turns end in tokens 2, 3, 4, and begin after tokens 1, 2, 3.
    """
    moved = {}
    for count in (1, 16):
        made = archer.but(selection__count=count, update__every=count, rollout__batch=4)
        run = toy_run(made, steps=1, learning_rate=0.05)
        before = run.players["target"].policy.network.state_dict()["heads.v1"].clone()
        go(run)
        moved[count] = float((run.players["target"].policy.network.state_dict()["heads.v1"] - before).abs().max())
    assert moved[16] > 3 * moved[1] > 0


def test_the_policy_moves_on_fresh_utterances_of_its_own_weights():
    """It moves once a step, in the last round, so every a' was drawn by the weights that it moves."""
    seen = []
    run = toy_run(archer.but(schedule__steps=0, selection__count=4, update__every=4), steps=3)
    def note(run, row, groups):
        fresh = [t.contexts[0] for g in groups if g.key.startswith("fresh/") for t in g.trajectories]
        seen.append((run.players["policy"].updates, {int(v) for c in fresh for v in c.versions}))

    run.on_step = note
    go(run)
    assert seen == [(1, {0}), (2, {1}), (3, {2})]


def test_the_slow_copy_moves_by_a_tenth():
    """A weight of 0 whose critic's weight is 1 after the update becomes 0.1."""
    from gradus.players.build import follow

    run = toy_run(archer, steps=1)
    critic, target = run.players["critic"], run.players["target"]
    with torch.no_grad():
        for p in target.policy.network.parameters():
            p.zero_()
        for p in critic.policy.network.parameters():
            p.fill_(1.0)
    critic.updates = 1
    follow(run.players, dict.fromkeys(run.players, 0), {})
    assert all(torch.equal(p, torch.full_like(p, 0.1)) or bool((p - 0.1).abs().max() < 1e-12) for p in target.policy.network.parameters())


def test_the_advantage_is_of_the_critic_as_just_fitted():
    """The stored advantages follow from the critic's weights after its update, not before."""
    run = toy_run(archer.but(rollout__batch=2), steps=1)
    kept: list[Group] = []
    run.on_step = lambda run, row, groups: kept.extend(groups)
    go(run)
    network = run.players["critic"].policy.network
    for t in (t for g in kept if g.key.startswith("fresh/") for t in g.trajectories):
        c = t.contexts[0]
        before, last = int(c.sequence[c.action_positions[0] - 1]), int(c.tokens[-1])
        q, v = (min(float(network.heads[f"{kind}{j}"].detach()[at]) for j in (1, 2)) for kind, at in (("q", last), ("v", before)))
        assert_close(torch.from_numpy(t.advantages), torch.full((t.actions,), q - v, dtype=torch.float64), atol=1e-6, rtol=0)
