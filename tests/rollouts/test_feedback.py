"""The texts of feedback: forms, unmet criteria, written critiques, the first wrong step."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rollouts.feedback import Criticised, FirstWrongStep, Told, WrittenCritique, first_difference, unmet
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.types import Frozen, Key, Problem, Request, UserError

(PROBLEM,) = TOY.source.draw([0], None, Key(0))


def attempt(completion="b c", reward=0.0, problem=PROBLEM, **more):
    return Request(problem, count=2), toy_trajectory([2], reward=reward, name=f"t/{completion}", **more).but(problem=problem, completion=completion)


def texts(feedback, *attempts, speak=lambda ask: "no", task=TOY):
    world, policy = scripted_world(task, speak)
    world.players["critic"] = world.players["policy"]
    return asyncio.run(feedback.texts(attempts, world)), policy


def test_a_form_is_filled():
    form = "{attempt}|{verdict}|{answer}|{unmet}|{other}"
    (wrong, right), _ = texts(Told(form, right="good", wrong="bad"), attempt("{verdict}"), attempt("x", 1.0))
    assert wrong == "{verdict}|bad|b|verified|{other}"  # braces in an answer stay
    assert right == "x|good|b||{other}"


def test_unmet_criteria_are_the_numbers_that_are_0():
    _, t = attempt()
    t = t.but(components=Frozen(form=0.0, verified=1.0), extra=Frozen({"is short": 0, "names the cause": 2, "note": "0", "sure": False}))
    assert unmet(t) == ["form", "is short"]


def test_a_problem_without_an_answer():
    bare = replace(PROBLEM, answer=None)
    assert texts(Told("{attempt}"), attempt(problem=bare))[0] == ["b c"]
    with pytest.raises(UserError, match="has no answer that the prompt can show"):
        texts(Told(), attempt(problem=bare))


def test_a_written_critique_reads_the_form_alone_and_is_not_trained():
    asked = []

    def speak(ask):
        asked.append((ask.request.prompt, ask.request.trained, ask.request.player))
        return f"c{len(asked)}"

    critic = WrittenCritique(form="{problem}/{attempt}/{answer}/{verdict}")
    found, _ = texts(Criticised(critic, "{attempt} {critique}"), attempt("x"), attempt("b", 1.0), speak=speak)
    assert found == ["x c1", "b c2"]
    assert asked == [("a/x/b/wrong", False, "critic"), ("a/b/b/right", False, "critic")]
    assert texts(Criticised(critic))[0] == []


@pytest.mark.parametrize(
    ("said", "reward", "critique"),
    [
        ("7+5=12 4+8=11", 0.0, "step 2 is wrong: 4+8=11"),
        ("7+5=11", 0.0, "step 1 is wrong: 7+5=11"),
        ("7+5=12", 0.0, "no step is wrong"),  # the beginning of the solution
        ("x", 1.0, "no step is wrong"),
    ],
)
def test_the_first_wrong_step(said, reward, critique):
    problem = Problem("p", "toy", text="a", answer="b", meta=Frozen(solution="7+5=12 4+8+1=13 =632"))
    assert texts(Criticised(FirstWrongStep(), "{critique}"), attempt(said, reward, problem))[0] == [critique]


def test_what_is_refused():
    assert first_difference(["a"], ["a", "b"]) is None
    with pytest.raises(UserError, match=r"WrittenCritique\.form"):
        WrittenCritique(form="{problem}")
    with pytest.raises(UserError, match=r"Criticised\.form"):
        Criticised(form="{attempt}")
    with pytest.raises(UserError, match='has no "solution"'):
        texts(Criticised(FirstWrongStep()), attempt(problem=Problem("p", "toy", text="a", answer="b")))
