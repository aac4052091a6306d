"""Ranges of numbers: what lies in them, and what is said of the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from gradus.types import UserError
from gradus.types.ranges import check_ranges, within


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[0, 1]", [0, 0.5, 1, 1.0], [-1e-9, 1.000001, math.nan, math.inf]),
        ("[0, 1)", [0, 0.999], [1, -0.1]),
        ("(0, inf)", [1e-300, 10**30], [0, -0.0, math.inf, math.nan]),
        ("[1, inf)", [1, 7], [0, 0.99, math.inf]),
        ("(0, 1]", [1, 0.1], [0, 2, "1", True, None]),
    ],
)
def test_what_lies_in_an_interval(interval: str, inside: list[float], outside: list[float]) -> None:
    assert [within(n, interval) for n in inside] == [True] * len(inside)
    assert [within(n, interval) for n in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    ("value", "interval", "sentence"),
    [
        (0, "[1, inf)", "SimpleNamespace.count is 0; it must be 1 or more"),
        (0.0, "(0, inf)", "SimpleNamespace.count is 0.0; it must be above 0"),
        (math.inf, "[0, inf)", "SimpleNamespace.count is inf; it must be finite, and 0 or more"),
        (2, "[0, 1)", "SimpleNamespace.count is 2; it must lie in [0, 1)"),
        ((0.9, 1.0), "[0, 1)", r"SimpleNamespace.count is \(0.9, 1.0\); it must lie in [0, 1)"),
        ("many", "[0, inf)", "SimpleNamespace.count is many; it must be a number in [0, inf)"),
    ],
)
def test_what_is_said_of_the_rest(value: object, interval: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        check_ranges(SimpleNamespace(count=value), count=interval)
    assert str(caught.value) == sentence.replace("\\", "")


def test_none_and_numbers_in_range_pass() -> None:
    check_ranges(SimpleNamespace(a=None, b=(0.9, 0.999), c=3), a="(0, inf)", b="[0, 1)", c="[3, 3]")


@dataclass(frozen=True)
class Counted:
    count: int = 1
    most: int | None = None
    share: float = 1.0


def test_a_field_of_whole_numbers_takes_no_fraction() -> None:
    check_ranges(Counted(2, 3, 0.5), count="[1, inf)", most="[1, inf)", share="[0, 1]")
    check_ranges(Counted(2, None, 1), count="[1, inf)", most="[1, inf)", share="[0, 1]")
    for part, name in ((Counted(count=8 / 3), "count is 2.66"), (Counted(most=2.0), "most is 2.0")):  # type: ignore[arg-type]
        with pytest.raises(UserError, match=rf"Counted\.{name}.*; it must be a whole number, such as 2"):
            check_ranges(part, count="[1, inf)", most="[1, inf)", share="[0, 1]")
