"""The table of a comparison, its winners and its sentence, from results made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.table import figures
from gradus.training.budget import Budget


def result(right: list[int], **changes: Any) -> dict[str, Any]:
    """A finished run with so many right answers of 4 to each problem."""
    exam = {"samples": 4, "right": right, "reward": [n / 4 for n in right], "length": [5.0] * len(right), "fresh": True, "failed": 0}
    return {
        "start": {"problems": ["p", "q"], "held_out": "h", "model": "m"},
        "curve": [[0, 0.1], [10, sum(right) / 4 / len(right)]],
        "final": exam,
        "best": exam,
        "spent": {"steps": 10, "tokens": 100, "rollouts": 20},
        "tokens": {"rollout": 60, "train": 40},
        "metrics": {"entropy": {"last": 0.5}},
        "times": {"steps": 1.0, "memory": 1.0},
        **changes,
    }


def experiment(*names: str, **how: Any) -> Experiment:
    return Experiment(tuple(Arm(name, "grpo") for name in names), budget=Budget("steps", 10), seeds=(0, 1, 2), **how)


def test_a_clear_winner_is_named():
    runs = {"a": {s: result([4, 4, 3 + s // 2, 4] * 5) for s in range(3)}, "b": {s: result([1, 0, 1, 1] * 5) for s in range(3)}}
    found = figures(experiment("a", "b"), runs)
    [pair] = found["pairs"]
    assert pair["winner"] == "a"
    assert pair["mean"] == pytest.approx((15 + 15 + 16) / 48 - 3 / 16)
    assert found["says"].startswith("a has the better accuracy than b by 0.771 [")
    assert found["notes"] == []


def test_fewer_is_better_of_lengths():
    runs = {"a": {s: result([1] * 8) for s in range(3)}, "b": {s: result([1] * 8) for s in range(3)}}
    for s in range(3):
        runs["b"][s]["final"] = {**runs["b"][s]["final"], "length": [2.0 + s / 10] * 8}
    found = figures(experiment("a", "b", measure="length"), runs)
    assert found["pairs"][0]["winner"] == "b"
    assert found["pairs"][0]["chance"] < 0.05  # that a is better


def test_what_cannot_be_told_is_said():
    runs = {"a": {s: result([1 + s, 2] * 5) for s in range(3)}, "b": {s: result([3 - s, 2] * 5) for s in range(3)}}
    found = figures(experiment("a", "b"), runs)
    assert found["pairs"][0]["winner"] is None
    assert found["says"].startswith("It cannot be told")
    one = figures(experiment("a", "b"), {name: {0: found[0]} for name, found in runs.items()})
    assert "one seed" in one["says"]


def test_every_pair_counts_in_the_correction():
    runs = {name: {s: result([n, (n + s * (n + 1)) % 5, 2] * 5) for s in range(3)} for n, name in enumerate("abc")}
    found = figures(experiment(*"abc"), runs)
    assert len(found["pairs"]) == 3
    assert all(pair["corrected"] >= pair["p"] for pair in found["pairs"])
    assert any(pair["corrected"] > pair["p"] for pair in found["pairs"])


def test_failed_runs_are_listed_and_not_counted():
    runs = {"a": {0: result([4] * 8), 1: result([4] * 8), 2: {"failed": "NaN"}}, "b": {s: result([1] * 8) for s in range(3)}}
    found = figures(experiment("a", "b"), runs)
    assert found["arms"][0]["failed"] == {2: "NaN"}
    assert found["pairs"][0]["seeds"] == [0, 1]
    assert found["notes"] == ["a, seed 2, failed: NaN"]
    nothing = figures(experiment("a", "b"), {"a": runs["a"], "b": {s: {"failed": "no"} for s in range(3)}})
    assert nothing["arms"][1] == {"name": "b", "seeds": [], "failed": dict.fromkeys(range(3), "no")}
    assert "nothing to compare" in nothing["says"]


def test_unequal_terms_are_noted():
    other = {"problems": ["r", "s"], "held_out": "i", "model": "m"}
    found = figures(experiment("a", "b"), {"a": {0: result([1] * 8)}, "b": {0: result([1] * 8, start=other)}})
    apart = "the training problems of b are not those of a: from number 1 on they are others (seed 0)"
    assert found["notes"] == ["the held-out problems are not the same in all runs", apart]


@pytest.mark.parametrize(("drawn", "said"), [(["p"], None), (["p", "q", "r"], None), ([], None), (["q", "p"], "from number 1 on they are in another order")])
def test_more_or_fewer_of_the_same_problems_are_equal_terms(drawn, said):
    start = {"problems": drawn, "held_out": "h", "model": "m"}
    found = figures(experiment("a", "b"), {"a": {0: result([1] * 8)}, "b": {0: result([1] * 8, start=start)}})["notes"]
    assert (found == []) if said is None else (said in found[0])


def test_a_reward_in_place_of_the_recipes_own_is_noted():
    runs = {"a": {0: result([1] * 8)}}
    assert figures(experiment("a", reward=("mine.py:f",)), runs)["notes"] == [
        "mine.py:f judges the training of every recipe, in place of its own reward, and held-out answers, too"
    ]
    true = figures(experiment("a", reward=("mine.py:f", "Verified"), fields=(("study.reward", "Verified"),)), runs)["notes"]
    assert true == ["mine.py:f and Verified judge the training of every recipe, in place of its own reward, and Verified judges held-out answers"]


def test_examined_problems_that_chose_weights_are_noted():
    run = result([1] * 8)
    run["final"] = {**run["final"], "fresh": False}
    assert "too few held-out problems" in figures(experiment("a"), {"a": {0: run}})["notes"][0]
