"""Candidates and hidden items of every level."""

from __future__ import annotations

import pytest

from gradus.tasks.games.questions_environment import table
from gradus.tasks.games.twenty_questions import LEVELS, twenty_questions
from gradus.types import Key


@pytest.mark.parametrize("level", LEVELS)
def test_candidates(level: int) -> None:
    task = twenty_questions(level)
    problems = task.source.draw(range(1000), level, Key(0))
    for problem in problems:
        candidates = problem.meta["candidates"]
        assert len(set(candidates)) == LEVELS[level][0]
        assert problem.answer in candidates
        assert problem.question.endswith("\n" + " ".join(candidates))
    assert {p.answer for p in problems} == set(list(table())[:: LEVELS[level][1]])  # every thing of the level is hidden at some time
    assert task.chance == 1 / LEVELS[level][0]


def test_the_place_in_the_list_tells_nothing() -> None:
    places = [p.meta["candidates"].index(p.answer) for p in twenty_questions(1).source.draw(range(2000), 1, Key(0))]
    assert all(abs(places.count(i) - 500) < 78 for i in range(4))  # four standard deviations of 2000 draws with chance 1/4
