"""TRL's arguments of reward functions: log_metric and log_extra come back from the process of the function, and trainer_state has the steps."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

import gradus
from gradus.lab.folder import RunFolder
from gradus.rewards.functions import Function, LocalFunction
from gradus.rewards.several import reward_of
from gradus.types import NOT_APPLICABLE, Failed
from gradus.workers.logged import Log, Scores
from gradus.workers.trl_signature import outcomes
from gradus.workers.worker import _plain, read_outcomes
from tests.rewards.judged import groups, task, trajectory
from tests.rewards.judged import waiting as no_wait

CODE = """
async def later(prompts, completions, completion_ids, answer, trainer_state, log_metric, log_extra, **kwargs):
    log_metric("mean_length", sum(map(len, completions)) / len(completions))
    log_metric("share", trainer_state.global_step / trainer_state.max_steps)
    log_extra("length", [len(c) for c in completions])
    log_extra("why", [{"said": c} for c in completions])
    assert set(kwargs) <= {"solution", "difficulty", "category"}, kwargs
    return [float(len(c)) for c in completions]

def fails(completions, log_metric, log_extra, **kwargs):
    log_metric("calls", len(completions))
    log_extra("seen", completions)
    if "x" in completions:
        raise ValueError("x")
    return [1.0 for _ in completions]

def wrong(completions, log_extra):
    log_extra("few", [1])
    return [1.0 for _ in completions]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.py"
    path.write_text(CODE)
    return path


class World:
    """The world of step 3 of 12."""

    step, steps = 3, 12
    fact = staticmethod({}.get)
    call = staticmethod(str)
    decide = staticmethod({}.__setitem__)
    waiting = staticmethod(no_wait)

    def __init__(self):
        self.task, self.noted = task(), []

    def note(self, name, value):
        self.noted.append((name, value))


def scored(reward, *completions):
    world = World()
    (row,) = asyncio.run(reward.score(groups([trajectory(c, plain=True, answer=1) for c in completions]), {}, world))
    return row, world.noted


def local(name: str, file: Path):
    space: dict = {}
    exec(compile(CODE, str(file), "exec"), space)
    return space[name]


@pytest.mark.parametrize("where", ["process", "here"])
def test_metrics_and_columns_come_back(where, file):
    reward = Function(f"{file}:later") if where == "process" else LocalFunction(local("later", file))
    row, noted = scored(reward, "ab", "abcd")
    assert [j.reward for j in row] == [2.0, 4.0]
    assert noted == [("logged/mean_length", 3.0), ("logged/share", 0.25)]
    assert [j.extra for j in row] == [{"length": 2, "why": {"said": "ab"}}, {"length": 4, "why": {"said": "abcd"}}]


def test_only_calls_that_count_are_logged(file):
    row, noted = scored(Function(f"{file}:fails"), "a", "x", "b")
    assert isinstance(row[1].reward, Failed)
    assert noted == [("logged/calls", 2.0)]  # the call about a and b together, not those about one answer each
    assert [j.extra.get("seen") for j in row] == ["a", None, "b"]
    row, noted = scored(Function(f"{file}:fails", batch=2), "a", "b", "c")
    assert noted == [("logged/calls", 2.0), ("logged/calls", 1.0)]
    assert [j.extra["seen"] for j in row] == ["a", "b", "c"]


@pytest.mark.parametrize("where", ["process", "here"])
def test_a_column_of_another_length_fails_the_call(where, file):
    reward = Function(f"{file}:wrong") if where == "process" else LocalFunction(local("wrong", file))
    row, _ = scored(reward, "a", "b")
    assert row[0].reward.reason.startswith("gave 1 values to log_extra(\"'few'\", ...) for 2 completions")
    assert scored(reward, "a")[0][0].reward == 1.0


def test_columns_of_two_functions_are_told_apart(file):
    row, _ = scored(reward_of([f"one={file}:later", f"two={file}:later", f"{file}:fails"]), "ab")
    assert set(row[0].extra) == {"one/length", "two/length", "one/why", "two/why", "seen"}


def test_a_log_has_a_plain_form():
    log = Log([("a", 1.0), ("b", math.inf)], {"c": [1, {"d": {3}}], "e": [None, math.nan]})
    plain = log.as_json()
    assert plain == {"metrics": [["a", 1.0], ["b", None]], "columns": {"c": [1, {"d": "{3}"}], "e": [None, None]}}
    back = Log.read(plain, 2)
    assert back.metrics[0] == ("a", 1.0)
    assert math.isnan(back.metrics[1][1])
    scores = outcomes([1.0, None], 2, log)
    assert isinstance(scores, Scores)
    again = read_outcomes(_plain(scores), 2)
    assert again == [1.0, NOT_APPLICABLE]
    assert again.log.columns == back.columns
    for broken in ({"metrics": [], "columns": {"c": [1]}}, {"metrics": 3, "columns": {}}, {"columns": {}}, [], {"metrics": [], "columns": 4}):
        with pytest.raises(ValueError):  # noqa: PT011
            read_outcomes({"outcomes": [1.0, None], "log": broken}, 2)


def test_a_run_keeps_what_was_logged(file, tmp_path):
    run = gradus.train(
        "grpo", "arithmetic", reward=f"{file}:later", steps=2, run=tmp_path / "run", study=None, setting__prompts=2, setting__group=2, setting__max_tokens=4
    )
    assert [row["logged/share"] for row in RunFolder.open(tmp_path / "run").metrics()] == [0.0, 0.5]
    for _, group in RunFolder.open(tmp_path / "run").rollouts():
        assert all(t.extra["length"] == 1 for t in group.trajectories)
    assert run.rollouts().column("extra").to_pylist()[0].startswith('{"length":1,"why":')
