"""Readers that take the place of `eval` and of SymPy's parser in the scorers of reasoning-gym."""

from __future__ import annotations

import sys

import pytest
import sympy

from gradus.tasks.packages import plain_reading
from gradus.tasks.packages.plain_reading import arithmetic, expression, integer, literal

HOSTILE = (
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "open('/etc/passwd').read()",
    "(lambda: 1)()",
    "[x for x in (1, 2)]",
    "'a' * 3",
    "x.y",
    "f(x)",
    "sin(x, y)",
    "9**9**9**9",
    "(9**99)**(99**9)",
    "2**-99999",
    "1 if 1 else 2",
    "x := 3",
    "True",
    "1j",
    "1 << 99999999",
    "(" * 5000,
    "1+" * 5000 + "1",
    "1+" * 50_000 + "1",
    "",
    "\0",
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("reader", [integer, arithmetic, expression])
def test_other_texts_are_refused(reader, text):
    with pytest.raises(ValueError, match=r"not read|not an expression|null|exceed"):
        reader(text)


@pytest.mark.parametrize("text", [t for t in HOSTILE if t not in ("True", "1j")])
def test_a_literal_is_no_expression(text):
    with pytest.raises(ValueError, match=r"."):
        literal(text)


def test_literals_are_values():
    assert literal("[[1, 2], ['a', -3.5]]") == [[1, 2], ["a", -3.5]]


def test_integers_by_hand():
    assert integer("((0x10 + 0x02) << 1) - (0x8 >> 2)") == 34  # (16 + 2) * 2 - 2
    assert integer("6 & 3 | 8 ^ 1") == 11  # 2 | 9


@pytest.mark.parametrize("text", ["60 - 7 * 89 + 61/3", "(2 + 3)*4**2", "0.5 + 1/4", "-(3 - 5)", "2**-1", "7/2/2"])
def test_numbers_are_those_of_sympy(text):
    assert arithmetic(text) == sympy.parse_expr(text)


@pytest.mark.parametrize(
    "text",
    ["3*x**2 - 4*x + 1", "x**3/3 + C", "exp(2*x)*sin(x)/5 - sqrt(x)", "log(x + 1) + 2*x**(3/2)", "pi*x + E", "-12*y**5 + 7*y*z", "2**x"],
)
def test_expressions_are_those_of_sympy(text):
    x = sympy.Symbol("x")
    assert expression(text, {"x": x, "C": sympy.Symbol("C")}) == sympy.parse_expr(text, local_dict={"x": x, "C": sympy.Symbol("C")})


def test_no_code_runs():
    """An audit hook cannot be removed, so it listens only while the texts are read."""
    heard: list[str] = []
    listening = True
    sys.addaudithook(lambda event, arguments: heard.append(event) if listening and event in ("exec", "open", "os.system") else None)
    for text in ("3*x + 1", "[1, 2]", "x**2/2"):
        expression(text) if "x" in text else literal(text)
    listening = False
    assert not heard


def test_the_package_reads_plainly():
    pytest.importorskip("reasoning_gym")
    plain_reading.read_plainly()
    part = plain_reading.imported_part
    assert part("algorithmic.spiral_matrix").eval is literal
    assert part("games.countdown").parse_expr is arithmetic
    assert part("algebra.simple_integration").sympy.parse_expr is expression
    assert part("algebra.simple_integration").sympy.diff is sympy.diff
    assert sympy.parse_expr("1+1") == 2  # SymPy itself is as before
