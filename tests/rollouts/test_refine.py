"""Second attempts: which answers get one, what their prompt shows, which are kept, and where they go."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.feedback import Told
from gradus.rollouts.refine import Refine
from gradus.testing.methods import TOY, readable, scripted_world
from gradus.types import Failed, Key, Request, UserError

TELL = Told("{attempt} is {verdict}: {answer}")


def played(rollout, first, second, *, verify=None, context_length=100_000):
    """One group whose first answers are `first`, and whose second attempts are `second` in order."""
    left, more, asked = iter(first), iter(second), []

    def speak(ask):
        again = "second" in ask.request.tags
        if again:
            asked.append(readable(ask.parent.sequence))
        return next(more) if again else next(left)

    task = TOY if verify is None else replace(TOY, verify=verify)
    world, _ = scripted_world(task, speak, reward=Verified(), context_length=context_length)
    (problem,) = TOY.source.draw([0], None, Key(0))  # "a"; the answer is "b"
    (group,) = asyncio.run(rollout.run([Request(problem, count=len(first))], world))
    return group, asked, world


def said(group):
    return [t.completion for t in group.trajectories]


def test_each_answer_gets_feedback_and_the_best_second_attempt_takes_the_first_place():
    group, asked, world = played(Refine(feedback=TELL, keep=1), ["x", "b"], ["y", "bb"])
    assert asked == ["a\nx is wrong: b", "a\nb is right: b"]
    assert said(group) == ["bb", "b"]
    assert group.trajectories[0].links == {"attempt": "second", "first": "3/toy/0/1"}
    assert group.pool == (0.0, 1.0, 0.0, 1.0)
    assert world.notes == {"second": 1.0, "second/right": 0.5, "second/kept": 1.0}


def test_of_equally_good_second_attempts_the_earliest_is_kept():
    assert said(played(Refine(feedback=TELL, keep=1), ["x", "b", "z"], ["u", "v", "w"])[0]) == ["u", "b", "z"]
    assert said(played(Refine(feedback=TELL, keep=2), ["x", "q", "z"], ["u", "b1", "b2"])[0]) == ["b1", "b2", "z"]
    assert said(played(Refine(feedback=TELL, keep=0), ["x"], ["b"])[0]) == ["x"]
    assert said(played(Refine(feedback=TELL), ["x", "y"], ["u", "b"])[0]) == ["u", "b"]  # all, in order


def test_only_right_second_attempts():
    rollout = Refine(feedback=TELL, only="right")
    assert said(played(rollout, ["x", "y", "z"], ["u", "b", "v"])[0]) == ["b", "y", "z"]
    group, _, world = played(replace(rollout, place="apart"), ["x"], ["u"])
    assert (said(group), asyncio.run(world.aside())) == (["x"], [])  # no group without an answer
    assert world.notes["second/kept"] == 0.0


def test_only_wrong_answers():
    group, asked, _ = played(Refine(feedback=TELL, of="wrong", place="appended"), ["x", "b", "y"], ["b", "z"])
    assert asked == ["a\nx is wrong: b", "a\ny is wrong: b"]
    assert said(group) == ["x", "b", "y", "b", "z"]


def test_one_prompt_for_a_group():
    rollout = Refine(feedback=TELL, of="group", at_most=0.0)
    group, asked, world = played(rollout, ["x", "y"], ["u", "b"])
    assert asked == ["a\nx is wrong: b"] * 2
    assert said(group) == ["u", "b"]
    assert world.notes == {"second": 1.0, "second/right": 0.5, "second/kept": 1.0, "second/rescued": 1.0}
    assert played(replace(rollout, count=3), ["x", "y"], ["1", "2", "b"])[0].pool == (0.0,) * 4 + (1.0,)
    group, asked, world = played(rollout, ["x", "b"], [])  # one is right, which is more than at_most
    assert (said(group), asked, world.notes) == (["x", "b"], [], {"second": 0.0})
    assert played(replace(rollout, at_most=1.0), ["b", "x"], ["u", "v"])[1] == ["a\nx is wrong: b"] * 2  # the first wrong one
    assert played(replace(rollout, at_most=1.0), ["b", "b"], ["u", "v"])[1] == ["a\nb is right: b"] * 2


def test_beside_the_group():
    group, _, world = played(Refine(feedback=TELL, of="group", count=1, place="apart"), ["x", "y"], ["b"])
    assert (said(group), group.pool) == (["x", "y"], (0.0, 0.0))
    (other,) = asyncio.run(world.aside())
    assert (said(other), other.aside, other.key, other.pool) == (["b"], True, "toy/0/second", (1.0,))


def test_the_best_answer_and_reserved_places():
    rollout = Refine(feedback=TELL, of="best", count=2, keep=2, only="better", place="reserved")
    group, asked, world = played(rollout, ["xx", "y", "zz", "b2"], ["u", "b"])  # two of four places are reserved
    assert asked == ["a\ny is wrong: b"] * 2  # the shortest of equally good ones
    assert said(group) == ["xx", "y", "b", "zz"]  # "u" is not better, so a further first answer takes its place
    assert group.pool == (0.0,) * 3 + (1.0, 0.0)
    assert len({t.id for t in group.trajectories}) == 4
    assert world.notes == {"second": 1.0, "second/right": 0.5, "second/kept": 1.0, "second/rescued": 1.0}
    assert said(played(rollout, ["x", "b", "y", "z"], ["b1", "b2"])[0]) == ["x", "b", "y", "z"]  # as good as the best is not better
    assert said(played(replace(rollout, only=None), ["x", "y"], ["u", "b"])[0]) == ["x", "b"]  # only one place of two is free
    assert played(rollout, ["x"], [])[1] == []  # and none of one
    assert said(played(replace(rollout, keep=0), ["x", "y"], [])[0]) == ["x", "y"]
    assert said(played(replace(rollout, place="appended", keep=None), ["x", "y"], ["u", "b"])[0]) == ["x", "y", "b"]


def test_which_fields_ask_for_right_answers():
    asks = [Refine(of=of).asks_right for of in ("each", "best", "wrong", "group")]
    assert asks == [None, None, "Auto", "Auto"]
    assert Refine(only="right").asks_right == Refine(at_most=0.5).asks_right == "Auto"


def test_answers_without_a_reward():
    verdicts = iter([Failed("x"), 0.0, Failed("y"), 1.0])
    group, asked, _ = played(Refine(feedback=TELL, of="group", count=2), ["p", "q"], ["u", "v"], verify=lambda *_: next(verdicts))
    assert asked == ["a\nq is wrong: b"] * 2  # no feedback on an answer that could not be judged
    assert said(group) == ["v", "q"]  # and no place for one
    group, asked, world = played(Refine(feedback=TELL), ["p"], [], verify=lambda *_: Failed("x"))
    assert (said(group), asked, world.notes) == (["p"], [], {"second": 0.0})


def test_prompts_that_are_too_long_and_feedback_without_a_text():
    _, asked, _ = played(Refine(feedback=TELL), ["x", "yyyyyyyy"], ["b"], context_length=40)
    assert asked == ["a\nx is wrong: b"]

    class Silent:
        async def texts(self, attempts, world):
            return [None] * len(attempts)

    assert played(Refine(feedback=Silent()), ["x"], [])[1] == []


def test_evaluation_has_no_second_attempt_and_what_is_refused():
    assert Refine().test == Auto()
    assert Refine(rollout=Refine()).test == Auto()
    for wrong in ({"at_most": 1.5}, {"count": 0}, {"keep": -1}):
        with pytest.raises(UserError, match=rf"Refine\.{next(iter(wrong))}"):
            Refine(**wrong)
    with pytest.raises(UserError, match=r"Refine\.only is .good.; it must be .right., .better. or .none."):
        Refine(only="good")
    with pytest.raises(UserError, match=r"Refine\.keep is none"):
        Refine(place="reserved")
