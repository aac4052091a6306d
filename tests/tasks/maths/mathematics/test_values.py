import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.tasks.maths.mathematics.syntax import read
from gradus.tasks.maths.mathematics.terms import number
from gradus.tasks.maths.mathematics.values import (
    PRIME,
    ROOT_OF_MINUS_ONE,
    Valueless,
    approximate,
    exact,
    exact_root,
    names,
    polynomial,
    power,
    residue,
)


@pytest.mark.parametrize(
    ("latex", "value"),
    [
        (r"\frac{1}{2}+\frac13", Fraction(5, 6)),
        ("2^{-3}", Fraction(1, 8)),
        (r"\sqrt{\frac{9}{4}}", Fraction(3, 2)),
        (r"\sqrt[3]{27}", Fraction(3)),
        ("4^{1.5}", Fraction(8)),  # (4^(1/2))^3
        (r"12.5\%", Fraction(1, 8)),
        (r"\frac{5!}{3!}", Fraction(20)),
        (r"\log_4 8", Fraction(3, 2)),  # 4^(3/2) = 8
        (r"\gcd(12,18)", Fraction(6)),
        (r"|-3|", Fraction(3)),
    ],
)
def test_exact_values(latex, value):
    assert exact(read(latex)) == value


@pytest.mark.parametrize("latex", [r"\sqrt{2}", r"\sqrt{-4}", "9^{99999}", "200!", "0^{-1}", "x", r"\log_2 3", r"\frac{1}{0}", r"\infty"])
def test_what_has_no_exact_value(latex):
    with pytest.raises(Valueless):
        exact(read(latex))


@given(st.integers(1, 10**30), st.integers(2, 7))
def test_roots_undo_powers(n, degree):
    assert exact_root(Fraction(n**degree, 2**degree), degree) == Fraction(n, 2)
    with pytest.raises(Valueless):
        exact_root(Fraction(n**degree + 1), degree)


def test_powers_of_one_have_any_exponent():
    assert power(Fraction(-1), Fraction(10**30 + 1)) == -1
    assert power(Fraction(1), Fraction(-(10**30))) == 1


def test_residues_tell_polynomials_apart_and_know_the_imaginary_unit():
    assert pow(ROOT_OF_MINUS_ONE, 2, PRIME) == PRIME - 1
    assert residue(read("(x+y)(x-y)"), 1) == residue(read("x^2-y^2"), 1)
    assert residue(read("(x+y)(x-y)"), 1) != residue(read("x^2-y^2+0.000001"), 1)
    assert residue(read("(1+i)^2"), 1) == residue(read("2i"), 1)
    assert residue(read(r"\frac{x}{2}"), 1) * 2 % PRIME == residue(read("x"), 1)
    assert residue(read(r"f(x)+f(x)"), 1) == residue(read("2f(x)"), 1)
    assert residue(read("x"), 1) != residue(read("x"), 2)


def test_approximate_values():
    assert approximate(read(r"\sin\frac{\pi}{6}"), {}) == pytest.approx(0.5)
    assert approximate(read("x^{0.5}"), {"x": 9.0}) == pytest.approx(3)
    assert approximate(read(r"\binom{n}{2}"), {"n": 2.5}) == pytest.approx(2.5 * 1.5 / 2)
    assert approximate(read(r"e^{i\pi}"), {}) == pytest.approx(-1)
    assert approximate(read(r"\log_2 10"), {}) == pytest.approx(math.log2(10))
    for latex in (r"\frac{1}{0}", "10^{400}", r"e^{1000}", r"\infty", r"\ln 0"):
        with pytest.raises(Valueless):
            approximate(read(latex), {})


def test_names_and_polynomials():
    assert names(read(r"x_1+\pi e i \alpha")) == {"x_1", "alpha"}
    assert polynomial(read(r"\frac{x+\pi}{y^2}"))
    assert not polynomial(read(r"\sqrt{x}"))
    assert not polynomial(read("x^n"))
    assert number(3).parts == (Fraction(3), False)
