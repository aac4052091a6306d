from fractions import Fraction

import pytest

from gradus.tasks.maths.mathematics.syntax import read
from gradus.tasks.maths.mathematics.terms import INFINITY, PI, Term, Unreadable, call, inverse, negative, number, symbol

X, TWO = symbol("x"), number(2)


@pytest.mark.parametrize(
    ("latex", "term"),
    [
        ("2x", Term("*", (TWO, X))),
        ("1/2x", Term("*", (number(1), inverse(Term("*", (TWO, X)))))),  # side by side binds more tightly than a slash
        ("-2^2", negative(Term("^", (TWO, TWO)))),
        ("--2", TWO),
        (r"\frac12", Term("*", (number(1), inverse(TWO)))),
        (r"1\frac12", number(Fraction(3, 2))),
        (r"x\frac12", Term("*", (X, Term("*", (number(1), inverse(TWO)))))),
        (r"\pm 2", Term("set", (TWO, number(-2)))),
        ("f(x)", call("f()", X)),
        ("x(x+2)", Term("*", (X, Term("+", (X, TWO))))),
        ("X_{12}", symbol("x_12")),
        (r"\sin 2x", call("sin", Term("*", (TWO, X)))),
        (r"\sin^{-1} x", call("arcsin", X)),
        (r"\log x", call("log", X, number(10))),
        ("|x|", call("abs", X)),
        ("2|x|", Term("*", (TWO, call("abs", X)))),
        ("(x,2]", Term("interval", ("(", X, TWO, "]"))),
        ("(x,2,x)", Term("tuple", (X, TWO, X))),
        (r"(-\infty,\pi)", Term("interval", ("(", negative(INFINITY), PI, ")"))),
        (r"\{x\}", Term("set", (X,))),
        ("x=2=y", Term("relation", ("=", X, symbol("y")))),
        ("x=1, 2", Term("relation", ("=", X, Term("set", (number(1), TWO))))),
        (r"x \approx 2", TWO),
        ("101_2", number(101)),
        (r"\text{(A)}", symbol("a")),
        (r"\begin{pmatrix}x\\2\end{pmatrix}", Term("matrix", ((X,), (TWO,)))),
    ],
)
def test_terms(latex, term):
    assert read(latex) == term


@pytest.mark.parametrize(
    "latex",
    [
        "",
        "1+",
        "(1",
        "1)",
        r"\frac{1}",
        "2^",
        r"\foo",
        "[1",
        r"\{1)",
        "&",
        r"\begin{pmatrix}1&2\\3\end{pmatrix}",
        "(" * 50 + "1" + ")" * 50,
        "1+" * 1000 + "1",
    ],
)
def test_what_cannot_be_read(latex):
    with pytest.raises(Unreadable):
        read(latex)


def test_decimals_are_remembered():
    assert read("0.50").parts == (Fraction(1, 2), True)
    assert read("5.").parts == (Fraction(5), False)
