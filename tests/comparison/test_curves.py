"""The stored learning curve: the band over seeds by hand, recipes without a curve, and the curve that a measured claim leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradus.comparison import curves
from gradus.comparison.claim_runs import keep_curve, terms
from gradus.comparison.claims import Known
from gradus.comparison.compare import Comparison
from gradus.recipe.claim import Claim, same_weights

CLAIM = Claim(says="It learns faster.", source="ours", against="rloo", task="arithmetic", better_by=0.02, budget="steps=8", seeds=2)
SAME = same_weights("Equal.", "ours", "rloo")


def run(*scores: float) -> dict[str, Any]:
    return {"curve": [[2.0 * i, score] for i, score in enumerate(scores)], "metrics": {"held_out/accuracy": {}}}


def test_the_band_interpolates_at_the_steps_of_the_first_curve() -> None:
    found = curves.banded([[[0, 0.0], [1, 0.5], [2, 1.0]], [[0, 0.5], [2, 0.0]]])  # the second is 0.25 at step 1
    assert found == [[0.0, 0.25, 0.0, 0.5], [1.0, 0.375, 0.25, 0.5], [2.0, 0.5, 0.0, 1.0]]


def test_an_arm_with_a_short_run_is_left_out() -> None:
    results = {"grpo": {0: run(0, 1), 1: run(0, 1)}, "rloo": {0: run(0, 1), 1: run(0)}, "ppo": {0: {"failed": "no"}}}
    assert curves.drawn(results) == {"grpo": [[0.0, 0.0, 0.0, 0.0], [2.0, 1.0, 1.0, 1.0]]}
    assert curves.drawn(results, least=3) == {}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ([{"measure": "memory"}, {"measure": "seconds"}], "memory"),
        ([{"measure": "held_out/accuracy:first"}], "test time"),
        ([{"measure": "memory"}, {"measure": "accuracy"}], None),
        ([{"measure": "accuracy"}], None),
        ([], None),
    ],
)
def test_which_recipe_has_no_curve(changes: list[dict[str, Any]], word: str | None) -> None:
    why = curves.reason_for_none([SAME, *(replace(CLAIM, **change) for change in changes)])
    assert (why is None) if word is None else (why is not None and word in why)


def test_the_score_is_the_reward_without_right_and_wrong_answers() -> None:
    assert curves.score_of({"grpo": {0: run(0, 1)}}) == "held-out accuracy"
    assert curves.score_of({"grpo": {0: {"curve": [], "metrics": {"reward": {}}}}}) == "held-out reward"


def test_rewards_are_drawn_where_no_answer_is_right() -> None:
    zero = {"grpo": {0: {**run(0.0, 0.0), "rewards": [[0, -7.0], [2, -3.0]], "metrics": {"held_out/accuracy": {}, "reward": {}}}}}
    told = curves.by_reward(zero)
    assert curves.drawn(told)["grpo"] == [[0.0, -7.0, -7.0, -7.0], [2.0, -3.0, -3.0, -3.0]]
    assert curves.score_of(told) == "held-out reward"


def made(claim: Claim, folder: Path, points: int = 5) -> Comparison:
    experiment = terms(Known("grpo", claim, None))
    scores = [0.25 * i for i in range(points)]
    return Comparison(experiment, folder, results={arm.name: {seed: run(*scores) for seed in experiment.seeds} for arm in experiment.arms})


def test_a_measured_claim_leaves_its_curve_once(tmp_path: Path) -> None:
    path, claim = tmp_path / "curves" / "grpo.json", replace(CLAIM, against="rloo --learning_rate 3e-4")
    of = Known("grpo", claim, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradus.comparison.claim_runs.word_of", lambda *_: "grpo:1")
        assert keep_curve(of, made(claim, tmp_path), path)
        stored = json.loads(path.read_text())
        assert list(stored["curves"]) == ["grpo", "rloo --learning_rate 3e-4"]
        assert stored["curves"]["grpo"][1] == [2.0, 0.25, 0.25, 0.25]
        assert stored["command"] == "gradus claims grpo:1 --run"
        assert not keep_curve(of, made(claim, tmp_path), path)  # exists


@pytest.mark.parametrize(("claim", "points"), [(SAME, 5), (replace(CLAIM, budget="tokens=2000"), 5), (CLAIM, 2)])
def test_a_claim_without_a_curve_over_steps_leaves_none(claim: Claim, points: int, tmp_path: Path) -> None:
    path = tmp_path / "grpo.json"
    assert not keep_curve(Known("grpo", claim, None), made(claim, tmp_path, points), path)
    assert not path.exists()
