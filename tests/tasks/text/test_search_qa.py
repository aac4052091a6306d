"""Questions of one to three hops: read again by a parser of their own, their answers hold."""

from __future__ import annotations

import pytest

from gradus.tasks.text.search_environment import corpus
from gradus.tasks.text.search_qa import search_qa
from gradus.tools.search import found
from gradus.types import Key, UserError


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


def test_known_facts_and_their_start_model() -> None:
    task, start = (search_qa(1, people=40, known=0.5, role=role) for role in ("all", "start"))
    problems = task.source.draw(range(200), 1, Key(0))
    marks = {p.meta["question"]: p.meta["known"] for p in [*problems, *task.held_out.draw(range(10), 1, Key(0))]}
    assert set(marks.values()) == {"yes", "no"}
    assert 0.35 < sum(mark == "yes" for mark in marks.values()) / len(marks) < 0.65
    shown = start.source.draw(range(1500), 1, Key(0))
    own = [p for p in shown if p.meta["question"] in marks]
    assert all(marks[p.meta["question"]] == "yes" for p in own)  # an unknown fact is never shown
    held = {p.meta["question"] for p in task.held_out.draw(range(10), 1, Key(0)) if p.meta["known"] == "yes"}
    assert held <= {p.meta["question"] for p in shown}  # a known fact of a held-out question is in the weights
    at_once = [len(p.meta["demonstration"]) == 1 for p in own]
    assert 0.5 < sum(at_once) / len(at_once) < 0.7
    other = [len(p.meta["demonstration"]) == 1 for p in shown if p.meta["question"] not in marks]
    assert 0.2 < sum(other) / len(other) < 0.45
    assert "known" not in search_qa(1, people=40).source.draw([0], 1, Key(0))[0].meta
    assert [p.meta["question"] for p in search_qa(1, people=40).source.draw(range(9), 1, Key(0))] == [p.meta["question"] for p in problems[:9]]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"known": 1.5}, "`known` is 1.5"), ({"role": "start"}, "needs `known` above 0"), ({"role": "x"}, '"x"'), ({"known": 0.5, "calculator": True}, "calculator")],
)
def test_wrong_options_of_known_facts(options, message) -> None:
    with pytest.raises(UserError, match=message):
        search_qa(1, **options)
