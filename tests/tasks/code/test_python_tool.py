from __future__ import annotations

import asyncio

import pytest

from gradus.tasks.code.python_tool import EASY, QUESTIONS, SLIP, make, python_tool, with_python
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.types import Key, UserError
from tests.sandbox.isolated import isolated


def test_answers_by_hand():
    value = {name: question.value for name, question in QUESTIONS.items()}
    assert value["digits"](2, 10) == 7  # 1024
    assert value["primes"](20, 2) == 8  # 2 3 5 7 11 13 17 19
    assert value["multiples"](10, 3) == 18  # 3 6 9
    assert value["squares"](3, 2) == 14
    assert value["divisors"](6, 2) == 6  # 1 2 3 4 6 12
    assert value["power"](10, 2) == 1024
    assert value["binary"](3, 2) == 2  # 1001
    assert value["fibonacci"](10, 2) == 55
    assert value["collatz"](6, 2) == 8  # 3 10 5 16 8 4 2 1
    assert value["letters"](12, 1) == 5  # 1 10 11 11 12


def test_the_code_computes_the_answer():
    """The code is our own text, and is run here; what models write never is."""
    for level in range(1, 5):
        for seed in range(60):
            draft = make(Key(seed).random(), level)
            code = dict(draft.meta["demonstration"])[""].removeprefix("python: ")
            *statements, last = code.split("; ") if "exec(" not in code else ["x, y = 0, 1", *code.split("; ")[1:]]
            names: dict[str, object] = {}
            for statement in statements:
                exec(statement, names)
            assert str(eval(last, names)) == draft.answer, draft.question


@isolated
def test_any_task_with_a_verifier_can_have_the_tool():
    task = with_python(arithmetic(), limit=2)
    (problem,) = task.source.draw([0], None, Key(0))
    assert task.verify is None
    assert task.environment is not None

    async def play() -> list[object]:
        episode = task.environment.start(problem, Key(0), None)  # type: ignore[union-attr, arg-type]
        first = await episode.step("python: 20 + 22")
        return [first.observation, (await episode.step("answer: " + problem.meta["solution"])).reward]

    assert asyncio.run(play()) == ["42", 1.0]


def test_what_cannot_have_it():
    with pytest.raises(UserError, match="task frozen_lake has its own environment"):
        with_python(frozen_lake())
    with pytest.raises(UserError, match='unknown isolation "none"'):
        python_tool(isolation="none")


def test_easy_questions_by_hand():
    value = {name: question.value for name, question in EASY.items()}
    assert [value[name](307, 2) for name in ("first", "last", "length", "odd")] == [3, 7, 3, 1]
    for name, question in EASY.items():
        assert str(eval(question.code.format(a=307, b=2))) == str(value[name](307, 2)), name


def test_slips_and_easy_questions_are_shares():
    drafts = [make(Key(seed).random(), 1, slips=0.5, words=0.5) for seed in range(200)]
    easy = [d for d in drafts if d.meta["needs"] == "words"]
    slipped = [d for d in drafts if len(d.meta["demonstration"]) == 3]
    assert 70 < len(easy) < 130
    assert all(d.meta["demonstration"] == [("", f"answer: {d.answer}")] for d in easy)
    assert 30 < len(slipped) < 70
    for d in slipped:
        (_, wrong), (seen, right), (told, answer) = d.meta["demonstration"]
        assert (wrong, seen, told, answer) == (right + ")", SLIP, d.answer, f"answer: {d.answer}")
    assert "needs" not in make(Key(0).random(), 1).meta
    with pytest.raises(UserError, match="slips is 2"):
        python_tool(slips=2)
