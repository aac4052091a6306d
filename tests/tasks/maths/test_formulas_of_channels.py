"""Formulas as text: what is read, which formulas are equal, and how many terms are hidden."""

from __future__ import annotations

import random

import pytest

from gradus.tasks.maths.formulas_of_channels import equivalent, masked, parsed, plain, value


@pytest.mark.parametrize(
    ("said", "due", "same"),
    [
        ("B*ln((N+S)/N)/ln(2)", "B*log2(1+S/N)", True),
        ("B*log(1+S/N)", "B*log2(1+S/N)", False),
        (r"B \cdot \log_{2}\left(1+\frac{S}{N}\right)", "B*log2(1+S/N)", True),
        ("20*log10(d)+20*log10(f)", "20*log10(d*f)", True),
        ("d^2", "d*d", True),
        ("d**2.0001", "d*d", False),
        ("a-b", "b-a", False),
        ("a/(b-b)", "a", False),  # undefined
        ("c", "a", False),  # an unknown name
    ],
)
def test_equal_formulas(said: str, due: str, same: bool) -> None:
    assert equivalent(said, due) is same


@pytest.mark.parametrize("text", ["", "a(b)", "__import__('os')", "a.b", "a if b else c", "log(a, 2)", "[1]", "a=b", "ａ", "log", "(" * 199, "1" * 300])
def test_other_texts_are_not_read(text: str) -> None:
    assert parsed(text) is None


def test_values_by_hand() -> None:
    tree = parsed("-sqrt(a)+2*b")
    assert tree is not None
    assert value(tree, {"a": 9.0, "b": 4.0}) == 5.0
    assert plain(r"\frac{\frac{a}{b}}{c}") == "((((a)/(b)))/(c))"


def test_half_of_six_terms_are_three() -> None:
    terms = ["T", "+G", "+H", "-L", "-F", "-M"]
    for seed in range(20):
        shown, hidden = masked(terms, 0.5, random.Random(seed))
        assert (len(hidden), shown.count("?")) == (3, 3)
        assert "".join(terms[i] if text == "?" else text for i, text in enumerate(shown)) == "T+G+H-L-F-M"
    assert [len(masked(terms, share, random.Random(0))[1]) for share in (0.0, 0.25, 0.75)] == [1, 2, 4]
