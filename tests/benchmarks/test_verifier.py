"""The verifier of unit tests against hostile programs and wrong values. `python -m benchmarks.verifier` runs all and prints the table.

The ordinary tests run every third program that does not need its time limit, and a quarter of the values; the nightly ones run all.
"""

from __future__ import annotations

import pytest

from benchmarks.verifier import complaint, judged, of_values
from benchmarks.verifier_programs import RIGHT, SOLUTION, TESTS, WRONG, programs
from gradus.types import Failed
from tests.sandbox.isolated import isolated

pytestmark = pytest.mark.alone
SLOW = {"a bomb", "a child that answers", "a loop", "a sleep", "stopped", "wide", "a thread that stays", "disk without an end"}
HOSTILE = {f"{kind}: {name}": source for kind, named in programs().items() for name, source in named.items() if name not in SLOW}
KNOWN = ("objects: a complex number too large", "harness: other ends of lines", "kernel calls: mincore", "numbers: near, by a fraction")


def complaints(asked: dict[str, tuple[list[str], str]], expected: float) -> dict[str, str]:
    outcomes = judged(list(asked.values()))
    return {name: text for name, one in zip(asked, outcomes, strict=True) if (text := complaint(one, expected)) is not None}


def named(pairs: list[tuple[str, str]]) -> dict[str, tuple[list[str], str]]:
    return {f"{value} for {expected}": one for (expected, value), one in zip(pairs, of_values(pairs), strict=True)}


@isolated
def test_hostile_programs_earn_nothing_and_end_no_run():
    some = {name: HOSTILE[name] for name in dict.fromkeys((*KNOWN, *list(HOSTILE)[::3]))}
    assert complaints({name: (list(TESTS), source) for name, source in some.items()}, 0.0) == {}
    assert complaints({"the solution": (list(TESTS), SOLUTION)}, 1.0) == {}


@isolated
def test_values():
    assert complaints(named(WRONG[::4]), 0.0) == {}
    assert complaints(named(RIGHT[::2]), 1.0) == {}


@pytest.mark.nightly
@isolated
def test_all_hostile_programs_and_values():
    every = {f"{kind}: {name}": (list(TESTS), source) for kind, of_kind in programs().items() for name, source in of_kind.items()}
    assert complaints(every, 0.0) == {}
    assert complaints(named(WRONG), 0.0) == {}
    assert complaints(named(RIGHT), 1.0) == {}


def test_there_are_enough():
    assert len(HOSTILE) + len(SLOW) == sum(map(len, programs().values())) >= 100
    assert min(map(len, programs().values())) >= 8
    assert len(WRONG) >= 50
    assert len(set(WRONG)) == len(WRONG)


def test_a_complaint_is_made_where_there_is_something_to_complain_of():
    assert complaint(0.0, 0.0) is None
    assert complaint(1.0, 0.0) == "earns 1.0, not 0.0"
    assert complaint(Failed("the verifier raised OverflowError"), 0.0) == "fails the verifier: the verifier raised OverflowError"
