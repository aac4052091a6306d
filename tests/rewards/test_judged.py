"""Rewards by a judge: points, pairs in both orders, lists, steps, and judges that fail or say nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gradus.rewards.judged import Judged, JudgedLists, JudgedPairs, JudgedSteps
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verdicts import Better, YesNo
from gradus.testing.methods import TOY, toy_trajectory
from gradus.types import NOT_APPLICABLE, Failed, Group, Key, UserError
from gradus.types.spans import Separated


class Told:
    """A judge that gives listed verdicts, and keeps the cases."""

    def __init__(self, *verdicts):
        self.verdicts, self.cases = verdicts, []

    async def decide(self, form, cases, world):
        self.cases += cases
        return list(self.verdicts[: len(cases)])


def scored(reward, *groups, key=0):
    notes = {}
    world = SimpleNamespace(note=lambda name, value: notes.setdefault(name, []).append(float(value)), key=Key(key), task=TOY)
    made = [Group(f"g{n}", tuple(toy_trajectory([2], name=f"{n}/{i}").but(completion=c) for i, c in enumerate(row))) for n, row in enumerate(groups)]
    found = asyncio.run(reward.score(made, {}, world))
    return [[j.reward for j in row] for row in found], notes, found


FAILED = Failed("no reply")


def test_points():
    values, notes, found = scored(Judged(Told((1.0,), (0.25,), None, FAILED)), "ab", "cd")
    assert values == [[1.0, 0.25], [0.0, FAILED]]
    assert notes == {"judged/unread": [0, 0, 1, 0]}
    assert found[0][0].components == {"judged": 1.0}
    ((lost,),), _, _ = scored(Judged(Told(None), unread=None), "a")
    assert isinstance(lost, Failed)


def test_a_scripted_judge_of_final_answers_knows_the_truth_of_the_completion():
    truth = ScriptedJudge(truth=lambda problem, text: float(text.startswith("1+1=")))
    assert scored(Judged(truth, final=True), ["1+1=2", "2", "1+1="])[0] == [[1.0, 0.0, 0.0]]
    judge = Told((1.0,))
    scored(Judged(judge, final=True), ["1+1=2"])
    assert judge.cases[0].answers == ("2",)


def test_pairs_in_both_orders():
    # a-b: 1 and 0, so a wins in both; a-c: 1 and 1, the orders contradict each other; b-c: 0 and 1, c wins in both
    judge = Told((1.0,), (0.0,), (1.0,), (1.0,), (0.0,), (1.0,))
    values, notes, _ = scored(JudgedPairs(judge), "abc")
    assert values == [[0.75, 0.0, 0.75]]
    assert notes["judged/order"] == [0, 1, 0]
    assert [c.answers for c in judge.cases] == [("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")]


def test_one_order_is_drawn_and_read_in_the_right_sense():
    seen = set()
    for key in range(8):
        judge = Told((1.0,))
        values, _, _ = scored(JudgedPairs(judge, both_orders=False), "ab", key=key)
        (case,) = judge.cases
        assert values == [[1.0, 0.0] if case.answers == ("a", "b") else [0.0, 1.0]]
        seen.add(case.answers)
    assert len(seen) == 2


def test_failed_comparisons_do_not_count():
    values, _, _ = scored(JudgedPairs(Told(FAILED, (1.0,), (1.0,), (0.0,), (1.0,), (0.0,))), "abc")
    assert values == [[1.0, 1.0, 0.0]]  # a-b failed; a beats c, and b beats c
    ((one,),), _, _ = scored(JudgedPairs(Told()), "a")
    assert one is NOT_APPLICABLE
    values, _, _ = scored(JudgedPairs(Told(FAILED, FAILED)), "ab")
    assert values == [[FAILED, FAILED]]


def test_the_reference_answer():
    judge = Told((1.0,), (0.0,))
    t = toy_trajectory([2], name="t/0").but(completion="x")
    known = t.but(problem=replace(t.problem, answer="5"))
    world = SimpleNamespace(note=lambda name, value: None, key=Key(0))
    ((one, none),) = asyncio.run(JudgedPairs(judge, against="reference").score([Group("g", (known, t.but(id="t/1")))], {}, world))
    assert (one.reward, none.reward) == (1.0, NOT_APPLICABLE)
    assert judge.cases[0].answers == ("x", "5")


def test_lists():
    judge = Told((1.0, 0.5), (0.25,), FAILED)
    values, _, _ = scored(JudgedLists(judge, most=2), "abc", "de")
    assert values == [[1.0, 0.5, 0.25], [FAILED, FAILED]]
    assert [c.answers for c in judge.cases] == [("a", "b"), ("c",), ("d", "e")]


def test_steps():
    judge = Told((1.0, 1.0), (1.0, 0.0, 0.0), (0.4, 1.0), None)
    values, _, found = scored(JudgedSteps(judge, steps=Separated(" "), unread=0.0), ["a b", "a b c", "a b", "a b", ""])
    assert values == [[1.0, 0.0, 0.0, 0.0, 1.0]]
    assert [j.extra["first_error"] for j in found[0]] == [-1, 1, 0, 0, -1]
    assert judge.cases[1].steps == ("a ", "b ", "c")
    values, _, _ = scored(JudgedSteps(Told((1.0, 0.0, 0.0)), steps=Separated(" "), share=True), ["a b c"])
    assert values == [[pytest.approx(1 / 3)]]
    values, _, _ = scored(JudgedSteps(Told(None), steps=Separated(" ")), ["a b"])
    assert values == [[1.0]]


def test_what_is_refused():
    with pytest.raises(UserError, match="of the kind pair"):
        Judged(form=Better())
    with pytest.raises(UserError, match=r"JudgedPairs\.form is YesNo"):
        JudgedPairs(form=YesNo())
    with pytest.raises(UserError, match='"all" or "reference"'):
        JudgedPairs(against="none")
    with pytest.raises(UserError, match="right steps"):
        JudgedSteps(ScriptedJudge()).check(TOY)
    with pytest.raises(UserError, match=r"JudgedLists\.most"):
        JudgedLists(most=1)
