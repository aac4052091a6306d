"""A share of the fuzz of all that judges text: nothing raises, hangs, or is run as code."""

from __future__ import annotations

import pytest

from benchmarks.hostile import Judge, fuzz, golds, judges, run, shares
from gradus.recipe.registry import task_modules
from gradus.testing import Limits


@pytest.mark.parametrize("count", [4_000, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_thousands_of_texts_break_nothing(count):
    texts, wrong = 0, []
    for name, found in run(count, seed=11):
        texts += found.texts
        wrong += [f"{name}: {text}" for text in found.wrong]
    assert texts >= count
    assert wrong == []


def test_every_task_that_judges_text_is_among_them():
    assert set(task_modules()) - set(judges()) <= {"flow_2d", "code", "python_tool"}  # no text; the others where there is no sandbox


def test_shares_add_up():
    given = shares(["mathematics", "final_answer", "a", "b"], 1401)
    assert given == {"mathematics": 801, "final_answer": 401, "a": 101, "b": 101}
    assert sum(shares(["a", "b", "c"], 20).values()) == 21


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda i, text: int(text), "raised ValueError"),
        (lambda i, text: exec("pass"), "ran code (exec"),
        (lambda i, text: {"not": "a number"}, "gives a number"),
    ],
)
def test_what_breaks_is_found(call, told):
    found = fuzz(Judge(call, ["=1", "=2"]), 20, seed=0, limits=Limits(seconds=0.3))
    assert len(found.wrong) > 10
    assert told in found.wrong[0]
    assert found.wrong[0].startswith("text 0 of seed 0, ''")


def test_golds_are_of_many_kinds():
    want, have = golds(50)
    assert len(want) == len(have) == 50
    assert len(set(want)) > 40
