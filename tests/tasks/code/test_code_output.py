"""The task of program output: outputs, errors, restored lines, variation, and the contract."""

from __future__ import annotations

import random

import pytest

from gradus.environments.mini_python import run
from gradus.tasks.code.code_output import augmented, code_output, snippet, verify
from gradus.types import Frozen, Key, Problem, UserError
from tests.tasks.contract import check_contract


def test_contract():
    check_contract(code_output(), draws=40, hints=False)


def test_programs_have_their_outputs_and_a_few_have_errors():
    drawn = code_output().source.draw(range(400), 3, Key(0))
    forward = [p for p in drawn if not p.meta["backward"]]
    assert 0.7 <= len(forward) / 400 <= 0.85
    for p in forward:
        ran = run(p.question.replace("|", "\n"))
        assert (ran.stdout, ran.stderr) == (p.meta["stdout"], p.meta["stderr"])
        assert 5 <= len(p.question.split("|")) <= 8
    errors = {p.meta["stderr"] for p in drawn}
    assert errors >= {"", "IndexError", "ZeroDivisionError", "NameError", "TypeError", "ValueError"}
    assert 0.05 <= sum(p.meta["stderr"] != "" for p in drawn) / 400 <= 0.4


def test_a_different_line_with_the_same_output_is_right():
    meta = Frozen(code="a=3|_|print(b)", stdout="7\n", stderr="", backward=True)
    problem = Problem("p", "code_output", answer="#b=a+4", meta=meta)
    judged = {text: verify(problem, text) for text in ("#b=a+4", "so #b=7", "#b=2*a+1", "#b=6", "b=7", "#", "#b=1//0", "#import os", "#print(7)")}
    assert [text for text, verdict in judged.items() if verdict == 1.0] == ["#b=a+4", "so #b=7", "#b=2*a+1"]


def test_variation():
    code = "a=3+4\nif a<5: a=a//2"
    assert augmented(random.Random(0), code, 0.0) == code
    every = augmented(random.Random(0), code, 1.0)
    assert all(x != y for x, y in zip(every.replace("//", "%"), code.replace("//", "%"), strict=False) if y.isdigit() or y in "+<")
    changed = [augmented(random.Random(i), "1" * 100, 0.1).count("1") for i in range(50)]
    assert 85 <= sum(changed) / 50 <= 95
    assert len({tuple(snippet(random.Random(i), 2)) for i in range(50)}) > 45


def test_shares_outside_of_the_range_are_refused():
    with pytest.raises(UserError, match="`backward` is 2"):
        code_output(backward=2)
    assert not any(p.meta["backward"] for p in code_output(backward=0.0).source.draw(range(50), 1, Key(0)))
