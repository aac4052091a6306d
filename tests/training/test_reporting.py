"""The state of a run for other processes: what it says, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gradus
from gradus.lab.folder import RunFolder
from gradus.lab.status import STATUS, read_status
from gradus.runtime.activity import ACTIVITIES, FOR_GROUPS, JUDGING, SAMPLING, UPDATING, doing
from gradus.training.reporting import Reporter, progress_of, reporting, state_of
from tests.small_model import save_small_model

SMALL = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 3, "setting__save_every": 2, "setting__eval_every": 2, "study__problems": 1}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("reporting") / "model"))


@pytest.fixture(scope="module")
def alone(model, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("reporting") / "alone"
    gradus.train("grpo", "arithmetic", model=model, steps=3, run=path, **SMALL)
    return path


@pytest.fixture(scope="module")
def streamed(model, tmp_path_factory) -> Path:
    from gradus.types.systems import Streaming

    path = tmp_path_factory.mktemp("reporting") / "streamed"
    gradus.train("grpo", "arithmetic", model=model, steps=3, run=path, system=Streaming(staleness=1, workers=2), **SMALL)
    return path


def test_a_finished_run(alone):
    state = read_status(alone)
    assert state is not None
    assert (state["state"], state["step"], state["steps"], state["progress"]) == ("finished", 3, 3, 1.0)
    assert set(state["workers"]) == {"trainer"}
    assert state["queue"] is None
    assert state["memory"]["process"] > 1_000_000
    assert state["last"]["reward"] == RunFolder.open(alone).metrics()[2]["reward"]
    assert state["waits"] == []


def test_the_tokens_are_those_of_the_metrics(alone):
    state, rows = read_status(alone), RunFolder.open(alone).metrics()
    assert state["tokens"][SAMPLING] == sum(row.get("tokens/rollout", 0) for row in rows)
    assert state["tokens"][UPDATING] == sum(row.get("tokens/train", 0) for row in rows)


def test_one_line_per_step(alone, streamed):
    for path, workers in ((alone, {"trainer"}), (streamed, {"trainer", "worker-0", "worker-1"})):
        rows = RunFolder.open(path).work()
        assert [row["step"] for row in rows] == [0, 1, 2]
        for row in rows:
            assert set(row["seconds"]) == workers
            assert {name for spent in row["seconds"].values() for name in spent} <= set(ACTIVITIES)
        known = read_status(path)["tokens"]
        assert sum(row["tokens"].get(SAMPLING, 0) for row in rows) == known[SAMPLING]


def test_a_step_is_as_long_as_its_timings(alone):
    """The trainer's activities without evaluations and saves are the rollout and the update of timings.jsonl, which another clock measures."""
    folder = RunFolder.open(alone)
    mine = sum(value for row in folder.work() for name, value in row["seconds"]["trainer"].items() if name in (SAMPLING, JUDGING, UPDATING, "log-probs"))
    theirs = sum(row["rollout"] + row["update"] for row in folder.timings())
    assert 0.3 * theirs < mine <= 1.01 * theirs


def test_the_workers_of_a_system(streamed):
    state = read_status(streamed)
    spent = {name: worker["seconds"] for name, worker in state["workers"].items()}
    assert spent["trainer"].get(SAMPLING, 0) == 0
    assert spent["trainer"][FOR_GROUPS] > 0
    assert spent["trainer"][UPDATING] > 0
    assert all(UPDATING not in spent[name] and spent[name][SAMPLING] > 0 for name in ("worker-0", "worker-1"))
    rows = RunFolder.open(streamed).work()
    assert [sum(row["ages"].values()) for row in rows] == [2, 2, 2]  # the groups of each step
    assert {int(age) for row in rows for age in row["ages"]} <= {0, 1}
    assert all(set(row["queue"]) >= {"waiting", "running", "finished", "dropped"} for row in rows)


def test_the_state_changes_no_byte(alone, model, tmp_path, monkeypatch):
    """A run whose state is written all the time, and a run whose state is never written, have the same metrics."""
    monkeypatch.setattr("gradus.training.reporting.EVERY", 0.0001)
    gradus.train("grpo", "arithmetic", model=model, steps=3, run=tmp_path / "often", **SMALL)
    gradus.train("grpo", "arithmetic", model=model, steps=3, **SMALL)
    assert (tmp_path / "often/metrics.jsonl").read_bytes() == (alone / "metrics.jsonl").read_bytes()


def test_a_resumed_run_has_one_line_per_step(model, tmp_path):
    gradus.train("grpo", "arithmetic", model=model, steps=3, run=tmp_path / "run", **SMALL)
    gradus.resume(tmp_path / "run", more=5)
    assert [row["step"] for row in RunFolder.open(tmp_path / "run").work()] == [0, 1, 2, 3, 4]
    assert read_status(tmp_path / "run")["began"]["step"] == 3


def test_a_budget_is_read_and_not_changed(model, tmp_path):
    """The thread of the reporter must not add rows to the totals of the budget, because the training thread does."""
    run = gradus.train("grpo", "arithmetic", model=model, run=tmp_path / "run", budget="rollouts=8", **SMALL)
    run.totals = [0.0, 6.0]  # as in the middle of a step
    before = list(run.totals)
    assert progress_of(run) == 0.75
    assert state_of(run)["progress"] == 0.75
    assert run.totals == before


class Stopped:
    """What a reporter reads of a run, with a state that fails or not."""

    folder = stop = sinks = None


def test_a_failed_run_says_so(alone, model, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        gradus.train("grpo", "arithmetic", model=model, steps=3, run=tmp_path / "run", on_step=broken, **SMALL)
    assert read_status(tmp_path / "run")["state"] == "failed"


def test_a_full_disk_stops_no_run(alone, model, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradus.training.reporting.write_status", refused)
    run = gradus.train("grpo", "arithmetic", model=model, steps=2, run=tmp_path / "run", **SMALL)
    assert run.step == 2
    assert not (tmp_path / "run" / STATUS).exists()


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Stopped()
    with reporting(run):
        pass
    assert not list(tmp_path.iterdir())


def test_the_recent_seconds_are_those_since_the_oldest_state(alone, model, tmp_path):
    run = gradus.train("grpo", "arithmetic", model=model, steps=2, run=tmp_path / "run", **SMALL)
    reporter = Reporter(run)
    reporter.write()
    with run.activity.on("late"), doing(JUDGING):
        pass
    reporter.write("stopped")
    state = json.loads((tmp_path / "run" / STATUS).read_text())
    assert state["state"] == "stopped"
    assert set(state["recent"]["workers"]["late"]) >= {JUDGING}
    assert UPDATING not in state["recent"]["workers"]["trainer"]
    assert state["workers"]["trainer"]["seconds"][UPDATING] > 0
    assert state["recent"]["tokens"] == {}
