"""Credit of chunks: units of tokens, the mask after the first success, GAE over actions and over chunks by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.credit.chunks import ChunkGAE, UntilSuccess, units, until_success
from gradus.credit.gae import GAE, gae
from gradus.credit.groups import GroupRelative
from gradus.types import Context, Ended, Frozen, Group, Problem, Trajectory, UserError
from gradus.types.control import EndValues
from gradus.types.signals import Values

TOKENS = 2  # tokens of an action; a chunk has two actions
VALUES, END = Values(player="critic"), EndValues(player="critic")


def episode(rewards, *, name="t", executed=None, ended=Ended.ENVIRONMENT):
    """An episode of chunks of two actions with two tokens each. `rewards`: one number per action; `executed`: number of executed actions."""
    count = len(rewards)
    step = np.repeat(np.arange(count) % 2, TOKENS).astype(np.int32)
    if executed is not None:
        step[executed * TOKENS :] = -1
    turn = np.repeat(np.arange(count) // 2, TOKENS).astype(np.int32)
    earned = tuple((i * TOKENS + TOKENS - 1, "environment", r) for i, r in enumerate(rewards) if r)
    size = count * TOKENS
    context = Context(np.zeros(size, np.int32), np.ones(size, bool), rewards=earned, streams=Frozen(turn=turn, step=step))
    return Trajectory(name, Problem("p", "toy"), (context,), reward=float(sum(rewards)), ended=ended)


def credited(rule, trajectory, values):
    rows = {VALUES: {trajectory.id: np.array(values, np.float64)}, END: {}}
    ((found,),) = rule.assign([Group("g", (trajectory,))], rows)
    return found


def test_units_number_actions_and_chunks():
    found = episode([0, 0, 1, 0], executed=3)
    assert units(found, "action").tolist() == [0, 0, 1, 1, 2, 2, -1, -1]
    assert units(found, "chunk").tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    gap = episode([0] * 4)
    gap.contexts[0].streams["step"].flags.writeable = True
    gap.contexts[0].streams["step"][2:4] = -1  # an action in the middle was not executed: the numbers have no gap
    assert units(gap, "action").tolist() == [0, 0, -1, -1, 1, 1, 2, 2]


def test_a_turn_without_steps_is_one_action():
    context = Context(np.zeros(3, np.int32), np.ones(3, bool), streams=Frozen(turn=np.array([0, 0, 1], np.int32)))
    plain = Trajectory("t", Problem("p", "toy"), (context,), reward=0.0)
    assert units(plain, "action").tolist() == units(plain, "chunk").tolist() == [0, 0, 1]
    with pytest.raises(UserError, match="has no turns"):
        units(plain.but(contexts=(Context(np.zeros(1, np.int32), np.ones(1, bool)),)), "chunk")


def test_after_success_at_step_5_of_10_the_last_five_steps_have_no_weight():
    trajectory = episode([0, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    other = episode([0] * 10, name="other")
    (row,) = UntilSuccess(GroupRelative(), level="action").assign([Group("g", (trajectory, other))], {})
    assert row[0].weights.tolist() == [1.0] * 10 + [0.0] * 10
    assert row[1].weights.tolist() == [1.0] * 20
    assert (row[0].advantages[0], row[1].advantages[0]) == (1, -1)  # one of two: the deviation is 1/2
    (chunked,) = UntilSuccess(GroupRelative(), level="chunk").assign([Group("g", (trajectory, other))], {})
    assert chunked[0].weights.tolist() == [1.0] * 12 + [0.0] * 8  # steps 5 and 6 are one chunk


def test_rewards_below_one_are_no_success():
    assert until_success(np.array([0, 1, 2]), np.array([0.9, 0.0, 0.9])).tolist() == [1, 1, 1]
    assert until_success(np.array([0, 0, 1]), np.array([0.5, 0.5, 0.0])).tolist() == [1, 1, 0]  # two rewards of one chunk
    assert until_success(np.array([], np.int64), np.array([])).tolist() == []


def test_the_reward_of_a_chunk_is_the_sum_and_actions_keep_their_own_advantages():
    """Rewards [0, 0, 1, 0] in one chunk of four, gamma = lam = 1: every action's advantage is 1 (or 0 after the reward) minus its value."""
    size = 4
    streams = Frozen(turn=np.zeros(size, np.int32), step=np.arange(size, dtype=np.int32))
    context = Context(np.zeros(size, np.int32), np.ones(size, bool), rewards=((2, "environment", 1.0),), streams=streams)
    one = Trajectory("t", Problem("p", "toy"), (context,), reward=1.0, ended=Ended.ENVIRONMENT)
    values = [0.1, 0.2, 0.3, 0.4]
    rule = {"gamma": 1.0, "lam": 1.0, "whitened": False}
    assert credited(ChunkGAE(level="action", **rule), one, values).advantages == pytest.approx([0.9, 0.8, 0.7, -0.4])
    chunk = credited(ChunkGAE(level="chunk", **rule), one, values)
    assert chunk.advantages == pytest.approx([0.9] * 4)
    assert chunk.returns == pytest.approx([1.0] * 4)


@pytest.mark.parametrize("level", ["action", "chunk"])
def test_it_equals_plain_loops(level):
    trajectory = episode([0.5, 0, 0, -1, 0, 2], ended=Ended.ENVIRONMENT)
    values = np.repeat(np.arange(6) / 10, TOKENS)
    found = credited(ChunkGAE(0.9, 0.8, level, whitened=False), trajectory, values)
    size = TOKENS if level == "action" else 2 * TOKENS
    rewards = np.array([0.5, 0, 0, -1, 0, 2]).reshape(-1, size // TOKENS).sum(1)
    firsts = values[::size]
    due = []
    for t in range(len(rewards)):
        total = 0.0
        for k in range(t, len(rewards)):
            after = firsts[k + 1] if k + 1 < len(firsts) else 0.0
            total += (0.9 * 0.8) ** (k - t) * (rewards[k] + 0.9 * after - firsts[k])
        due.append(total)
    assert found.advantages == pytest.approx(np.repeat(due, size))
    assert found.returns == pytest.approx(np.repeat(np.array(due) + firsts, size))
    assert found.weights is None


def test_actions_that_were_not_executed_have_no_weight_and_change_nothing():
    whole, cut = episode([0, 0, 1]), episode([0, 0, 1, 0], executed=3)
    rule = ChunkGAE(0.9, 0.8, whitened=False)
    due = credited(rule, whole, [0.1] * 6)
    found = credited(rule, cut, [0.1] * 6 + [9.0] * 2)
    assert found.advantages.tolist() == [*due.advantages.tolist(), 0, 0]
    assert found.weights.tolist() == [1] * 6 + [0] * 2
    assert found.returns[6:].tolist() == [9.0, 9.0]  # their own values: the critic has no error there


def test_with_one_token_per_turn_it_is_gae():
    context = Context(
        np.zeros(3, np.int32), np.ones(3, bool), rewards=((1, "environment", 1.0),), streams=Frozen(turn=np.arange(3, dtype=np.int32))
    )
    one = Trajectory("t", Problem("p", "toy"), (context,), reward=1.0, ended=Ended.ENVIRONMENT)
    two = one.but(id="u", reward=3.0)  # the rest of the reward, 2, is at the last action
    signals = {VALUES: {"t": np.array([0.3, 0.1, 0.2]), "u": np.array([0.0, 1.0, 0.5])}, END: {}}
    groups = [Group("g", (one, two))]
    for mine, base in ((ChunkGAE(0.9, 0.8), GAE(0.9, 0.8)), (ChunkGAE(0.9, 0.8, "chunk", False), GAE(0.9, 0.8, False))):
        for found, due in zip(mine.assign(groups, signals)[0], base.assign(groups, signals)[0], strict=True):
            assert found.advantages == pytest.approx(due.advantages, abs=1e-12)
            assert found.returns == pytest.approx(due.returns, abs=1e-12)


def test_whitening_counts_every_unit_once():
    long, short = episode([0, 0, 0, 0], name="long"), episode([1, 0], name="short")
    signals = {VALUES: {"long": np.zeros(8), "short": np.zeros(4)}, END: {}}
    rows = ChunkGAE(1.0, 1.0, "chunk").assign([Group("g", (long, short))], signals)[0]
    chunks = np.array([rows[0].advantages[0], rows[0].advantages[4], rows[1].advantages[0]])
    assert chunks.mean() == pytest.approx(0, abs=1e-12)
    assert chunks.std() == pytest.approx(1)
    assert gae(np.zeros(2), np.zeros(2), gamma=1.0, lam=1.0).tolist() == [0, 0]
    with pytest.raises(UserError, match="gamma"):
        ChunkGAE(gamma=2.0)
