"""The terms of a comparison: defaults, those of a ground, and those of the words, which win."""

from __future__ import annotations

import pytest

from gradus.comparison.experiment import Experiment
from gradus.comparison.ground import Ground, Pair
from gradus.comparison.terms import calibration, experiment_of, rewards_in_words
from gradus.runtime.user_code import load_object
from gradus.training.budget import Budget
from gradus.types import UserError

GROUND = Ground(
    "g",
    "About.",
    "countdown",
    "steps=7",
    Pair("rloo", "grpo", "entropy:last", "a reason"),
    options={"level": "2"},
    fields={"learning_rate": "1e-3", "group": "4"},
    measures=("accuracy", "pass@8"),
    arms=("dapo", "grpo"),
    seeds=4,
    problems=50,
    samples=8,
)


@pytest.fixture(autouse=True)
def only_ground(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradus.comparison.terms.ground_of", lambda name: GROUND)


def test_the_defaults():
    made = experiment_of(["grpo"])
    assert made == Experiment(made.arms, seeds=(0, 1, 2), budget=Budget("steps", 20), samples=4)
    assert experiment_of(["grpo"], measure="pass@16").samples == 16
    assert experiment_of(["grpo"], shows=["pass@8"], samples=2).samples == 2


def test_the_terms_of_a_ground():
    made = experiment_of(["grpo"], ground="g")
    assert (made.ground, made.task, made.task_options, made.budget) == ("g", "countdown", (("level", "2"),), Budget("steps", 7))
    assert (made.measure, made.shows, made.problems, made.samples) == ("accuracy", ("pass@8",), 50, 8)
    assert made.plan(made.arms[0], 0).recipe.setting.learning_rate == 1e-3


def test_words_win_over_the_ground():
    made = experiment_of(["grpo"], ground="g", budget="steps=3", measure="pass@16", problems=9, fields={"group": "2"}, seeds="5,6")
    assert (made.budget.amount, made.measure, made.shows, made.samples, made.problems) == (3, "pass@16", ("accuracy", "pass@8"), 16, 9)
    assert dict(made.fields) == {"learning_rate": "1e-3", "group": "2"}
    assert made.seeds == (5, 6)


def test_a_ground_has_its_own_task():
    for more in ({"task": "arithmetic"}, {"task_options": {"level": "4"}}):
        with pytest.raises(UserError, match="has its own task"):
            experiment_of(["grpo"], ground="g", **more)


def test_the_calibration_has_the_pair_first():
    made = calibration(GROUND)
    assert [arm.name for arm in made.arms] == ["rloo", "grpo", "dapo"]
    assert (made.measure, len(made.seeds), made.shows) == ("entropy:last", 4, ("accuracy", "pass@8"))


def test_rewards_become_words():
    assert rewards_in_words(None) == ()
    assert rewards_in_words("mine.py:f") == ("mine.py:f",)
    assert rewards_in_words([("mine.py:f", 0.5), "Verified"]) == ("mine.py:f*0.5", "Verified")


def test_a_function_of_a_file_is_a_reward_and_one_of_this_process_is_not(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def score(completions, **columns):\n    return [0.0 for _ in completions]\n")
    assert rewards_in_words(load_object(f"{path}:score", "reward")) == (f"{path}:score",)
    with pytest.raises(UserError, match="exists only in this process"):
        rewards_in_words(lambda completions: [0.0])
