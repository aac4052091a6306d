"""The task dates: the contract, and the four kinds by hand."""

from __future__ import annotations

import pytest

from gradus.tasks.text.dates import dates, month, verify
from gradus.types import Key, Problem, UserError
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(dates(), hints=False)
    check_read_back(dates())


def number(text: str) -> int:
    return int(text[:4]) * 12 + int(text[5:]) - 1


def test_the_parts_follow_from_the_prompt() -> None:
    assert month(number("1999-12") + 1) == "2000-01"
    for p in dates().source.draw(range(80), 3, Key(0)):
        words = p.question.split()
        gap = int(words[3].lstrip("abcdefghijklmnopqrstuvwxyz"))
        parts = p.meta["parts"]
        second = month(number(words[1]) + gap)
        if p.meta["category"] == "difference":
            assert parts == (words[1], second, str(abs(gap)))
        elif p.meta["category"] == "ordering":
            assert [number(parts[int(i) - 1]) for i in parts[3].split("-")] == sorted(map(number, parts[:3]))
        else:
            assert parts[0] == second
        if p.meta["category"] == "completion":
            assert int(parts[1]) == int(second[:4] if p.meta["hides"] == "year" else second[5:])


def test_the_verdict_and_the_kinds() -> None:
    problem = Problem("x", "dates", text="", answer="2003-05 7")
    assert [verify(problem, t) for t in ("<answer>2003-05  7</answer>", "=2003-05 7", "2003-05 7", "=2003-06 7")] == [1.0, 1.0, 0.0, 0.0]
    only = dates(kinds="inference").source.draw(range(20), None, Key(0))
    assert {p.meta["category"] for p in only} == {"inference"}
    with pytest.raises(UserError, match="inferense"):
        dates(kinds="inferense")
