"""The task checked: half of the shown answers are right, and the verdict follows from the shown answer."""

from __future__ import annotations

import pytest

from gradus.tasks.data.checked import checked
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError
from gradus.types.answers import same_answer


@pytest.mark.parametrize("of", ["arithmetic", "string_ops"])
def test_the_contract(of: str) -> None:
    check_task(checked(of), effort=Effort(problems=25), strict=True)


def test_half_of_the_answers_are_right() -> None:
    problems = checked(level=2).source.draw(range(600), None, Key(0))
    assert 0.45 < sum(p.answer == "yes" for p in problems) / 600 < 0.55
    for p in problems[:100]:
        *question, shown = p.question.removeprefix("check ").split(" ")
        worked = p.meta["solution"].rpartition("=")[0]
        assert same_answer(worked, shown) is (p.answer == "yes"), (question, shown, worked)
        ((asked, right),) = p.meta["questions"]  # an actor that refines the shown answer reads the problem and this answer
        assert asked == p.question.removeprefix("check ")
        assert same_answer(worked, right)


def test_a_text_gets_the_answer_to_another_problem() -> None:
    problems = checked("string_ops", level=2).source.draw(range(50), None, Key(1))
    wrong = [p for p in problems if p.answer == "no"]
    assert wrong
    assert all(p.question.split(" ")[-1] != p.meta["solution"].split("=")[-2] for p in wrong)


def test_the_split_is_that_of_the_problems() -> None:
    held = {p.question for p in arithmetic(1).held_out.draw(range(30), None, Key(0))}
    trained = {p.question.split(" ")[1] for p in checked(level=1).source.draw(range(300), None, Key(0))}
    asked = {p.question.split(" ")[1] for p in checked(level=1).held_out.draw(range(30), None, Key(0))}
    assert not held & trained
    assert not asked & {p.question for p in arithmetic(1).source.draw(range(300), None, Key(0))}
    with pytest.raises(UserError, match="must be generated"):
        checked("facts")
