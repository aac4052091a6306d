import pytest

from gradus.tasks.maths.mathematics.regions import pieces, same_region
from gradus.tasks.maths.mathematics.syntax import read
from gradus.tasks.maths.mathematics.values import Valueless


def spans(latex):
    return [("(["[p.low_in], p.low, p.high, ")]"[p.high_in]) for p in pieces(read(latex))]


INF = float("inf")


@pytest.mark.parametrize(
    ("latex", "found"),
    [
        (r"[1,2)\cup[2,3]", [("[", 1, 3, "]")]),
        (r"[1,2)\cup(2,3]", [("[", 1, 2, ")"), ("(", 2, 3, "]")]),
        (r"[1,2)\cup(2,3]\cup\{2\}", [("[", 1, 3, "]")]),
        (r"[1,2]\cap[2,3]", [("[", 2, 2, "]")]),
        (r"(1,2)\cap(2,3)", []),
        (r"\mathbb{R}\setminus\{0\}", [("(", -INF, 0, ")"), ("(", 0, INF, ")")]),
        (r"[0,5]\setminus[1,2)", [("[", 0, 1, ")"), ("[", 2, 5, "]")]),
        (r"(2,1)\cup\{\frac{1}{2}\}", [("[", 0.5, 0.5, "]")]),
    ],
)
def test_pieces(latex, found):
    assert spans(latex) == found


def test_ends_are_compared_as_numbers():
    assert same_region(read(r"[0,\sqrt{8}]\cup\{9\}"), read(r"\{9\}\cup[0,2\sqrt2]"))
    assert same_region(read(r"[0,\frac13]\cup\{9\}"), read(r"[0,0.333333]\cup\{9\}"))
    assert not same_region(read(r"[0,1]\cup\{9\}"), read(r"[0,1)\cup\{9\}"))


def test_variables_make_no_region():
    with pytest.raises(Valueless):
        pieces(read(r"(a,b)\cup(c,d)"))
