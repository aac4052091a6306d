"""The result of a race as text and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.race_result import announced, concluded, misfit_rows, standing_rows, told
from gradus.comparison.rungs import Loss, Outcome, Verdict
from gradus.training.budget import Budget

ARMS = (Arm("a", "grpo"), Arm("b", "rloo"), Arm("<i>c", "grpo", (("learning_rate", "3e-4"),)))
EXPERIMENT = Experiment(ARMS, "arithmetic", seeds=(0, 1), budget=Budget("tokens", 1000.0))
ORDERS = (Verdict(("a", "b", "<i>c"), ("a", "b"), (Loss("<i>c", 1, "failed: NaN"),), {"a": 0.5, "b": 0.4}),)
FINAL = Verdict(("b", "a"), ("b",), (Loss("a", 2, "second, without a significant difference", 2, 0.6, "b", 0.1, -0.05, 0.25),), {"b": 0.7, "a": 0.6})


def document(**changes: Any) -> dict[str, Any]:
    return {
        "asked": {"experiment": EXPERIMENT.stored(), "budget": ["tokens", 4000.0]},
        "contestants": EXPERIMENT.stored()["arms"],
        "misfits": [{"recipe": "papo", "lacks": "needs problems with images"}],
        "rungs": [[3, 1, 0.5], [2, 2, 1.0]],
        "full": 1000.0,
        "amounts": [500.0, 1000.0],
        "times": {"used": 75.0, "estimate": 61.0},
        **changes,
    }


def test_what_is_said_at_the_start():
    assert list(announced(document())) == [
        "3 contestants of 2 recipes; 1 further recipe does not fit this task or model",
        "2 rungs, 7 runs begun or continued at most: 3 to 500 tokens, 2 x 2 seeds to 1,000 tokens; about 1m01s",
    ]


def whole(tmp_path: Path, outcome: Outcome) -> dict[str, Any]:
    made = document()
    return {**made, **concluded(made, outcome, EXPERIMENT, tmp_path, {})}


def test_the_standing_goes_from_the_winner_to_the_first_loser(tmp_path: Path):
    found = whole(tmp_path, Outcome(("b",), [*ORDERS, FINAL]))
    assert found["winner"] == "b"
    assert found["says"] == (
        "b wins among 3 contestants: accuracy 0.700 after 1,000 tokens over 2 seeds. In the last rung a is 0.100 [-0.050, 0.250] behind, "
        "so it is not clear which of the two is better."
    )
    rows = standing_rows(found)[1]
    assert [row[0] for row in rows] == ["b", "a", "<i>c"]
    assert rows[1][1:] == ("2", "2", "0.600", "1,000", "0.100 [-0.050, 0.250]", "second, without a significant difference (b)")
    assert rows[2][1:] == ("1", "-", "-", "500", "", "failed: NaN")
    assert misfit_rows(found)[1] == [("papo", "needs problems with images")]
    text = told(found, tmp_path)
    assert "papo: needs problems with images" in text
    assert f"winner: {tmp_path / 'winner.py'}" in text
    assert "gradus train" in text
    page = (tmp_path / "report.html").read_text()
    assert "&lt;i&gt;c" in page
    assert "<i>c" not in page
    assert page.count("<script") == 1  # that of the page
    assert "<svg" in page


def test_a_clear_end_is_told_as_one(tmp_path: Path):
    clear = Verdict(("b", "a"), ("b",), (Loss("a", 2, "significantly below the leader", 2, 0.6, "b", 0.1, 0.05, 0.15),), {"b": 0.7, "a": 0.6})
    assert whole(tmp_path, Outcome(("b",), [*ORDERS, clear]))["says"].endswith("In the last rung a is 0.100 [0.050, 0.150] behind.")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Outcome((), [Verdict((), (), (Loss("a", 1, "failed: x"),), {})]), "No contestant is left"),
        (Outcome(("a", "b"), [*ORDERS], spent=True), "The difference to these is not clear yet: b."),
        (Outcome(("a", "b"), [], spent=True), "No rung was finished"),
    ],
)
def test_what_cannot_be_told_is_said(outcome: Outcome, says: str, tmp_path: Path):
    found = whole(tmp_path, outcome)
    assert says in found["says"]
    assert told(found, tmp_path)
