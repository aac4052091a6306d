"""T-PPO: advantages of cut answers by hand, which tokens each player learns from, the loss in plain loops, its limit, resumed runs."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.gae import GAE
from gradus.objectives.terms import evaluate
from gradus.papers.bases.ppo import ppo
from gradus.papers.systems.t_ppo import t_ppo
from gradus.selection.filters import without_failures
from gradus.testing.methods import (
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    steps_of,
    toy_group,
    toy_run,
    toy_trajectory,
)
from gradus.training.lessons import credit
from gradus.types import Ended, Failed, Group
from gradus.types.batch import make_batch
from gradus.types.pieces import continues, new_actions, piece_links
from gradus.types.signals import LogProb, Values

CRITIC = Values(player="critic")
READY = t_ppo.but(schedule__steps=0, rollout__window=2)  # a third of the toy's limit
WHOLE = t_ppo.but(schedule__steps=0, rollout__window=6)
PLAIN = ppo.but(
    credit=GAE(lam=1.0, whitened=False), objective__policy__trust=t_ppo.objective["policy"].trust, players__reference=None
)


@pytest.mark.parametrize(("lam", "expected"), [(1.0, [0.3, 0.1, 0.0]), (0.5, [0.25, 0.1, 0.0])])
def test_the_advantages_of_a_cut_answer_by_hand(lam, expected):
    cut = toy_trajectory([2, 3, 4], ended=Ended.LENGTH, links=piece_links(2, True))
    ((found,),) = t_ppo.but(credit__rule__lam=lam).credit.assign([Group("g", (cut,))], {CRITIC: {"t": np.array([0.2, 0.4, 0.5])}})
    np.testing.assert_allclose(found.advantages, expected, atol=1e-12)
    assert found.weights.tolist() == [0, 1, 1]


def test_a_finished_answer_has_the_advantages_of_gae():
    rng = np.random.default_rng(0)
    made = toy_group(1, 0, lengths=[4, 7])
    signals = {CRITIC: {t.id: rng.normal(size=t.actions) for t in made.trajectories}}
    resumed = made.but(trajectories=tuple(t.but(links=piece_links(2, False)) for t in made.trajectories))
    (due,), (found,) = GAE(1.0, 1.0, whitened=False).assign([made], signals), t_ppo.credit.assign([resumed], signals)
    for a, b in zip(found, due, strict=True):
        np.testing.assert_allclose(a.advantages, b.advantages, atol=1e-12)
        assert a.weights.sum() == 2


def test_every_token_enters_the_policy_loss_in_one_step_and_no_critic_learns_from_a_cut_answer():
    """What the batches of both players hold, step by step."""
    run, state, sampled, used, cut = toy_run(READY), READY.rollout.start(), 0, 0.0, 0
    for step in range(6):
        run.step = step
        _, world = run.at(step)
        groups, state = asyncio.run(READY.rollout.run(asyncio.run(world.more(4)), world, state))
        found = [t for g in groups for t in g.trajectories]
        _, batches = asyncio.run(credit(run, groups, world))
        policy, critic = batches["policy"], batches["critic"]
        mine = dict.fromkeys(t.id for t in policy.trajectories)
        assert list(mine) == [t.id for t in found]
        sampled += sum(map(new_actions, found))
        used += float(policy.weight.sum())
        cut += sum(map(continues, found))
        assert [t.id for t in critic.trajectories] == [t.id for t in found if not continues(t)]
        assert critic.weight.tolist() == [1.0] * sum(t.actions for t in found if not continues(t))
        assert critic.returns.tolist() == pytest.approx([t.value for t in found if not continues(t) for _ in range(t.actions)], abs=1e-6)
    flying = sum(len(a["tokens"]) for f in state["flights"] for a in f["answers"])
    assert used == sampled  # what is in flight has been used up to here
    assert cut > 10
    assert flying < sampled


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(1)
    cut, done = toy_trajectory([2] * 3, name="cut", links=piece_links(2, True)), toy_trajectory([2] * 4, name="done", reward=1.0, links=piece_links(1, False))
    signals = {CRITIC: {"cut": rng.normal(size=3), "done": rng.normal(size=4)}}
    ((a, b),) = t_ppo.credit.assign([Group("g", (cut, done))], signals)
    credited = [t.but(advantages=c.advantages, returns=c.returns, weights=c.weights) for t, c in ((cut, a), (done, b))]
    batch = make_batch([Group("g", tuple(credited))], dtype=torch.float64)
    old, new = -rng.uniform(0.5, 2, 7), -rng.uniform(0.5, 2, 7)
    loss, _ = evaluate(t_ppo.objective, {LogProb(): torch.from_numpy(new).requires_grad_()}, replace(batch, old={LogProb(): torch.from_numpy(old)}))
    v, w = signals[CRITIC]["cut"], signals[CRITIC]["done"]
    total = 0.0
    for i, advantage in ((1, v[2] - v[1]), (2, 0.0), (6, 1 - w[3])):  # the new tokens: two of the cut answer, one of the finished answer
        ratio = math.exp(new[i] - old[i])
        total -= min(ratio * advantage, min(max(ratio, 0.8), 1.28) * advantage)
    assert float(loss.detach()) == pytest.approx(total / 3)


def test_with_whole_answers_it_trains_to_the_weights_of_ppo():
    check_same_update(WHOLE.but(objective__policy__average__counted="all"), PLAIN, steps=3)
    check_different_update(READY, WHOLE, steps=3)


def test_the_numbers_of_the_paper():
    assert (t_ppo.rollout.window, t_ppo.credit.before_cut) == (8192, 0)
    assert (t_ppo.credit.rule.gamma, t_ppo.credit.rule.lam, t_ppo.players["critic"].credit.lam) == (1.0, 1.0, 1.0)
    assert (t_ppo.objective["policy"].trust.low, t_ppo.objective["policy"].trust.high) == (0.2, 0.28)
    assert set(t_ppo.objective) == {"policy"}
    assert t_ppo.schedule.steps == 50  # chosen here, not by the paper


def test_cut_answers_do_not_count_as_rewards_and_the_clip_acts():
    seen = steps_of(READY, steps=4)
    for metrics, groups in seen:
        judged = [t.value for g in groups if not g.aside for t in g.trajectories]
        assert metrics["reward"] == (pytest.approx(np.mean(judged)) if judged else None)
    assert any(0 < metrics["cut_share"] < 1 for metrics, _ in seen)
    assert 0 < np.mean([metrics["clip_share"] for metrics, _ in steps_of(READY, steps=3, learning_rate=0.1)]) < 0.5
    assert [metrics["clip_share"] for metrics, _ in steps_of(READY.but(update__epochs=1), steps=3, learning_rate=0.1)] == [0, 0, 0]


def test_the_first_steps_update_the_critic_only():
    first = steps_of(t_ppo.but(schedule__steps=2, rollout__window=2), steps=3)
    assert ["grad_norm" in metrics for metrics, _ in first] == [False, False, True]


def test_failed_rewards_leave_the_cut_answers_in_the_update():
    cut = toy_trajectory([2] * 3, name="cut", links=piece_links(3, True))
    lost = toy_trajectory([2] * 2, name="lost").but(reward=Failed("no verdict"))
    run = toy_run(READY)
    _, batches = asyncio.run(credit(run, without_failures([Group("g", (cut, lost))]), run.at(0)[1]))
    assert [t.id for t in batches["policy"].trajectories] == ["cut"]
    assert "critic" not in batches


def test_gradients_do_not_depend_on_micro_batches_and_a_resumed_run_goes_on():
    check_micro_batches(READY)
    check_resumes(READY, steps=4, after=2)
