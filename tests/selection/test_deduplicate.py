"""Right answers that are kept once."""

from __future__ import annotations

import pytest

from gradus.selection.deduplicate import RightAndDistinct, likeness
from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import Group, Key, UserError


def said(*texts, right=True):
    made = [toy_trajectory([2 + i], reward=float(right), name=f"t{i}").but(completion=text) for i, text in enumerate(texts)]
    return Group("g", tuple(made))


def kept(selection, *groups):
    stay, go = selection.keep(list(groups), Key())
    return [[t.id for t in g.trajectories] for g in stay], [g.key for g in go]


def test_of_the_same_actions_the_earliest_right_one_stays():
    made = Group("g", tuple(toy_trajectory(tokens, reward=r, name=n) for n, tokens, r in
                            (("a", [1, 2], 0.9), ("b", [1, 2], 1.0), ("c", [1, 2], 1.0), ("d", [1], 1.0), ("e", [3], 0.0))))  # fmt: skip
    assert kept(RightAndDistinct(), made, toy_group(0, 0.5, key="wrong")) == ([["b", "d"]], ["wrong"])
    assert kept(RightAndDistinct(count=1), made) == ([["b"]], [])


def test_equations_tell_answers_apart_and_other_words_do_not():
    made = said("so 1+2=3 and 3*2=6", "then 1+2=3, well 3*2=6".replace(",", ""), "3*2=6 1+2=3", "just 6", "just 6")
    assert kept(RightAndDistinct(r"\S+=\S+"), made)[0] == [["t0", "t2", "t3", "t4"]]  # without an equation the tokens count
    assert likeness(made.trajectories[0], r"\S+=\S+") == ("1+2=3", "3*2=6")
    assert likeness(made.trajectories[0], None) != likeness(made.trajectories[1], None)


def test_nothing_right_keeps_nothing():
    assert kept(RightAndDistinct(), said("a", right=False)) == ([], ["g"])
    assert RightAndDistinct().keep([], Key()) == ([], [])


def test_what_is_no_pattern_or_count_is_refused():
    with pytest.raises(UserError, match="not a regular expression"):
        RightAndDistinct(pattern="(")
    with pytest.raises(UserError, match="count is 0"):
        RightAndDistinct(count=0)


def test_what_was_sampled_for_a_value_only_is_not_kept():
    made = said("a", "b")
    probed = made.but(trajectories=(made.trajectories[0].but(trained=False), made.trajectories[1]))
    assert kept(RightAndDistinct(), probed)[0] == [["t1"]]
