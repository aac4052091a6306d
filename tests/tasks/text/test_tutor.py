"""The task tutor: calculations, students, demonstrations of both kinds, and the contract of tasks."""

from __future__ import annotations

import pytest

from gradus.environments.tutoring import OPERATIONS, results
from gradus.tasks.text.tutor import tutor
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_problems_of_a_level(level: int) -> None:
    for p in tutor().source.draw(range(60), level, Key(level)):
        start, steps, knows = p.meta["start"], p.meta["steps"], p.meta["knows"]
        values = results(start, steps)
        assert len(steps) == level + 1 == len(knows)
        assert not all(knows)
        assert p.answer == values[-1]
        assert p.question.endswith(f" = {p.answer}")
        assert str(p.answer) not in p.meta["question"].split()
        assert p.answer not in values[:-1]
        said = [action for _, action in p.meta["demonstration"]]
        hints = [f"try {OPERATIONS[word]}" for (word, _), known in zip(steps, knows, strict=True) if not known]
        assert said == [*hints, "<end>"]


def test_demonstrations_without_skill() -> None:
    problems = tutor(skill=0).source.draw(range(120), 1, Key(0))
    said = [[action for _, action in p.meta["demonstration"]] for p in problems]
    leaks = sum(any(action == f"it is {p.answer}" for action in one) for p, one in zip(problems, said, strict=True))
    assert 30 < leaks < 90
    assert {action.split()[0] for one in said for action in one} == {"try", "it", "go", "<end>"}
    assert not any("it is" in action for p in tutor(skill=0).held_out.draw(range(20), 1, Key(0)) for _, action in p.meta["demonstration"])
    with pytest.raises(UserError, match="skill"):
        tutor(skill=2)


def test_the_student_solves_some_problems_without_help() -> None:
    task = tutor()
    shares = [task.environment.student(p).share(40, Key(1)) for p in task.source.draw(range(60), 1, Key(0))]
    assert 0.1 < sum(shares) / 60 < 0.3


def test_the_contract() -> None:
    check_task(tutor(), effort=Effort(problems=8, texts=40), strict=True)
    held = {p.id[-6:] for p in tutor().held_out.draw(range(60), 1, Key(0))}
    assert not held & {p.id[-6:] for p in tutor().source.draw(range(200), 1, Key(0))}
