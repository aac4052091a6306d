from __future__ import annotations

import pytest

from gradus.tasks.kinds import chosen, ending, hints, verify_exact
from gradus.types import Problem, UserError


def test_kinds_are_read_from_a_list() -> None:
    known = ("path", "cycle", "clique")
    assert chosen("graphs", "all", known) == known
    assert chosen("graphs", "cycle, path,cycle", known) == ("cycle", "path")


def test_a_kind_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r'unknown kind of graphs "cicle" \(did you mean cycle'):
        chosen("graphs", "cicle", ("path", "cycle"))
    with pytest.raises(UserError, match=r'`kinds` is " ,"; give "all", or one or more of path'):
        chosen("graphs", " ,", ("path",))


def test_the_ending_is_what_follows_the_last_equals_sign() -> None:
    assert ending("1+1=2 =ab c \n", 64) == "ab c"
    assert ending("no sign", 64) is None
    assert ending("=" + "x" * 64, 64) is None  # the sign lies before the characters that are read
    assert ending("=" + "x" * 63, 64) == "x" * 63


def test_exact_answers() -> None:
    p = Problem("x", "t", answer="ab c")
    assert [verify_exact(p, text) for text in ("=ab c", "a=b =ab c ", "ab c", "=ab  c", "=AB C", "=ab c=", "=ab c\u00a0")] == [
        1,
        1,
        0,
        0,
        0,
        0,
        0,
    ]


def test_hints_join_to_the_solution() -> None:
    for text in ("=x", "a=x", "a b=x", "a b c d e f g=x"):
        made = hints(("k",), ("p",), text)
        assert "".join(made["solution"]) == text
        assert len(made["solution"]) == min(4, text.count(" ") + 1)
        assert all(made["solution"])
