"""A whole comparison with the built-in model: equal terms, reuse, refusal before anything runs, the same bytes after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gradus.comparison.compare import EXPERIMENT, RESULT, Comparison, compare, compare_recipes
from gradus.comparison.experiment import Arm, Experiment
from gradus.training.budget import Budget
from gradus.types import UserError

TERMS: dict[str, Any] = {"seeds": (0, 1), "problems": 6, "samples": 2, "fields": (("prompts", "2"), ("group", "2"), ("study.problems", "4"))}
TWO = (Arm("grpo", "grpo"), Arm("rloo", "rloo"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Two recipes, two seeds, two steps each."""
    home = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        return compare(Experiment(TWO, **TERMS, budget=Budget("steps", 2)), home / "first")


@pytest.mark.alone
def test_all_runs_share_their_terms(whole: Comparison):
    runs = [(name, seed, run) for name, found in whole.results.items() for seed, run in found.items()]
    assert len(runs) == 4
    assert len({run["start"]["held_out"] for *_, run in runs}) == 1
    for seed in (0, 1):
        assert len({tuple(run["start"]["problems"]) for _, s, run in runs if s == seed}) == 1
    first = {name: whole.folder / "runs" / f"{name}-seed0" for name in ("grpo", "rloo")}
    rows = {name: json.loads((path / "metrics.jsonl").read_text().splitlines()[0]) for name, path in first.items()}
    assert rows["grpo"]["held_out/accuracy"] == rows["rloo"]["held_out/accuracy"]  # the same weights answer the same problems
    assert rows["grpo"]["reward"] == rows["rloo"]["reward"]


@pytest.mark.alone
def test_the_result_is_whole(whole: Comparison):
    document = json.loads((whole.folder / RESULT).read_text())
    assert [arm["name"] for arm in document["arms"]] == ["grpo", "rloo"]
    run = document["runs"]["grpo"]["0"]
    assert len(run["final"]["right"]) == 6
    assert run["final"]["fresh"]
    assert run["tokens"]["train"] > 0
    assert run["spent"] == {"steps": 2, "tokens": run["spent"]["tokens"], "rollouts": 8}
    assert "times" not in run
    assert document["times"]["grpo"]["0"]["memory"] > 0
    page = (whole.folder / "report.html").read_text()
    assert document["says"].split("[")[0].strip()[:30] in page
    assert page.count("<script") == 1  # the script of all pages


@pytest.mark.alone
def test_finished_runs_are_reused(whole: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(whole.folder.parent / "cache"))
    monkeypatch.setattr("gradus.comparison.compare.carry_out_all", lambda jobs, *_, **__: jobs and pytest.fail("a finished run was trained again"))
    again = compare(whole.experiment, tmp_path / "again")
    assert again.reused == ["grpo", "rloo"] * 2
    here, there = (json.loads((folder / RESULT).read_text()) for folder in (whole.folder, again.folder))
    assert here == there
    assert compare(whole.experiment, whole.folder).reused == []  # its own results


def test_misfits_are_refused_before_anything_runs(tmp_path: Path):
    with pytest.raises(UserError, match=r"^papo: "):
        compare_recipes("grpo", "papo", run=tmp_path / "new", fields={"prompts": "2"})
    assert not (tmp_path / "new" / "runs").exists()


def test_timed_runs_go_one_at_a_time(tmp_path: Path):
    with pytest.raises(UserError, match="--parallel is 2"):
        compare_recipes("grpo", "rloo", run=tmp_path / "timed", budget="seconds=5", processes=2)
    assert not (tmp_path / "timed").exists()


def test_another_comparison_keeps_its_folder(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / EXPERIMENT).write_text(json.dumps(Experiment(TWO, seeds=(9,)).stored()))
    with pytest.raises(UserError, match=r"comparison that differs in seeds"):
        compare(Experiment(TWO, seeds=(8,)), tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="contains files but no comparison"):
        compare(Experiment(TWO), tmp_path / "b")


@pytest.mark.nightly
def test_two_kills_change_no_byte_but_times(tmp_path: Path):
    words = ["compare", "grpo", "rloo", "--seeds", "0,1", "--budget", "steps=2", "--problems", "6", "--samples", "2", "--run", str(tmp_path / "killed")]
    words += ["--prompts", "2", "--group", "2", "--study.problems", "4", "--save_every", "1"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "gradus", *words], env=environment)

    for reached in ("runs/*/metrics.jsonl", "results/*.json"):  # within the first runs; after the first result
        process, until = run(), time.monotonic() + 300
        while not list((tmp_path / "killed").glob(reached)) and time.monotonic() < until:
            time.sleep(0.05)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run().wait() == 0
    killed = json.loads((tmp_path / "killed" / RESULT).read_text())
    environment["XDG_CACHE_HOME"] = str(tmp_path / "other")
    words[words.index("--run") + 1] = str(tmp_path / "whole")
    assert run().wait() == 0
    straight = json.loads((tmp_path / "whole" / RESULT).read_text())
    for document in (killed, straight):
        del document["times"]
    assert killed == straight
