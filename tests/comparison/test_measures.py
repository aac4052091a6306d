"""Measures by name, and their values of a run."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.comparison.measures import Measure, values
from gradus.types import UserError

RESULT = {
    "final": {
        "samples": 4, "answer_tokens": 62.5, "distinct": [0, 1, 3], "columns": {"kind": ["a", "b", "a"]}, "right": [0, 2, 4], "reward": [0.0, None, 1.0],
        "length": [3.0, 5.0, 7.0],
    },
    "best": {"samples": 4, "right": [1, 2, 4], "reward": [0.0, 0.5, 1.0], "length": [3.0, 5.0, 7.0]},
    "metrics": {"entropy": {"last": 0.25, "drop": 0.1}},
    "elsewhere": {"deep": {"samples": 2, "right": [1, 0]}},
    "area": 0.4,
    "spent": {"steps": 2, "tokens": 900, "rollouts": 8},
    "times": {"steps": 1.5, "train": 2.0, "memory": 1e9},
}


def test_the_values_of_a_run():
    assert Measure("accuracy").of(RESULT).tolist() == [0.0, 0.5, 1.0]
    # pass@2 of 2 right among 4: 1 - C(2, 2) / C(4, 2) = 5/6
    assert Measure("pass@2").of(RESULT) == pytest.approx([0.0, 5 / 6, 1.0])
    assert Measure("best").of(RESULT).tolist() == [0.25, 0.5, 1.0]
    assert Measure("auc").of(RESULT).tolist() == [0.4]
    assert Measure("entropy:last").of(RESULT).tolist() == [0.25]
    assert Measure("distinct").of(RESULT).tolist() == [0.0, 1.0, 3.0]
    assert Measure("answer_tokens").of(RESULT).tolist() == [62.5]
    assert Measure("accuracy@deep").of(RESULT).tolist() == [0.5, 0.0]
    assert Measure("worst@kind").of(RESULT).tolist() == [0.5]  # a: (0 + 1) / 2, b: 0.5
    assert [Measure(name).of(RESULT).tolist() for name in ("tokens", "rollouts", "seconds", "memory")] == [[900.0], [8.0], [1.5], [1e9]]


def test_unknown_groups_and_tasks_are_refused():
    with pytest.raises(UserError, match="did you mean deep"):
        Measure("accuracy@deeep").of(RESULT)
    with pytest.raises(UserError, match="did you mean kind"):
        Measure("worst@kinds").of(RESULT)


def test_problems_without_a_reward_have_the_mean_of_the_others():
    assert values(Measure("reward"), [RESULT, RESULT]).tolist() == [[0.0, 0.5, 1.0]] * 2


def test_less_is_better_of_lengths_and_drops():
    signs = {name: Measure(name).sign for name in ("accuracy", "length", "answer_tokens", "entropy:last", "held_out/accuracy:drop", "pass@8")}
    assert signs == {"accuracy": 1, "length": -1, "answer_tokens": -1, "entropy:last": 1, "held_out/accuracy:drop": -1, "pass@8": 1}
    assert Measure("pass@16").samples == 16


@pytest.mark.parametrize(
    ("name", "said"),
    [("acuracy", "did you mean accuracy"), ("entropy:end", r"unknown reading \"end\""), ("pass@0", "unknown measure"), (":last", "unknown")],
)
def test_wrong_names_are_refused(name, said):
    with pytest.raises(UserError, match=said):
        Measure(name)


def test_a_metric_that_the_run_lacks_is_refused():
    with pytest.raises(UserError, match=r"unknown metric \"entropi\" \(did you mean entropy"):
        Measure("entropi:last").of(RESULT)


def test_a_measure_without_any_value_is_refused():
    silent = {**RESULT, "final": {**RESULT["final"], "reward": [None, None, None]}}
    with pytest.raises(UserError, match="the measure reward has no value for any problem"):
        values(Measure("reward"), [silent])
    assert np.isnan(Measure("reward").of(silent)).all()
