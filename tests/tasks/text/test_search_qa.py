"""Questions of one to three hops: read again by a parser of their own, their answers hold."""

from __future__ import annotations

import pytest

from gradus.tasks.text.search_environment import corpus
from gradus.tasks.text.search_qa import search_qa
from gradus.tools.search import found
from gradus.types import Key


@pytest.mark.parametrize("level", [1, 2, 3])
def test_questions_and_answers(level: int) -> None:
    world = corpus(0, 800)
    for problem in search_qa(level).source.draw(range(100), level, Key(0)):
        question = problem.meta["question"]
        *relations, entity = question.removeprefix("What is the ").removesuffix("?").replace(" of the ", " of ").split(" of ")
        assert len(relations) == level
        answer = entity
        for relation in reversed(relations):  # the innermost first
            answer = world.facts[answer][relation]
        assert problem.answer == answer != entity
        assert problem.question.split("\n")[1] == question
        assert len(problem.meta["demonstration"]) == level + 1  # a search a hop, and the answer


def test_task_and_environment_share_their_corpus() -> None:
    task = search_qa(seed=3, people=40)
    (problem,) = task.source.draw([0], 2, Key(0))
    names = {name for names in corpus(3, 40).entities.values() for name in names}
    assert problem.answer in names
    assert task.environment is not None
    assert (task.environment.seed, task.environment.people) == (3, 40)  # type: ignore[attr-defined]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_sums_with_an_age(level: int) -> None:
    task = search_qa(level, people=40, calculator=True)
    world = corpus(0, 40, True)
    for problem in task.source.draw(range(30), level, Key(0)):
        asked, more = problem.meta["question"].removeprefix("What is the ").removesuffix("?").split(" plus ")
        *relations, entity = asked.replace(" of the ", " of ").split(" of ")
        assert len(relations) == level
        assert relations[0] == "age"
        for relation in reversed(relations):
            entity = world.facts[entity][relation]
        assert int(problem.answer) == int(entity) + int(more)
        assert len(problem.meta["demonstration"]) == level + 2  # a search a hop, the sum, and the answer
        assert "calculate: 2 + 3" in problem.question


@pytest.mark.parametrize("calculator", [False, True])
def test_the_evidence_of_each_hop_is_a_passage_that_its_queries_find(calculator: bool) -> None:
    task = search_qa(2, people=40, calculator=calculator)
    passages = task.passages()
    for problem in task.source.draw(range(20), 2, Key(0)):
        assert len(problem.meta["evidence"]) == len(problem.meta["queries"]) == 2
        for text, queries in zip(problem.meta["evidence"], problem.meta["queries"], strict=True):
            for query in queries:
                assert text in [passages[i] for i in found(passages, query, 3)]
        if not calculator:
            assert problem.answer in problem.meta["evidence"][-1]
