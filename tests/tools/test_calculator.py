from __future__ import annotations

from fractions import Fraction

import pytest

from gradus.tools.calculator import Calculator, value_of, written


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+3*4", "14"),
        ("(2 + 3) * 4", "20"),
        ("7 // 2 + 7 % 2", "4"),
        ("1/4", "0.25"),
        ("-2 ** 2", "-4"),
        ("2 ** -1", "0.5"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.333333333333"),
    ],
)
def test_values_by_hand(expression, value):
    assert Calculator().call(expression) == value


NONE = ["", "a", "2 +", "f(2)", "2 ** 99999", "9 ** 9 ** 9", "'x' * 9", "True", "1 if 2 else 3", "(" * 150, "1" * 300, "2 << 3", "1j"]


@pytest.mark.parametrize("expression", NONE)
def test_what_is_no_expression(expression):
    with pytest.raises(ValueError, match=r"expression|large|exponent"):
        value_of(expression)


def test_division_by_zero():
    with pytest.raises(ZeroDivisionError):
        value_of("1 / (2 - 2)")
    with pytest.raises(ZeroDivisionError):
        value_of("0 ** -1")
    assert written(Fraction(-3)) == "-3"
