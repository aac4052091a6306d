"""Online difficulty filtering: its theory in numbers, which groups stay, how many a step trains on, and its limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.grpo import grpo
from gradus.papers.data.online_difficulty_filtering import BAND, FilledBatch, distance, online_difficulty_filtering, second_order
from gradus.recipe.core import changes
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.ids import group_name
from gradus.selection.filters import MeanReward, Mixed
from gradus.testing.methods import loss_and_gradient, steps_of, toy_group, weights_after
from gradus.types import Key, Problem, Request, UserError


@pytest.mark.parametrize(("rate", "due"), [(0.5, 0.125), (0.1, 0.045), (0.0, 0.0), (1.0, 0.0)])
def test_the_second_order_term_by_hand(rate, due):
    assert second_order(rate, 1.0) == pytest.approx(due)
    assert second_order(rate, 0.5) == pytest.approx(4 * due)


def test_the_distance_by_hand():
    # ln(1/2 + e/2) - 1/2 and ln(0.9 + 0.1 e) - 0.1
    assert distance(0.5, 1.0) == pytest.approx(0.1201, abs=5e-5)
    assert distance(0.1, 1.0) == pytest.approx(0.0586, abs=5e-5)
    assert distance(0.0, 1.0) == distance(1.0, 1.0) == 0.0


def test_the_distance_is_the_kl_of_two_policies_over_answers():
    beta, policy, rewards = 0.7, np.array([0.1, 0.2, 0.4, 0.3]), np.array([1.0, 0.0, 1.0, 0.0])
    best = policy * np.exp(rewards / beta)
    best /= best.sum()
    assert distance(0.5, beta) == pytest.approx(sum(p * math.log(p / q) for p, q in zip(policy, best, strict=True)))


def test_the_second_order_term_is_not_a_lower_bound_from_one_half_on():
    for rate in np.linspace(0.5, 0.99, 20):
        assert distance(rate, 1.0) < second_order(rate, 1.0)
    assert distance(0.1, 1.0) > second_order(0.1, 1.0)
    for rate in (0.1, 0.5, 0.9):  # the difference is of third order: it falls by 8 if beta doubles, and both numbers by 4
        apart = [distance(rate, beta) - second_order(rate, beta) for beta in (16.0, 32.0)]
        assert abs(apart[1]) < abs(apart[0]) / 6
        assert distance(rate, 32.0) == pytest.approx(second_order(rate, 32.0), rel=0.03)


def test_the_band_keeps_the_third_to_the_fifth():
    groups = [toy_group(*[1.0] * right, *[0.0] * (8 - right), key=str(right)) for right in (0, 1, 2, 4, 6, 7, 8)]
    kept, dropped = BAND.keep(groups, Key())
    assert [g.key for g in kept] == ["2", "4", "6"]
    assert [g.key for g in dropped] == ["0", "1", "7", "8"]
    assert BAND.low == pytest.approx(1 - BAND.high)


def test_the_bounds_belong_to_the_band():
    groups = [toy_group(*[1.0] * right, *[0.0] * (5 - right), key=str(right)) for right in range(6)]
    assert [g.key for g in BAND.keep(groups, Key())[0]] == ["1", "2", "3", "4"]


def test_it_is_grpo_with_a_band_that_is_filled():
    assert changes(grpo, online_difficulty_filtering) == {"rollout": FilledBatch(until=BAND, most=4.0), "selection": MeanReward(0.2, 0.8)}


MIXED, RIGHT, WRONG = (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)


@dataclass
class Scripted:
    """Group i has the i-th of these rewards."""

    rewards: list
    asked: list = field(default_factory=list)

    async def run(self, requests, world):
        self.asked.append([group_name(r) for r in requests])
        return [toy_group(*self.rewards[int(r.problem.id)], key=group_name(r)) for r in requests]


def filled(part, rewards, want=3):
    """The problems of each round, the number of groups, and the notes."""
    made = [Request(Problem(str(i), "t", text="a"), count=2) for i in range(50)]
    notes, inner, left = {}, Scripted(rewards), iter(made[want:])

    async def more(count):
        return [next(left) for _ in range(count)]

    world = SimpleNamespace(more=more, key=Key(), note=notes.__setitem__)
    groups = asyncio.run(replace(part, rollout=inner).run(made[:want], world))
    return inner.asked, len(groups), notes


def test_it_gives_up_after_as_many_problems_as_it_may_sample():
    # three requested, at most 2.4 x 3 = 7.2, so 7 problems: 3, 3, then one although three are missing
    asked, groups, notes = filled(FilledBatch(until=Mixed(), most=2.4), [RIGHT] * 50)
    assert [len(a) for a in asked] == [3, 3, 1]
    assert (groups, notes) == (7, {"examined": 7 / 3})
    with pytest.raises(UserError, match=r"most is 0\.5"):
        FilledBatch(most=0.5)


def test_a_limit_that_is_not_reached_changes_nothing():
    rewards = [RIGHT, MIXED, MIXED, WRONG, MIXED]
    asked, groups, notes = filled(FilledBatch(until=Mixed()), rewards)
    assert (asked, groups) == filled(DynamicSampling(), rewards)[:2]
    assert notes == {"examined": 5 / 3}
    assert filled(DynamicSampling(), rewards)[2] == {}


def test_every_update_has_its_groups_unless_the_limit_ends_the_sampling():
    trained, examined = [], []
    for metrics, groups in steps_of(online_difficulty_filtering, steps=12, prompts=4, group=8):
        mine = [g for g in groups if any(t.advantages is not None for t in g.trajectories)]
        examined.append(metrics["examined"])
        trained.append(len(mine))
        assert len(groups) == 4 * metrics["examined"] <= 16
        assert len(mine) == 4 or metrics["examined"] == 4
        assert len(mine) == sum(0.2 <= g.rewards.mean() <= 0.8 for g in groups)
        assert all(np.abs(t.advantages).min() > 0 for g in mine for t in g.trajectories)
    assert 4 in trained  # a step was filled
    assert max(examined) > 1  # and the band acted


def test_problems_that_were_dropped_count_as_used():
    seen = [g.trajectories[0].problem.id for _, groups in steps_of(online_difficulty_filtering, steps=4, group=8) for g in groups]
    assert seen == [f"toy/{i}" for i in range(len(seen))]
    assert len(seen) > 16


def test_with_the_widest_band_it_is_grpo():
    wide = MeanReward(0.0, 1.0)
    free = online_difficulty_filtering.but(selection=wide, rollout__until=wide)
    ours, base = weights_after(free, steps=3), weights_after(grpo, steps=3)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])
    assert not torch.equal(weights_after(online_difficulty_filtering, steps=3)["policy.logits"], base["policy.logits"])


def test_the_gradient_is_that_of_the_groups_in_the_band():
    made = [toy_group(*[1.0] * right, *[0.0] * (8 - right), key=str(right)) for right in (1, 2, 4, 8)]
    kept, _ = BAND.keep(made, Key())
    pushes = [float(a) for g in kept for a in (g.rewards - g.rewards.mean()) / g.rewards.std()]
    count = sum(t.actions for g in kept for t in g.trajectories)
    plain = online_difficulty_filtering.but(objective__kl=None, players__reference=None)
    loss, slopes, _ = loss_and_gradient(plain.objective, kept, [0.0] * count, advantages=pushes)
    each = [(push, t.actions) for push, t in zip(pushes, (t for g in kept for t in g.trajectories), strict=True)]
    assert loss == pytest.approx(-sum(pushes) / 16)
    assert_close(torch.tensor(slopes), torch.tensor([-push / (16 * n) for push, n in each for _ in range(n)]))


@pytest.mark.parametrize("micro", [1, 3])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(online_difficulty_filtering, steps=2, group=8, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
