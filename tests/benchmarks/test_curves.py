"""The terms of a recipe's learning curve: which claim gives them, which arm gets a field, and how many steps fit into the time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import curves


def test_the_claim_about_learning_gives_the_terms() -> None:
    terms = curves.terms_of("areal")  # its claims: equal weights, accuracy after 48 steps, clip_share, a program
    assert (terms.task, terms.steps, list(terms.arms)) == ("arithmetic", 48, ["areal", "reinforce"])
    assert "study" not in terms.fields  # the curve needs evaluations


def test_a_field_of_the_recipe_alone_is_set_in_its_arm() -> None:
    terms = curves.terms_of("stat")
    assert terms.arms["grpo"] == "grpo"
    assert "--schedule.stages.look.until=Steps(count=12)" in terms.arms["stat"]
    assert not [name for name in terms.fields if name.startswith("schedule")]
    assert terms.staged


def test_a_home_ground_wins() -> None:
    assert curves.terms_of("dapo").ground == "sparse"


def test_the_base_is_tried_before_the_other_arm_of_the_claim_and_the_recipe_alone() -> None:
    tried = [list(terms.arms) for terms in curves.pairs_of("a", curves.Terms({"a": "a", "b": "b"}, against="c --x 1"))]
    assert tried == [["a", "b"], ["a", "c --x 1"], ["a"]]


@pytest.mark.parametrize(("step", "steps"), [(0.1, 20), (0.5, 16), (100.0, 8)])
def test_slow_recipes_get_fewer_steps(step: float, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 24 seconds, three seeds of one arm can do 16 steps of 0.5 s; 20 steps are asked for, and at least 8 are done."""
    made = SimpleNamespace(results={"a": {0: {"times": {"steps": 2 * step, "train": 2 * step}}}})
    monkeypatch.setattr(curves, "compared", lambda *_: (made, {}))
    monkeypatch.setattr(curves, "_busy", lambda *_: 1.0)
    fit, _ = curves.fitted(curves.Terms({"a": "a"}), Path(), most=24)
    assert fit.steps == steps


def test_stages_keep_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = SimpleNamespace(results={"a": {0: {"times": {"steps": 100.0, "train": 100.0}}}})
    monkeypatch.setattr(curves, "compared", lambda *_: (made, {}))
    monkeypatch.setattr(curves, "_busy", lambda *_: 1.0)
    fit, seconds = curves.fitted(curves.Terms({"a": "a"}, staged=True), Path())
    assert fit.steps == curves.STEPS
    assert seconds > curves.SECONDS


def test_slow_evaluations_are_fewer_and_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation of 32 problems takes 1 s, or 3 s for three seeds. Five of them may take half of 24 s, so 32 * 12 / 15 = 25 problems fit."""
    made = SimpleNamespace(results={"a": {0: {"times": {"steps": 0.0, "train": 2.0}}}})
    monkeypatch.setattr(curves, "compared", lambda *_: (made, {}))
    monkeypatch.setattr(curves, "_busy", lambda *_: 1.0)
    fit, seconds = curves.fitted(curves.Terms({"a": "a"}), Path(), most=24)
    assert (fit.points, fit.problems, fit.steps) == (curves.FEWER, 25, curves.STEPS)
    assert seconds == pytest.approx(15 * 25 / 32)
    made.results["a"][0]["times"]["train"] = 0.5
    fit, _ = curves.fitted(curves.Terms({"a": "a"}), Path(), most=24)
    assert (fit.points, fit.problems) == (curves.POINTS, curves.PROBLEMS)
