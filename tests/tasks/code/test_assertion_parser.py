"""What of a text can be told to a program, and what must come of it, by hand."""

from __future__ import annotations

import ast
import math
from fractions import Fraction

import pytest

from gradus.sandbox.calls import Raised
from gradus.tasks.code.assertion_parser import Test, claimed, right


def taken(*texts: str) -> list[Test]:
    return claimed([(text, ast.parse(text).body) for text in texts])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("assert f(2) == 4", [Test("f(2)", 4)]),
        ("assert [4] == f(2), 'said'", [Test("f(2)", [4])]),
        ("assert sorted(f(2)) == [1, 3]", [Test("sorted(f(2))", [1, 3])]),
        ("assert f(2)[-1] == 'a'", [Test("f(2)[-1]", "a")]),
        ("assert Stack().pop() is None", [Test("Stack().pop()", None)]),
        ("assert (f(1), f(2)) == (1, 2)", [Test("(f(1), f(2))", (1, 2))]),
        ("assert f(1) == 1 and not f(2)", [Test("f(1)", 1), Test("bool(f(2))", False)]),
        ("assert abs(f(2) - 0.5) < 1e-6", [Test("f(2)", 0.5, within=(0.0, 1e-6), strict=True)]),
        ("assert abs(0.5 - f(2)) <= 1", [Test("f(2)", 0.5, within=(0.0, 1.0))]),
        ("import math\nassert math.isclose(f(2), 4)", [Test("f(2)", 4, within=(1e-9, 0.0))]),
        ("from math import isclose\nassert isclose(4, f(2), rel_tol=0.1, abs_tol=2)", [Test("f(2)", 4, within=(0.1, 2.0))]),
        (
            "META = {'by': 'me'}\n\ndef check(candidate):\n    '''Both.'''\n    assert True, 'so'\n    assert candidate(1, k=[2]) == 3\n"
            "    assert candidate(2) == 4\n\ncheck(f)",
            [Test("f(1, k=[2])", 3), Test("f(2)", 4)],
        ),
    ],
)
def test_what_is_taken_apart(text, expected):
    assert taken(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "assert f(2) == g(3)",
        "assert f(x) == 1",
        "assert a.f(2) == 1",
        "assert f(1) < 2",
        "assert f(1) != 2",
        "assert f(1) == 1 or f(2) == 2",
        "assert f(1) == 1 == f(2)",
        "assert any([f(1) == 1])",  # the program would be told what is right
        "assert f(f(1) == 1) == 2",
        "assert isinstance(f(1), int)",
        "assert f(lambda x: x) == 1",
        "assert f(*[1]) == 1",
        "assert abs(f(2) - g(3)) < 1",
        "assert math.isclose(f(2), g(2))",
        "assert math.isclose(f(2), 4, rel_tol=TINY)",
        "for i in range(3): assert f(i) == i",
        "x = f(1)\nassert x == 2",
        "assert True",
        "def check(c, n=1):\n    assert c(2) == 3\ncheck(f)",
        "def check(c):\n    f = c\n    assert f(2) == 3\ncheck(f)",
        "def check(c):\n    for i in range(3): assert c(i) == i\ncheck(f)",
        "def half(x): return x / 2\nassert half(f(2)) == 1",
        "class C: pass\nassert f(1) == 2",
    ],
)
def test_what_can_only_be_run(text):
    assert taken(text) == [Test(statement=text)]


def test_texts_of_one_problem_share_their_names():
    assert taken("def check(c): assert c(2) == 3", "check(f)") == [Test("f(2)", 3)]
    texts = ("from math import floor\nassert f(1) == 1", "assert floor(f(2)) == 4", "assert len(f(2)) == 4", "assert f(3) == 9")
    assert taken(*texts) == [*(Test(statement=text) for text in texts[:2]), Test("len(f(2))", 4), Test("f(3)", 9)]
    texts = (
        "import math\nassert math.isclose(f(2), 4)",
        "for i in range(3): assert f(i) == i",
        "def check(c):\n    assert c(1) == 1\ncheck(f)",
    )
    assert taken(*texts) == [Test("f(2)", 4, within=(1e-9, 0.0)), Test(statement=texts[1]), Test("f(1)", 1)]
    texts = ("def g(x): return x", "assert g(2) == 2", "assert f(1) < 2")
    assert taken(*texts) == [Test(statement=text) for text in texts]


@pytest.mark.parametrize(
    ("value", "test", "expected"),
    [
        (4, Test("f(2)", 4), True),
        (5, Test("f(2)", 4), False),
        (Raised("no"), Test("f(2)", None), False),
        (0.5 + 1e-7, Test("f(2)", 0.5, within=(0.0, 1e-6)), True),
        (0.5 + 1e-5, Test("f(2)", 0.5, within=(0.0, 1e-6)), False),
        (4, Test("f(2)", 3, within=(0.0, 1.0)), True),
        (4, Test("f(2)", 3, within=(0.0, 1.0), strict=True), False),
        (3.5, Test("f(2)", 3, within=(0.0, 1.0), strict=True), True),
        (math.inf, Test("f(2)", 3, within=(0.0, 1.0), strict=True), False),
        (101.0, Test("f(2)", 100, within=(0.01, 0.0)), True),
        (102.1, Test("f(2)", 100, within=(0.01, 0.0)), False),
        ("0.5", Test("f(2)", 0.5, within=(0.0, 1.0)), False),
        (math.nan, Test("f(2)", 0.5, within=(0.0, 1.0)), False),
        (math.inf, Test("f(2)", 0.5, within=(1.0, 1.0)), False),
        (10**400, Test("f(2)", 0.5, within=(0.0, 1.0)), False),
        (True, Test("f(2)", 1, within=(0.0, 1e-6)), False),
        (Fraction(1, 3), Test("f(2)", 0.333333, within=(0.0, 1e-5)), True),
        (Fraction(10**400), Test("f(2)", 0.5, within=(0.0, 1e-5)), False),
        (2 + 0j, Test("f(2)", 2, within=(0.0, 1e-6)), False),
        ({True}, Test("f(2)", {1}), False),
    ],
)
def test_what_is_right(value, test, expected):
    assert right(value, test) is expected
