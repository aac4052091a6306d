"""What parts return: every check on a value that is right, and on values that are each wrong in one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative, spread
from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, Problem, Request, UserError
from gradus.types.parts import Credited, Judgement
from gradus.types.returned import (
    check_credited,
    check_drawn,
    check_groups,
    check_judgements,
    check_kept,
    check_learned,
    check_numbers,
    check_requests,
    check_state,
    named,
    own_parts,
    place_of,
    shown,
    without_state,
)


@dataclass(frozen=True)
class Mine:
    inside: Any = None

    def assign(self, groups: Any, signals: Any) -> Any: ...


class Remembers(Mine):
    def start(self) -> None: ...


WORLD = SimpleNamespace(players={"policy": None})
PROBLEM = Problem("p", "toy", text="a")
LINE = Mine.assign.__code__.co_firstlineno


def refused(check: Callable[..., None], *arguments: Any) -> str:
    with pytest.raises(UserError) as caught:
        check(*arguments)
    return str(caught.value)


def test_a_part_is_named_with_the_line_of_its_method_else_of_its_class() -> None:
    assert named(Mine(), "assign") == f"Mine.assign (test_returned.py, line {LINE})"
    assert place_of(Remembers(), "assign").startswith("test_returned.py, line ")  # inherited: the line of the class
    assert place_of(Remembers(), "assign") != place_of(Mine(), "assign")
    assert named(Mine) == named(Mine()) == f"Mine ({place_of(Mine)})"
    made = type("Made", (), {})
    made.__module__ = "nowhere"
    assert named(made()) == "Made"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"),
        (Mine, "the class Mine"),
        (Mine(), "a Mine"),
        ([1, 2], "a list of 2"),
        ({}, "a dict of 0"),
        (0.5, "a float (0.5)"),
        ("a" * 50, f"a str ('{'a' * 29})"),
        (np.zeros((2, 3)), "a float64 array of shape [2, 3]"),
        (torch.zeros(4, dtype=torch.int64), "an int64 tensor of shape [4]"),
        (object(), "an object"),
    ],
)
def test_a_value_in_a_few_words(value: Any, words: str) -> None:
    assert shown(value) == words


def test_the_parts_of_a_user_are_found_at_any_depth() -> None:
    assert list(own_parts(GroupRelative())) == []
    assert list(own_parts(outer := Mine(inside=Mine()))) == [outer, outer.inside]


def test_a_source_gives_a_problem_for_each_index() -> None:
    other = replace(PROBLEM, id="q")
    check_drawn(Mine(), [PROBLEM, other], [4, 5])
    check_drawn(Mine(), [PROBLEM, PROBLEM], [4, 4])  # one index twice is one problem twice
    assert "problem p for index 4 and for index 5" in refused(check_drawn, Mine(), [PROBLEM, PROBLEM], [4, 5])
    assert "1 problems for 2 indices" in refused(check_drawn, Mine(), [PROBLEM], [4, 5])
    assert "a list of 1 with a str ('p') in it" in refused(check_drawn, Mine(), ["p"], [4])


def test_requests_that_can_be_asked() -> None:
    right = [Request(PROBLEM, 2)]
    check_requests(Mine(), right, None, 1, WORLD)
    check_requests(Remembers(), [], None, 1, WORLD)  # it may know that there are no more
    for value, said in [
        ([], "no requests for 1 problems"),
        ([PROBLEM], "with a Problem in it"),
        ([Request(PROBLEM, 0)], "count 0"),
        ([Request(PROBLEM, 1.0)], "count 1.0"),
        ([Request("p")], "a Request for a str"),
        ([Request(PROBLEM, player="polcy")], "did you mean policy?"),
    ]:
        assert said in refused(check_requests, Mine(), value, None, 1, WORLD)


def changed(**changes: Any) -> list[Group]:
    return [Group("g", (toy_trajectory([1, 2], reward=1.0).but(**changes),))]


def context(**changes: Any) -> tuple[Any, ...]:
    return (replace(toy_trajectory([1, 2]).contexts[0], **changes),)


def test_judged_groups_of_whole_trajectories() -> None:
    requests = [Request(PROBLEM)]
    for right in (
        changed(),
        changed(reward=Failed("late")),
        changed(reward=NOT_APPLICABLE),
        changed(reward=1),
        changed(contexts=context(logprobs=None, rewards=((1, "a", 0.5),), streams=Frozen(turn=np.zeros(2)))),
        changed(contexts=()),
        [toy_group(1.0, 0.0, key="a"), toy_group(1.0, 0.0, key="b")],
    ):
        check_groups(Mine(), right, requests, WORLD)
    check_groups(Mine(), [], [], WORLD)
    check_groups(Remembers(), [], requests, WORLD)  # what it has begun may come later


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "no groups for 1 requests"),
        (iter(changed()), "returned a list_iterator"),
        ([*toy_group(1.0).trajectories], "with a Trajectory in it"),
        ([Group("g", ())], "a tuple of 0 as trajectories"),
        ([Group("g", [toy_trajectory([1])])], "a list of 1 as trajectories"),
        ([Group("g", (PROBLEM,))], "a Problem among its trajectories"),
        ([*changed(), *changed()], "two groups with the key g"),
        ([*changed(), *(g.but(key="h") for g in changed())], "trajectory t twice"),
        (changed(reward=None), "without a reward; it must return judged groups: await world.judge(groups)"),
        (changed(reward=np.float32(1.0)), "with a float32 as its reward"),
        (changed(source="polcy"), 'the source "polcy"; it must be one of policy, expert'),
        (changed(player="polcy"), 'of player "polcy"'),
        (changed(weight=None), "with None as its weight"),
        (changed(contexts=[]), "a list of 0 as its contexts"),
        (changed(contexts=(None,)), "a tuple of 1 as its contexts"),
        (changed(contexts=context(chosen=np.ones(3, bool))), "tokens of shape [2] and chosen of shape [3]"),
        (changed(contexts=context(logprobs=np.zeros(1, np.float32))), "1 logprobs for 2 actions"),
        (changed(contexts=context(versions=np.zeros(3, np.int32))), "3 versions for 2 actions"),
        (changed(contexts=context(streams=Frozen(turn=np.zeros(1)))), "1 turn for 2 actions"),
        (changed(contexts=context(rewards=((2, "a", 0.5),))), "a reward at an action that does not exist; it must name actions from 0 to 1"),
    ],
)
def test_groups_that_are_wrong_in_one_way(value: Any, said: str) -> None:
    assert said in refused(check_groups, Mine(), value, [Request(PROBLEM)], WORLD)


def test_a_judgement_for_every_trajectory() -> None:
    groups = [toy_group(1.0, 0.0)]

    def row(*given: Any) -> list[list[Any]]:
        return [[Judgement(0.5), *given]]

    for right in (Judgement(1), Judgement(Failed("late"), {"a": NOT_APPLICABLE}), Judgement(1.0, steps=((0, 1, "a", 0.5),))):
        check_judgements(Mine(), row(right), groups)
    for wrong, said in [
        (row(), "1 of Judgement for 2 trajectories"),
        ([], "a list of 0 for 1 groups"),
        (row(1.0), "with a float (1.0) in it"),
        (row(Judgement("1")), "a str ('1') as reward"),
        (row(Judgement(torch.tensor(1.0))), "a float32 tensor of shape [] as reward"),
        (row(Judgement(1.0, ["a"])), "a list of 1 as components"),
        (row(Judgement(1.0, {"a": None})), "None as component a"),
        (row(Judgement(1.0, steps=((0, 1, "a"),))), "a tuple of 3 among its steps"),
        (row(Judgement(1.0, steps=((0, 2, "a", 0.5),))), "action 2 of context 0"),
        (row(Judgement(1.0, steps=((1, 0, "a", 0.5),))), "action 0 of context 1"),
        (row(Judgement(1.0, steps=((0, -1, "a", 0.5),))), "action -1 of context 0"),
    ]:
        assert said in refused(check_judgements, Mine(), wrong, groups)


def test_kept_and_dropped() -> None:
    a, b = toy_group(1.0, 0.0, key="a"), toy_group(1.0, 1.0, key="b")
    for right in (([a], [b]), ((a, b), []), ([a.but(trajectories=a.trajectories[:1])], [b])):
        check_kept(Mine(), right, [a, b], None)
    for wrong, said in [
        ([[a], [b]], "a list of 2; it must return two lists"),
        (([a], [b], {}), "a tuple of 3"),
        (([a, a], [b]), "trajectory a/0 twice among the kept"),
        (([a, b], [b]), "trajectory b/0 as kept and as dropped"),
        (([0], []), "with an int (0) in it"),
    ]:
        assert said in refused(check_kept, Mine(), wrong, [a, b], None)


def test_a_number_for_every_action() -> None:
    groups = [toy_group(1.0, 0.0, lengths=[2, 3])]
    check_credited(Mine(), spread(groups, [[1, 0]]), groups)  # spread makes floats of whole numbers
    check_credited(Mine(), [[Credited(np.ones(2, np.float32)), Credited(np.ones(3), np.ones(3))]], groups)
    for array, said in [
        (np.ones(2), "a float64 array of shape [2] as advantages of trajectory g/1; it must return a float array of shape [3]"),
        (np.ones((3, 1)), "shape [3, 1]"),
        (np.ones(3, int), "an int64 array"),
        ([1.0] * 3, "a list of 3"),
        (torch.ones(3), "a float32 tensor"),
        (None, "None as advantages"),
    ]:
        assert said in refused(check_credited, Mine(), [[Credited(np.ones(2)), Credited(array)]], groups)
    assert "as returns of" in refused(check_credited, Mine(), [[Credited(np.ones(2), np.ones(1)), Credited(np.ones(3))]], groups)
    assert "as weights of" in refused(check_credited, Mine(), [[Credited(np.ones(2), weights=np.ones(1)), Credited(np.ones(3))]], groups)
    for weights in (np.array([1.0, -0.5]), np.array([np.nan, 1.0])):
        said = refused(check_credited, Mine(), [[Credited(np.ones(2), weights=weights), Credited(np.ones(3))]], groups)
        assert "weights that are finite and at least 0" in said


def test_numbers_by_name() -> None:
    check_numbers(Mine(), "measure", {"a": 1.0, "b": None, "c": np.float64(2.0), "d": 3})
    for value, said in [(None, "returned None"), ({"a": "1"}, "a str ('1') under 'a'"), ({1: 2.0}, "under 1"), ({"a": np.float32(1)}, "float32")]:
        assert said in refused(check_numbers, Mine(), "measure", value)


def test_a_state_is_plain() -> None:
    check_state(Mine(), "start", {"a": [1, 2.0, None, True, "x"], "b": {"c": np.zeros(2)}, "d": torch.zeros(1), "e": (np.int64(3),)})
    for state, said in [
        ({1: 2}, "a state with the key 1"),
        ({"a": {"b": {3}}}, "a set as state.a.b"),
        ([object()], "an object as state.0"),
        (np.array(["a"]), "as state"),
    ]:
        assert said in refused(check_state, Mine(), "start", state)


def test_what_a_part_that_remembers_returns() -> None:
    assert without_state(Mine(), "choose", ([1], {"drawn": 2})) == ([1], {"drawn": 2})
    assert without_state(Mine(), "keep", ([1], [2], None)) == (([1], [2]), None)
    assert "it must return (groups, state)" in refused(without_state, Mine(), "run", [1, 2])
    assert "it must return (kept, dropped, state)" in refused(without_state, Mine(), "keep", ([1], [2]))
    check_learned(Mine(), None, None)
    check_learned(Mine(), {"a": 1}, {"a": 0})
    assert "returned None; it must return the state" in refused(check_learned, Mine(), None, {"a": 0})
