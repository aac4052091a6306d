import pytest

from gradus.tasks.maths.mathematics.notation import clean, tokens
from gradus.tasks.maths.mathematics.terms import Unreadable


@pytest.mark.parametrize(
    ("latex", "cleaned"),
    [
        (r"5\text{ cm}^2", "5"),
        (r"5\mathrm{~cm}^{2}", "5"),
        (r"\text{Area} = 5", r"\text{Area} = 5"),  # words before the mathematics stay
        ("5 km", "5"),
        ("2m", "2"),
        ("x^2 c", "x^2"),
        ("ab", "ab"),
        ("y=mx+c", "y=mx+c"),
        (r"1,234,567", "1234567"),
        ("-1,234.5", "-1234.5"),
        ("1,23", "1,23"),
        ("(1,200)", "(1,200)"),
        (r"1{,}000", "1000"),
        (r"1 \text{ and } 2", "1,2"),
        (r"x=1, \text{ or } x=2", "x=1,x=2"),
        (r"\left[ 1,\;2 \right)", "[ 1, 2 )"),
        (r"\dfrac{1}{2}.", r"\frac{1}{2}"),
        (r"30^{\circ}", "30"),
        ("−3", "-3"),
        (r"\alpha", r"\alpha"),
        (r"a\\b", r"a\\b"),
    ],
)
def test_one_spelling(latex, cleaned):
    assert " ".join(clean(latex).split()) == cleaned


def test_tokens():
    assert tokens(r"\frac{10.5}2x_1\\\text{a b}") == ["\\frac", "{", "10.5", "}", "2", "x", "_", "1", "\\\\", "\\text{a b}"]


def test_limits():
    with pytest.raises(Unreadable):
        clean("1" * 2001)
    with pytest.raises(Unreadable):
        tokens("x" * 801)
