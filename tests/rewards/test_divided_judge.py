"""People and an AI share the judging of pairs."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.rewards.divided_judge import PeopleAndAI, WithExamples
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verdicts import Better, Case
from gradus.tasks.maths.physics import physics
from gradus.testing.methods import (
    TOY,
    scripted_world,
)
from gradus.types import Failed, Frozen, Problem

FORCE = Problem("p", "physics", text="", answer="12 N", meta=Frozen(law="F=m*a", put="3*4", unit="N"))


def cases(count, better_first=True):
    answers = ("F=m*a 3*4=12 N", "F=m*a 3*4=11 N")
    made = [Problem(f"p{i}", "physics", text="?", answer="12 N", meta=FORCE.meta) for i in range(count)]
    return [Case(f"c{i}", p, answers if better_first else answers[::-1]) for i, p in enumerate(made)]


class Told:
    """A judge that keeps the prompts and says the same of every case."""

    def __init__(self, verdict):
        self.verdict, self.prompts = verdict, []

    async def decide(self, form, asked, world):
        self.prompts += [form.prompt(case) for case in asked]
        return [self.verdict for _ in asked]


def decided(judge, asked):
    world, _ = scripted_world(TOY, lambda ask: "b")
    world.task = physics()
    return asyncio.run(judge.decide(Better(), asked, world))


def test_people_judge_a_share_of_the_problems():
    people, ai = Told((1.0,)), Told((0.0,))
    found = decided(PeopleAndAI(people, ai, share=0.1), cases(40))
    assert (len(people.prompts), len(ai.prompts), sum(v[0] for v in found)) == (4, 36, 4.0)
    few = decided(PeopleAndAI(Told((1.0,)), Told((0.0,)), share=0.1), cases(3))
    assert sum(v[0] for v in few) == 1.0  # one problem at least
    assert sum(v[0] for v in decided(PeopleAndAI(Told((1.0,)), Told((0.0,)), share=0.0), cases(3))) == 0.0
    assert decided(PeopleAndAI(Told((1.0,)), Told((0.0,)), share=1.0), cases(3)) == [(1.0,)] * 3
    assert decided(PeopleAndAI(Told((1.0,)), Told((0.0,))), []) == []


@pytest.mark.parametrize(("verdict", "word"), [((1.0,), "A"), ((0.0,), "B"), ((0.5,), "tie")])
def test_the_verdicts_of_people_are_examples_for_the_ai(verdict, word):
    ai = Told((0.5,))
    asked = cases(20)
    judge = PeopleAndAI(Told(verdict), ai, examples=2)
    decided(judge, asked)
    chosen = judge.by_people(asked)
    shown = [Better().prompt(case) for case in asked if case.problem.id in chosen]
    assert len(shown) == 2
    assert all(prompt.startswith(f"{shown[0]}{word}\n\n{shown[1]}{word}\n\n") for prompt in ai.prompts)
    assert all(len(prompt) == 3 * len(shown[0]) + 2 * len(f"{word}\n\n") for prompt in ai.prompts)


def test_a_verdict_that_people_do_not_give_is_no_example():
    for nothing in (None, Failed("no")):
        ai = Told((0.5,))
        asked = cases(20)
        found = decided(PeopleAndAI(Told(nothing), ai), asked)
        assert found.count(nothing) == 2
        assert ai.prompts == [Better().prompt(case) for case in asked if case.problem.id not in PeopleAndAI().by_people(asked)]


def test_the_errors_of_people_and_ai():
    """Shares of reversed pairs of 1000: .1 and .02, with three standard deviations."""
    found = [
        1 - np.mean([v[0] for v in decided(PeopleAndAI(share=share), cases(1000))]) for share in (0.0, 1.0)
    ]
    assert found[0] == pytest.approx(0.1, abs=0.03)
    assert found[1] == pytest.approx(0.02, abs=0.014)
    assert isinstance(PeopleAndAI().ai, ScriptedJudge)
    assert WithExamples(Better(), "x").read("B", cases(1)[0]) == (0.0,)
