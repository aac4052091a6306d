"""Refilling a step: how much is asked for, when it stops, what the draws of later rounds are called."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from gradus.rollouts.auto import Auto
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.ids import group_name
from gradus.selection.filters import MeanReward
from gradus.testing.methods import toy_group
from gradus.types import Failed, Key, Problem, Request, UserError


def requests(first, count):
    return [Request(Problem(str(i), "t", text="a"), count=2) for i in range(first, first + count)]


@dataclass
class Scripted:
    """Group i has the i-th of these rewards."""

    rewards: list
    asked: list = field(default_factory=list)

    async def run(self, requests, world):
        self.asked.append([group_name(r) for r in requests])
        return [toy_group(*self.rewards[int(r.problem.id)], key=group_name(r)) for r in requests]


def refilled(rewards, *, supply=100, want=2, **options):
    drawn = [want]

    async def more(count):
        count = min(count, want + supply - drawn[0])
        drawn[0] += count
        return requests(drawn[0] - count, count)

    inner = Scripted(rewards)
    groups = asyncio.run(DynamicSampling(inner, **options).run(requests(0, want), SimpleNamespace(more=more, key=Key())))
    return inner.asked, groups


MIXED, RIGHT, WRONG = (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)


def test_each_round_asks_for_what_is_missing():
    asked, groups = refilled([RIGHT, MIXED, MIXED, WRONG, MIXED], want=3)
    # of 0, 1, 2 two are mixed; 3 is not; 4 is
    assert asked == [["0", "1", "2"], ["3/refill/1"], ["4/refill/2"]]
    assert [g.key for g in groups] == ["0", "1", "2", "3/refill/1", "4/refill/2"]  # those to be dropped too


def test_a_full_step_asks_for_nothing():
    asked, _ = refilled([MIXED, MIXED])
    assert asked == [["0", "1"]]


def test_it_gives_up_after_its_rounds():
    asked, groups = refilled([RIGHT] * 50, rounds=4)
    assert [len(a) for a in asked] == [2, 2, 2, 2]
    assert len(groups) == 8


def test_it_ends_where_the_curriculum_has_no_more():
    asked, _ = refilled([RIGHT] * 50, supply=3)
    assert [len(a) for a in asked] == [2, 2, 1]


def test_what_counts_is_what_the_selection_keeps():
    rewards = [(0.2, 0.4), (0.9, 0.9), (0.5, 0.5), (0.6, 0.8)]
    assert refilled(rewards, until=MeanReward(0.45, 1.0))[0] == [["0", "1"], ["2/refill/1"]]


def test_failed_trajectories_do_not_make_a_group_mixed():
    assert refilled([(1.0, Failed("no")), MIXED, MIXED])[0] == [["0", "1"], ["2/refill/1"]]


def test_a_round_at_least():
    with pytest.raises(UserError, match="rounds is 0"):
        DynamicSampling(rounds=0)


def test_at_test_time_it_is_what_it_wraps():
    assert DynamicSampling().test == Auto()
    assert DynamicSampling(BehaviourPolicy("generator")).test == Auto()
