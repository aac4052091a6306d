"""RLinf-VLA with GRPO: a mean over episodes of means over valid steps, the filter of groups, its limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.rlinf_vla_grpo import rlinf_vla_grpo
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.selection.filters import Everything
from gradus.testing.methods import check_different_update, check_same_update, toy_group, train_toy
from gradus.testing.methods.control import toy_reacher
from gradus.types import Context, Frozen, Group, Key, Problem, Trajectory
from gradus.types.batch import make_batch
from gradus.types.players import Fresh, Player
from gradus.types.signals import LogProb

SMALL = {"task": toy_reacher(), "group": 4, "steps": 2}


def episode(name: str, steps: int, success: int | None) -> Trajectory:
    """An episode of single steps with one token each; step number `success` (from 1) earns 1."""
    rewards = () if success is None else ((success - 1, "environment", 1.0),)
    turn = np.arange(steps, dtype=np.int32)
    streams = Frozen(turn=turn, step=np.zeros(steps, np.int32))
    context = Context(np.zeros(steps, np.int32), np.ones(steps, bool), np.zeros(steps, np.float32), rewards=rewards, streams=streams)
    return Trajectory(name, Problem("p", "toy"), (context,), reward=float(success is not None))


def batch_of(*episodes: Trajectory):
    group = Group("g", episodes)
    (row,) = rlinf_vla_grpo.credit.assign([group], {})
    made = tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(episodes, row, strict=True))
    return make_batch([Group("g", made)], dtype=torch.float64)


def gradient(batch, recipe=rlinf_vla_grpo) -> list[float]:
    now = torch.zeros(batch.actions, dtype=torch.float64, requires_grad=True)
    evaluate(recipe.objective, {LogProb(): now}, batch)[0].backward()
    return now.grad.tolist()


def test_a_mean_over_episodes_of_means_over_valid_steps():
    """Success at step 5 of 10, and a failure of 10 steps. The sample deviation of 1 and 0 is 1 / sqrt 2, so the advantages are +-1 / sqrt 2."""
    high = np.sqrt(0.5)
    due = [-high / (2 * 5)] * 5 + [0] * 5 + [high / (2 * 10)] * 10
    batch = batch_of(episode("a", 10, 5), episode("b", 10, None))
    assert gradient(batch) == pytest.approx(due, abs=1e-12)
    one_sum = rlinf_vla_grpo.but(objective__policy__average=TokenMean("weighted"))
    assert gradient(batch, one_sum) == pytest.approx([-high / 15] * 5 + [0] * 5 + [high / 15] * 10, abs=1e-12)


def test_it_is_the_ratio_form_of_the_released_code():
    """Mean over episodes and steps of loss * mask / (valid steps / horizon), in plain loops, for episodes of one horizon."""
    horizon, successes = 8, [3, None, 8, 1]
    batch = batch_of(*(episode(str(i), horizon, s) for i, s in enumerate(successes)))
    rewards = np.array([float(s is not None) for s in successes])
    advantages = (rewards - rewards.mean()) / rewards.std(ddof=1)
    due = []
    for success, advantage in zip(successes, advantages, strict=True):
        valid = horizon if success is None else success
        for step in range(horizon):
            mask = float(step < valid)
            due.append(-advantage * mask / (valid / horizon) / (len(successes) * horizon))
    assert gradient(batch) == pytest.approx(due, abs=1e-12)


def test_groups_with_only_successes_or_failures_are_dropped():
    keep = rlinf_vla_grpo.selection.keep
    for right, kept in ((0, False), (1, True), (7, True), (8, False)):
        group = toy_group(*[1.0] * right, *[0.0] * (8 - right))
        assert bool(keep([group], Key())[0]) is kept


def test_without_its_differences_it_trains_to_the_weights_of_grpo():
    plain = grpo.but(
        objective__kl=None,
        players__reference=None,
        players__policy=Player(Fresh(bins=8)),
        objective__policy__trust=Clip(0.2, 0.28),
        credit__scale="sample",
        rollout=Episodes(),
        reward=EnvironmentReturn(),
    )
    limit = rlinf_vla_grpo.but(credit=GroupRelative("sample"), objective__policy__average=SequenceMean(), selection=Everything(), rollout=Episodes())
    check_same_update(limit, plain, **SMALL)
    check_same_update(rlinf_vla_grpo.but(rollout=Episodes()), rlinf_vla_grpo, **SMALL)
    check_different_update(rlinf_vla_grpo.but(selection=Everything()), limit, **SMALL)


def test_the_episodes_of_a_group_begin_equally():
    seen = []
    train_toy(rlinf_vla_grpo, watch=lambda run, row, groups: seen.extend(groups), **SMALL)
    for group in seen:
        firsts = {t.contexts[0].shown[0].rows[0].tobytes() for t in group.trajectories}
        assert len(firsts) == 1
        assert len({t.contexts[0].tokens.tobytes() for t in group.trajectories}) > 1
