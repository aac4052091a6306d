"""Which groups and trajectories are kept."""

from __future__ import annotations

import math

import pytest

from gradus.selection.filters import Best, BestAndWorst, Everything, Informative, MeanReward, Mixed, without_failures
from gradus.testing.methods import toy_group
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Key

ALL = [Everything(), MeanReward(), Informative(), Mixed(), BestAndWorst(), Best()]


def kept(selection, *groups):
    """Rewards of the trajectories kept, and the keys of the groups dropped."""
    stay, go = selection.keep(list(groups), Key())
    return [g.rewards.tolist() for g in stay], [g.key for g in go]


def test_failed_trajectories_go_and_empty_groups_with_them():
    groups = [toy_group(1.0, Failed("x"), math.nan, 0.0, NOT_APPLICABLE), toy_group(Failed("x"), math.inf)]
    assert [[t.id for t in g.trajectories] for g in without_failures(groups)] == [["g/0", "g/3"]]


@pytest.mark.parametrize("selection", ALL)
def test_every_group_is_kept_or_dropped_and_keeps_its_place(selection):
    groups = [toy_group(1, 0, key="a"), toy_group(1, 1, key="b"), toy_group(0, 0, key="c"), toy_group(0.5, 0, key="d")]
    stay, go = selection.keep(groups, Key())
    assert sorted([g.key for g in stay + go]) == ["a", "b", "c", "d"]
    assert [g.key for g in stay] == sorted(g.key for g in stay)
    assert selection.keep([], Key()) == ([], [])


def test_mean_reward_within_bounds_that_belong_to_it():
    groups = [toy_group(1, 0, 0, 0, 0, key="fifth"), toy_group(1, 1, 1, 1, 0, key="four fifths"), toy_group(1, 1, key="one")]
    assert kept(MeanReward(0.2, 0.8), *groups)[1] == ["one"]


def test_informative_groups_differ_in_reward():
    assert kept(Informative(), toy_group(0.5, 0.5, key="a"), toy_group(0.5, 0.6, key="b")) == ([[0.5, 0.6]], ["a"])


def test_mixed_groups_differ_in_being_right():
    right = [toy_group(1, 1, key="a"), toy_group(0, 0.9, key="b"), toy_group(1, 0, key="c")]
    assert kept(Mixed(), *right) == ([[1, 0]], ["a", "b"])  # 0.9 is not right
    priced = toy_group(0.2, 0.7, key="d")
    verified = priced.but(trajectories=tuple(t.but(components=Frozen(verified=1.0, price=t.value - 1)) for t in priced.trajectories))
    assert kept(Mixed(), verified)[1] == ["d"]  # rewards differ by the price alone


def test_the_best_of_equals_is_the_earlier():
    made = toy_group(0.5, 1, 0, 1)
    (stay,), _ = Best(count=1).keep([made], Key())
    assert [t.id for t in stay.trajectories] == ["g/1"]
    (stay,), _ = Best(count=3).keep([made], Key())
    assert [t.id for t in stay.trajectories] == ["g/1", "g/3", "g/0"]
    assert kept(Best(count=2, above=0.5), made, toy_group(0.5, 0.5, key="low")) == ([[1, 1]], ["low"])


def test_best_and_worst_are_a_pair():
    (stay,), _ = BestAndWorst().keep([toy_group(0.5, 1, 0, 1, 0)], Key())
    assert [t.id for t in stay.trajectories] == ["g/1", "g/2"]
    assert kept(BestAndWorst(), toy_group(1, 1, key="same"), toy_group(1, key="one")) == ([], ["same", "one"])


@pytest.mark.parametrize("selection", [BestAndWorst(), Best()])
def test_what_was_sampled_for_a_value_only_is_not_picked(selection):
    made = toy_group(0.5, 0, 1)
    probed = made.but(trajectories=(*made.trajectories[:2], made.trajectories[2].but(trained=False)))
    (stay,), _ = selection.keep([probed], Key())
    assert [t.value for t in stay.trajectories] == ([0.5, 0] if selection == BestAndWorst() else [0.5])
    bare = made.but(trajectories=(made.trajectories[2].but(trained=False),))
    assert selection.keep([bare], Key()) == ([], [bare])
