"""The task code_speed: counted costs by hand, all versions of a program agree, both forms, and the contract."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gradus.environments.mini_python import run
from gradus.environments.program_cost import INPUTS, Cost, before, cost
from gradus.tasks.code.code_speed import GOALS, VERSIONS, Faster, code_speed
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError
from tests.tasks.contract import HOSTILE, check_read_back, check_split


@pytest.mark.parametrize("form", ["program", "goal"])
def test_the_contract(form) -> None:
    task = code_speed(form=form)
    check_task(task, right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=10, texts=40), strict=True)
    check_split(task)
    check_read_back(task)


def test_costs_by_hand() -> None:
    # print, call of print's argument: 1 statement, 1 product, 2 operands
    assert run("print(n*2)", {"n": 3}).steps == 4
    # s=0: 2 steps; for: 1 + range and n 2; three times s+=i: 1 statement and 2 values; print(s): 2
    assert run("s=0\nfor i in range(n): s+=i\nprint(s)", {"n": 3}).steps == 2 + 3 + 3 * 3 + 2
    # print, sum, range, n; and one step for every two of the 9 entries that sum reads
    assert run("print(sum(range(n)))", {"n": 9}).steps == 4 + 4
    listed = run("l=[]\nfor i in range(n): l.append(i)\nprint(l)", {"n": 3})
    # entries after each statement: 0, then 1, 2, 3 within the loop, 3 after the loop, 3 after print
    assert (listed.peak, listed.area) == (3, 0 + 1 + 2 + 3 + 3 + 3)
    assert run("print(1)") == run("a=1\nprint(a)")  # the cost does not count for equality


@pytest.mark.parametrize("kind", VERSIONS)
def test_versions_agree_and_each_is_at_least_a_tenth_faster_than_the_one_before(kind) -> None:
    for a, b in ((2, 3), (7, 2), (30, 99), (99, 30)):
        texts = [text.format(a=a, b=b) for text in VERSIONS[kind]]
        outputs = [run(texts[-1], {"n": n}).stdout for n in INPUTS]
        costs = [cost(text, outputs) for text in texts]
        assert all(c.right for c in costs)
        assert all(x.time >= 1.1 * y.time for x, y in pairwise(costs))
        assert costs[0].memory == max(INPUTS)
        assert [c.memory for c in costs[1:]] == [0] * (len(costs) - 1)
        assert cost(texts[0], outputs) == costs[0]  # the same program has the same cost


def test_broken_and_wrong_programs() -> None:
    due = [f"{2 * n}\n" for n in INPUTS]
    assert cost("", due) == Cost(0.0, 0, 0, 0, broken=True)
    assert cost("import os", due).broken
    assert cost("x" * 401, due).broken
    assert cost("print(n*n)", due).passed == 0.0
    assert cost("print(n+1)", due) == Cost(1 / 6, 24, 0, 0)
    assert not cost("print(n//0)", due).broken
    assert cost("for i in range(2000): s=i\nprint(n*2)", due).passed == 0.0  # too many steps


def test_verdicts_and_forms() -> None:
    for level in (1, 3):
        for p in code_speed(level=level).source.draw(range(10), level, Key(1)):
            assert Faster()(p, p.meta["fast"]) == 1.0
            assert Faster()(p, p.question) == 0.0  # no faster
            assert Faster(factor=0.0)(p, p.question) == 1.0
            assert before(p) == cost(p.question, p.answer)
    goals, failed = set(), 0
    for p in code_speed(form="goal").source.draw(range(60), 2, Key(0)):
        says, state, program = p.question.split("\n", 2)
        old = before(p)
        assert says == p.meta["says"]
        assert state == f"{p.meta['goal']}: {'passed' if old.right else 'failed'} {old.time} {old.memory} {old.integral}"
        assert cost(program, p.answer) == old
        assert Faster(0.0, "goal")(p, f"<thinking>t</thinking><solution>{p.meta['fast']}</solution>") == 1.0
        assert Faster(0.0, "goal")(p, p.meta["fast"]) == 0.0
        goals.add(p.meta["goal"])
        failed += not old.right
    assert goals == set(GOALS)
    assert 5 <= failed <= 30


@pytest.mark.parametrize("options", [{"form": "x"}, {"factor": -1.0}])
def test_unknown_options_are_refused(options) -> None:
    with pytest.raises(UserError):
        code_speed(**options)
