from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.credit.within import Calls, Linked, Within, calls, strata
from gradus.papers.credit.stratified_grpo import Blended
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.testing.methods import advantages_of, toy_group
from gradus.types import Frozen, Group, UserError
from gradus.types.parts import Credited


def linked(rewards, kinds, name="role"):
    made = toy_group(*rewards)
    return made.but(trajectories=tuple(t.but(links=Frozen({name: k})) for t, k in zip(made.trajectories, kinds, strict=True)))


def first(rule, *groups):
    return [[row[0] for row in group] for group in advantages_of(rule, *groups)]


def test_strata_keep_the_order_of_the_group():
    made = linked([0, 0, 1, 1], "abab")
    assert strata(made, Linked()) == [[0, 2], [1, 3]]
    assert strata(made, Linked("budget")) == [[0, 1, 2, 3]]  # nobody has the entry
    # a: 0 and 1, b: 0 and 1
    assert first(Within(), made) == [[-1.0, -1.0, 1.0, 1.0]]
    assert first(Within(rule=LeaveOneOut()), linked([0, 0, 1, 0.5], "abab")) == [[-1.0, -0.5, 1.0, 0.5]]


def test_strata_and_blends_by_hand():
    # whole: mean .5, deviation .5: -1 -1 1 1; strata {0}, {0, 1}, {1}: 0 -1 1 0
    made = linked([0, 0, 1, 1], "abbc")
    assert first(Within(), made) == [[0.0, -1.0, 1.0, 0.0]]
    assert first(Blended(Linked(), blend=0.75), made) == [[-0.25, -1.0, 1.0, 0.25]]
    assert first(Blended(Linked(), blend=0.0), made) == [[-1.0, -1.0, 1.0, 1.0]]


@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 2)), min_size=1, max_size=9), st.floats(0, 1))
def test_one_stratum_is_the_rule_and_a_stratum_sums_to_nothing(rows, blend):
    rewards, kinds = [r for r, _ in rows], [k for _, k in rows]
    assert first(Blended(Linked(), blend=blend), linked(rewards, [7] * len(rows))) == first(GroupRelative(), toy_group(*rewards))
    (found,) = first(Within(), linked(rewards, kinds))
    for kind in set(kinds):
        assert abs(sum(a for a, k in zip(found, kinds, strict=True) if k == kind)) < 1e-9


@given(st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 1)), min_size=2, max_size=9), st.integers(-8, 8))
def test_a_constant_added_to_a_stratum_changes_nothing_within(rows, more):
    kinds = [k for _, k in rows]
    before, after = [r / 4 for r, _ in rows], [(r + more * k) / 4 for r, k in rows]
    assert_allclose(first(Within(), linked(before, kinds)), first(Within(), linked(after, kinds)), atol=1e-12)


def test_groups_are_not_mixed():
    made = [linked([0, 1], "ab"), linked([1, 0], "aa")]
    assert first(Within(), *made) == [[0.0, 0.0], [1.0, -1.0]]
    # a rule over the batch still sees all pieces: centred 0, 0, .5, -.5, deviation of all four sqrt(1/8)
    assert_allclose(first(Within(rule=BatchRelative()), *made), [[0, 0], [2**0.5, -(2**0.5)]])


def test_calls_are_lines_that_begin_with_the_tool():
    text = "search: a\n  Search: b\nI search: c\nanswer: d\nsearching: e"
    assert calls("search", text) == 2
    assert calls("a.b", "a.b: 1\naxb: 2") == 1
    one, none = (toy_group(1).trajectories[0].but(completion=c) for c in (text, "answer: d"))
    assert (Calls().of(one), Calls().of(none)) == (2, 0)
    assert Calls(("search", "answer")).of(one) == 3
    assert Calls(("search", "answer"), most=1).of(one) == 1


def test_returns_and_weights_are_those_of_the_strata():
    class Counting:
        needs = ()

        def assign(self, groups, signals):
            return [[Credited(np.ones(t.actions), np.full(t.actions, float(len(g.trajectories))), np.full(t.actions, 0.5)) for t in g.trajectories] for g in groups]

    ((a, b, c),) = Blended(Linked(), Counting(), blend=0.5).assign([linked([0, 0, 1], "abb")], {})
    assert [x.returns[0] for x in (a, b, c)] == [1, 2, 2]
    assert a.weights.tolist() == [0.5, 0.5]


def test_what_is_not_possible_is_refused():
    for wrong in (-0.1, 1.1):
        with pytest.raises(UserError, match="blend"):
            Blended(blend=wrong)
    with pytest.raises(UserError, match=r"Calls.tools is \(\)"):
        Calls(())
    with pytest.raises(UserError, match="most"):
        Calls(most=0)

    class Short:
        needs = ()

        def assign(self, groups, signals):
            return [[Credited(np.zeros(1)) for _ in g.trajectories] for g in groups]

    with pytest.raises(UserError, match="Short"):
        Within(rule=Short()).assign([linked([0, 1], "ab")], {})


def test_the_rule_s_signals_are_asked_for():
    rule = replace(GroupRelative())
    assert Within(rule=rule).needs == rule.needs
    assert advantages_of(Within(), Group("g", ())) == [[]]
