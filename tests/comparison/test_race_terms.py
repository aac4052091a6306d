"""A race in words."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import gradus
from gradus.comparison.race_terms import asked_of
from gradus.training.budget import Budget
from gradus.types import UserError


def test_terms_from_words():
    made = asked_of(["grpo", "rloo"], rates="1,2", budget="2h", task="countdown", seeds="2", fields={"group": "4"})
    assert made.budget == Budget("seconds", 7200.0)
    assert made.choice.rates == (Fraction(1), Fraction(2))
    assert [arm.recipe for arm in made.experiment.arms] == ["grpo", "rloo"]
    assert (made.experiment.task, made.experiment.seeds, made.experiment.problems) == ("countdown", (0, 1), 100)
    assert made.experiment.fields == (("group", "4"),)


def test_the_default_is_every_recipe_on_arithmetic():
    made = asked_of()
    assert made.experiment.task == "arithmetic"
    assert len(made.experiment.arms) > 40
    assert str(made.budget) == "seconds=3600"
    assert asked_of(family="credit", problems=7).experiment.problems == 7


def test_the_race_of_python_is_that_of_words(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr("gradus.comparison.race_terms.raced", lambda asked, folder, **how: seen.append((asked, folder, how)) or {"winner": "grpo"})
    assert gradus.race("grpo", "rloo", run="runs/r", budget="tokens=1e5", rates="1")["winner"] == "grpo"
    [(asked, folder, _)] = seen
    assert asked == asked_of(["grpo", "rloo"], budget="tokens=1e5", rates="1")
    assert folder == Path("runs/r")
    with pytest.raises(UserError, match="--rates"):
        gradus.race("grpo", run="x", rates="none")
