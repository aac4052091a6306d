"""Which groups and trajectories are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.selection.filters import (
    Accepted,
    Balanced,
    BalancedGroups,
    Best,
    BestAndWorst,
    Everything,
    FinishedAnswers,
    Informative,
    KeptByRank,
    MeanReward,
    Mixed,
    balanced,
    without_failures,
)
from gradus.testing.methods import toy_group
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Key, UserError
from gradus.types.pieces import piece_links

ALL = [Everything(), FinishedAnswers(), MeanReward(), Informative(), Mixed(), BestAndWorst(), Best(), KeptByRank(), Balanced(), Accepted()]


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
    assert kept(Best(count=2), made) == ([[1, 1]], [])


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


REWARDS = (0.1, 0.9, 0.5, 0.3, 0.7)


def ranked(rule, *rewards, key=Key(0)):
    group = toy_group(*rewards)
    (found,), dropped = KeptByRank(rule).keep([group], key)
    assert not dropped
    places = {t.id: i for i, t in enumerate(group.trajectories)}
    return [places[t.id] for t in found.trajectories]


def test_the_ranks_of_the_row():
    assert ranked("best", *REWARDS) == [1]
    assert ranked("best_and_worst", *REWARDS) == [1, 0]
    assert ranked("all", *REWARDS) == [0, 1, 2, 3, 4]


def test_the_random_other_is_each_of_the_rest_equally_often():
    drawn = [ranked("best_and_random", *REWARDS, key=Key(0).fold(i)) for i in range(4000)]
    assert all(first == 1 for first, _ in drawn)
    shares = [np.mean([other == i for _, other in drawn]) for i in range(5)]
    assert shares[1] == 0
    assert all(abs(shares[i] - 0.25) < 0.03 for i in (0, 2, 3, 4))


def test_a_draw_depends_on_the_group_and_not_on_its_neighbours():
    groups = [toy_group(*REWARDS).but(key=f"g{i}") for i in range(40)]
    together = KeptByRank().keep(groups, Key(3))[0]
    alone = [KeptByRank().keep([g], Key(3))[0][0] for g in groups]
    assert [[t.id for t in g.trajectories] for g in together] == [[t.id for t in g.trajectories] for g in alone]
    assert len({tuple(t.id.rpartition("/")[2] for t in g.trajectories) for g in together}) > 1


@pytest.mark.parametrize("rule", ["best", "best_and_random", "best_and_worst", "all"])
def test_a_group_of_one_is_kept_once_and_equal_rewards_by_their_order(rule):
    assert ranked(rule, 0.5) == [0]
    assert ranked(rule, 0.5, 0.5)[0] == 0
    assert ranked("best_and_worst", 0.5, 0.5, 0.5) == [0, 2]


def test_answers_that_are_not_trained_on_have_no_rank():
    group = toy_group(*REWARDS)
    best, *rest = sorted(group.trajectories, key=lambda t: -t.value)
    hidden = group.but(trajectories=(best.but(trained=False), *rest))
    (found,), _ = KeptByRank("best_and_worst").keep([hidden], Key(0))
    assert [t.value for t in found.trajectories] == [0.7, 0.1]
    none = group.but(trajectories=(best.but(trained=False),))
    assert KeptByRank("best").keep([none], Key(0)) == ([], [none])


def test_the_choice_by_hand():
    assert balanced([True, True, True, False, False, False], 4) == [0, 1, 3, 4]
    assert balanced([True] * 8, 4) == [0, 1, 2, 3]
    assert balanced([False, False, False, False, True], 4) == [0, 1, 2, 4]  # the pos variant: one right, three wrong
    assert balanced([True, True, True, False], 4) == [0, 1, 2, 3]
    assert balanced([True, False], 4) == [0, 1]
    assert balanced([True, True, False, False, False], 3) == [0, 2, 3]  # of an odd number the larger half is wrong
    assert balanced([], 4) == []


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 8))
def test_the_choice_is_as_balanced_as_the_pool_allows(right, count):
    chosen = balanced(right, count)
    rights = sum(right[i] for i in chosen)
    wrongs = len(chosen) - rights
    assert len(chosen) == min(count, len(right)) == len(set(chosen))
    assert rights >= min(count // 2, sum(right))
    assert wrongs >= min(count - count // 2, len(right) - sum(right))


def test_a_group_that_may_not_be_trained_on_is_dropped():
    group = toy_group(1, 0)
    probes = group.but(trajectories=tuple(t.but(trained=False) for t in group.trajectories))
    assert Balanced(4).keep([probes], Key()) == ([], [probes])


def test_a_group_of_no_answer_is_refused():
    with pytest.raises(UserError, match="it must"):
        Balanced(0)


def test_probes_are_not_imitated():
    group = toy_group(1, 1, 1)
    mixed = group.but(trajectories=(*(t.but(trained=False) for t in group.trajectories[:2]), group.trajectories[2]))
    (kept,), _ = Accepted().keep([mixed], Key())
    assert [t.id for t in kept.trajectories] == ["g/2"]


def test_balance_drops_surplus_wrong_answers():
    groups = [toy_group(1, 0, 0, 0, 0, key="a"), toy_group(1, 1, 0, key="b"), toy_group(0, 0, key="c"), toy_group(0.9, 0.1, 0.2, 0.1, key="d")]
    stay, gone = BalancedGroups().keep(groups, Key())
    assert [g.rewards.tolist() for g in stay[:3]] == [[1, 0], [1, 1, 0], [0, 0]]
    assert gone == []
    assert len(stay[3].trajectories) == 2
    assert stay[3].rewards[0] == 0.9  # wrong is below the mean .325, though no reward is 0
    drawn = {BalancedGroups().keep(groups[:1], Key().fold("t", i))[0][0].trajectories[1].id for i in range(40)}
    assert drawn == {"a/1", "a/2", "a/3", "a/4"}
    assert [t.id for t in BalancedGroups().keep(groups[:1], Key())[0][0].trajectories] == [t.id for t in stay[0].trajectories]
    assert BalancedGroups().keep([toy_group(1, 1, 0, 0, 0, 0)], Key())[0][0].rewards.tolist() == [1, 1, 0, 0]  # two of four wrong answers go
    equal = toy_group(0.3, 0.3, 0.3)  # their mean is .3 only up to rounding
    assert BalancedGroups().keep([equal], Key())[0][0].trajectories == equal.trajectories


def test_answers_that_continue_are_left_out():
    cut, done = piece_links(1, True), piece_links(1, False)
    mixed, open_, whole = toy_group(1, 0.5, 0, key="a"), toy_group(0, 0, key="b"), toy_group(1, 0, key="c")
    mixed = mixed.but(trajectories=tuple(t.but(links=n) for t, n in zip(mixed.trajectories, (done, cut, done), strict=True)))
    open_ = open_.but(trajectories=tuple(t.but(links=cut) for t in open_.trajectories))
    assert kept(FinishedAnswers(), mixed, open_, whole) == ([[1, 0], [1, 0]], ["b"])
