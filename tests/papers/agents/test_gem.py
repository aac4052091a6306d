"""GEM: returns of turns by hand, their normalisation over the batch, and the limit at which the recipe is REINFORCE."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline
from gradus.papers.agents.gem import TurnReturns, batch_normalised, gem
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.testing.methods import TOY_EPISODES, check_different_update, check_same_update, scripted_world, toy_group
from gradus.testing.methods.tasks import Corridor, Walk
from gradus.types import Group, Request, UserError
from tests.papers.credit.test_gigpo import episode


def rows(rule, *groups):
    return [c.advantages.tolist() for row in rule.assign([Group(str(i), g) for i, g in enumerate(groups)], {}) for c in row]


def test_two_episodes_by_hand():
    # G = .81, .9, 1 and 0, 0: mean 2.71 / 5 = .542, deviation sqrt((.6561 + .81 + 1) / 5 - .542^2) = .4466
    a, b = episode("a", [0, 1, 2], [0, 0, 1]), episode("b", [0, 1], [0, 0])
    found = rows(TurnReturns(), (a, b))
    assert_close(np.array(found[0]), np.array([0.6001, 0.8016, 1.0255]), atol=1e-4, rtol=0)
    assert_close(np.array(found[1]), np.array([-1.2136, -1.2136]), atol=1e-4, rtol=0)
    assert rows(TurnReturns(normalised=False), (a, b)) == [pytest.approx([0.81, 0.9, 1.0]), [0.0, 0.0]]
    assert rows(TurnReturns(), (a,), (b,)) == found  # the batch is the baseline, not the group


def test_a_turn_counts_once_whatever_its_length():
    short, long = episode("a", [0, 1], [0, 1], lengths=[1, 1]), episode("a", [0, 1], [0, 1], lengths=[5, 2])
    other = episode("b", [0], [0])
    first, second = rows(TurnReturns(), (short, other)), rows(TurnReturns(), (long, other))
    assert second[0] == [first[0][0]] * 5 + [first[0][1]] * 2  # the same two numbers, on more tokens
    assert second[1] == first[1]


def test_rewards_of_turns_and_the_discount_by_turns():
    # rewards 1, 0, 2 with gamma .5: G = 1 + .5 * (0 + .5 * 2) = 1.5, 0 + .5 * 2 = 1, 2
    one = episode("a", [0, 1, 2], [1, 0, 2], lengths=[3, 1, 2])
    assert rows(TurnReturns(0.5, normalised=False), (one,)) == [[1.5, 1.5, 1.5, 1.0, 2.0, 2.0]]


def test_a_fast_success_has_the_larger_first_return():
    fast, slow = episode("f", [0], [1]), episode("s", [0, 1, 2, 3], [0, 0, 0, 1])
    found = rows(TurnReturns(), (fast, slow))
    assert found[0][0] > found[1][0]
    assert rows(TurnReturns(1.0), (fast, slow)) == [[0.0], [0.0] * 4]  # with gamma 1 all returns are equal: no gradient


def test_equal_returns_and_a_single_turn_give_zeros():
    assert [r.tolist() for r in batch_normalised([np.array([0.3]), np.array([0.1 + 0.2])])] == [[0.0], [0.0]]
    assert rows(TurnReturns(), (episode("a", [0], [1]),)) == [[0.0]]
    assert batch_normalised([]) == []


def test_its_changes_and_the_limit_at_which_it_is_reinforce():
    assert set(changes(reinforce, gem)) == {"rollout", "reward", "credit"}
    base = reinforce.but(rollout=Episodes(), reward=EnvironmentReturn(), credit=BatchBaseline("none"))
    check_same_update(gem.but(credit=TurnReturns(1.0, normalised=False)), base, task=TOY_EPISODES)
    check_different_update(gem, base, task=TOY_EPISODES)


class SlowWalk(Walk):
    async def step(self, action):
        await asyncio.sleep(0.02)
        return await super().step(action)


@dataclass(frozen=True)
class SlowCorridor(Corridor):
    def start(self, problem, key, world):
        return SlowWalk()


def test_eight_environments_step_at_the_same_time():
    task = replace(TOY_EPISODES, environment=SlowCorridor())
    world, _ = scripted_world(task, lambda ask: "c", reward=EnvironmentReturn())
    (problem,) = task.source.draw([0], None, world.seed)
    begun = time.perf_counter()
    (group,) = asyncio.run(gem.rollout.run([Request(problem, 8)], world))
    assert [t.links["turns"] for t in group.trajectories] == [6] * 8
    assert time.perf_counter() - begun < 0.6 * 8 * 6 * 0.02  # 48 steps of 20 ms one after the other are 0.96 s


def test_a_task_without_turns_is_refused():
    with pytest.raises(UserError, match="has no turns"):
        TurnReturns().assign([toy_group(1, 0)], {})
    with pytest.raises(UserError, match="gamma"):
        TurnReturns(1.5)
