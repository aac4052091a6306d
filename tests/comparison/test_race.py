"""A race: made-up results for its course, small real runs for what is continued, and a real one under SIGKILL (nightly)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from gradus.comparison import race
from gradus.comparison.contestants import Choice, Entrants, choice_of
from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.job import Job, carry_out
from gradus.comparison.race import PILOT, RACE, RESULTS, RUNS, Asked, amount_of, budget_of_race, shown_amount
from gradus.comparison.race_terms import raced
from gradus.comparison.worker import Lines
from gradus.lab import checkpoints
from gradus.training.budget import Budget
from gradus.types import UserError
from tests.comparison.test_table import result

TERMS: dict[str, Any] = {"task": "arithmetic", "problems": 6, "samples": 2}


def asked(*names: str, budget: str = "steps=400", seeds: tuple[int, ...] = (0, 1, 2), **terms: Any) -> Asked:
    arms = tuple(Arm(name, "grpo", (("learning_rate", f"{n + 1}e-4"),)) for n, name in enumerate(names))
    return Asked(Experiment(arms, **{**TERMS, **terms}, seeds=seeds), Choice(arms, choice_of(["grpo"], rates="1").rates), budget_of_race(budget))


Run = Callable[[Job], dict[str, Any]]


def made_up(monkeypatch: pytest.MonkeyPatch, run: Run) -> list[tuple[str, int, float | None]]:
    """Every recipe fits, and runs are not trained: `run` makes their lines. Returns the list of what is run: name, seed, amount."""
    monkeypatch.setattr(race, "entrants_of", lambda experiment, choice, said: Entrants(choice.recipes, (("papo", "images"),)))
    done: list[tuple[str, int, float | None]] = []

    def all_of(jobs: list[Job], processes: int, heard: Any, *, threads: int = 1) -> None:
        for job in jobs:
            done.append((job.arm.name, job.seed, job.pause))
            heard(job, run(job))

    monkeypatch.setattr(race, "carry_out_all", all_of)
    return done


def right(job: Job) -> dict[str, Any]:
    """The contestant `best` solves almost every problem."""
    found = result([4 if job.arm.name == "best" else (n + job.seed) % 3 for n in range(12)])
    found["final"]["right"][0] -= job.seed % 2
    times = {"steps": 1.0, "train": 3.0, "examine": 0.5, "memory": 1.0}
    return {"result": {**found, "spent": {"steps": 1, "tokens": 100.0, "rollouts": 20.0}, "times": times}}


def test_budgets_from_words():
    assert budget_of_race("90s") == Budget("seconds", 90.0)
    assert budget_of_race("rollouts=500") == Budget("rollouts", 500.0)
    for wrong in ("2", "two hours", "token=5"):
        with pytest.raises(UserError, match=r"--budget is|unit of a budget"):
            budget_of_race(wrong)
    assert [amount_of("steps", n) for n in (0.4, 7.9)] == [1.0, 7.0]
    assert amount_of("tokens", 7.9) == 7.9
    assert shown_amount("steps", 1200.0) == "1,200 steps"
    with pytest.raises(UserError, match="--measure is auc"):
        asked("a", measure="auc")


def test_the_course_of_a_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done = made_up(monkeypatch, right)
    told: list[str] = []
    document = raced(asked("a", "b", "c", "best", "e"), tmp_path / "r", said=told.append)
    # rungs 5, 3 x 3 seeds, 2 x 3 seeds cost 5/4 + 3/4 + 6/2 + 6/2 = 8 full runs, so 400 steps give 50
    assert document["full"] == 50
    assert document["amounts"] == [12, 25]
    assert told[0] == "pilot: one step of a"
    assert told[1:3] == [
        "5 contestants of 1 recipe; 1 further recipe does not fit this task or model",
        "3 rungs, 20 runs begun or continued at most: 5 to 12 steps, 3 x 3 seeds to 25 steps, 2 x 3 seeds to 50 steps; about " + told[2].partition("about ")[2],
    ]
    assert done[:6] == [("a", 0, None), ("a", 0, 12), ("b", 0, 12), ("c", 0, 12), ("best", 0, 12), ("e", 0, 12)]
    assert [(name, seed) for name, seed, amount in done if amount == 25] == [(n, s) for s in (0, 1, 2) for n in ("best", "a")]  # two were clearly behind
    assert document["winner"] == "best"
    assert document["says"].startswith("best wins among 5 contestants: accuracy 0.993 after 25 steps over 3 seeds. In the last rung a is 0.")
    assert len(document["lost"]) == 4
    assert document["held"][0]["order"][0] == "best"
    again = raced(asked("a", "b", "c", "best", "e"), tmp_path / "r")
    assert again == document  # from the file
    assert (tmp_path / "r" / "winner.py").is_file()


def test_a_race_that_is_cut_off_goes_on_with_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = ("a", "b", "best", "d")
    made_up(monkeypatch, right)
    straight = raced(asked(*names), tmp_path / "straight")
    for after in (1, 3, 6, 9):
        count = 0

        def cut(job: Job, after: int = after) -> dict[str, Any]:
            nonlocal count
            count += 1
            if count > after:
                raise KeyboardInterrupt
            return right(job)

        made_up(monkeypatch, cut)
        try:
            raced(asked(*names), tmp_path / "cut")
        except KeyboardInterrupt:
            continue
    made_up(monkeypatch, right)
    raced(asked(*names), tmp_path / "cut")
    documents = [json.loads((tmp_path / where / RACE).read_text()) for where in ("straight", "cut")]
    for document in documents:
        del document["times"]
        document["commands"] = [line.replace("/cut/", "/straight/") for line in document["commands"]]
    assert documents[0] == documents[1]
    assert straight["winner"] == "best"


def test_failed_runs_leave_the_race_with_their_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made_up(monkeypatch, lambda job: {"failed": "NaN"} if job.arm.name == "b" and job.pause else right(job))
    document = raced(asked("best", "b", "c"), tmp_path / "r")
    assert ("b", "failed: NaN") in [(loss["name"], loss["reason"]) for loss in document["lost"]]
    made_up(monkeypatch, lambda job: right(job) if job.pause is None else {"failed": "NaN"})
    document = raced(asked("best", "b"), tmp_path / "all")
    assert document["winner"] is None
    assert document["says"] == "No contestant is left: every run failed."
    made_up(monkeypatch, lambda job: {"failed": "no reward"})
    with pytest.raises(UserError, match=r"the race cannot begin, because all of its first runs failed; .* best: no reward; b: no reward"):
        raced(asked("best", "b"), tmp_path / "none")


def test_a_budget_that_is_too_small_is_refused_with_the_one_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made_up(monkeypatch, right)
    with pytest.raises(UserError, match=r"--budget steps=20 is too small for 5 contestants in 3 rungs.*--budget steps=36 or more"):
        raced(asked("a", "b", "c", "best", "e", budget="steps=20"), tmp_path / "r")
    assert raced(asked("a", "b", "c", "best", "e", budget="steps=36"), tmp_path / "s")["winner"] == "best"
    with pytest.raises(UserError, match=r"--budget 0.2m is too small"):
        raced(asked("a", "b", "c", "best", "e", budget="10s"), tmp_path / "t")


def test_a_race_by_the_clock_plans_the_time_beside_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made_up(monkeypatch, right)
    document = raced(asked("a", "best", budget="10m"), tmp_path / "r", processes=2)
    # the pilot: 2 s to start, 0.5 s to examine, steps of 1 s; 6 runs: 6 R + 6 (2 + 0.5 + 0.5) = 2 x 0.9 x 600
    assert document["full"] == pytest.approx(177.0, abs=1.0)
    assert document["times"]["estimate"] == pytest.approx((6 * document["full"] + 6 * 2.5) / 2)


def test_the_budget_ends_a_race_that_has_spent_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made_up(monkeypatch, right)
    monkeypatch.setattr(race, "spent_in", lambda runs, unit: 390.0 if any((tmp_path / "r" / RESULTS).iterdir()) else 0.0)
    document = raced(asked("a", "b", "c", "best", "e", seeds=(0,)), tmp_path / "r")
    assert document["notes"][0] == "the budget ended the race before its last rung"
    assert len(document["held"]) == 1
    assert document["left"][0] == "best"
    assert "The difference to these is not clear yet: " in document["says"]


def test_another_race_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made_up(monkeypatch, right)
    raced(asked("a", "best"), tmp_path / "r")
    with pytest.raises(UserError, match=r"contains a race that differs in budget"):
        raced(asked("a", "best", budget="steps=500"), tmp_path / "r")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    with pytest.raises(UserError, match="contains files but no race"):
        raced(asked("a", "best"), tmp_path / "mine")


def here(jobs: list[Job], processes: int, heard: Any, *, threads: int = 1) -> None:
    for job in jobs:
        heard(job, {"result": carry_out(job, Lines(StringIO()))})


def test_a_promoted_run_is_continued_to_the_bytes_of_one_that_never_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(race, "carry_out_all", here)
    monkeypatch.setattr(race, "entrants_of", lambda experiment, choice, said: Entrants(choice.recipes, ()))
    fields = (("prompts", "2"), ("group", "2"), ("study", "none"), ("agreement.every", "0"))
    small = asked("a", "b", "c", budget="rollouts=60", seeds=(0,), fields=fields, problems=4)
    document = raced(small, tmp_path / "r")
    winner = document["winner"]
    folder = tmp_path / "r" / RUNS / f"{winner}-seed0"
    assert [len(rung["order"]) for rung in document["held"]] == [3, 2]
    assert document["amounts"][0] < document["amounts"][1] <= document["full"]
    assert document["spent"]["rollouts"] <= 60 + 2 * 4
    experiment = replace(small.experiment, budget=Budget("rollouts", document["full"], race.POINTS))
    arm = next(arm for arm in experiment.arms if arm.name == winner)
    whole = carry_out(Job(experiment, arm, 0, tmp_path / "whole", document["amounts"][1]), Lines(StringIO()))
    assert (folder / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    stored = json.loads((tmp_path / "r" / RESULTS / f"{winner}-seed0-rung2.json").read_text())["result"]
    assert stored["final"] == json.loads(json.dumps(whole["final"]))
    losers = [path for path in (tmp_path / "r" / RUNS).iterdir() if path != folder]
    assert all(not checkpoints.steps(path) for path in losers)
    assert checkpoints.steps(folder)
    assert (tmp_path / "r" / PILOT / "0").is_dir()


@pytest.mark.nightly
def test_two_kills_change_no_byte_but_times(tmp_path: Path):
    words = ["race", "grpo", "rloo", "sft", "--rates", "1", "--seeds", "2", "--budget", "rollouts=400", "--problems", "6", "--samples", "2"]
    words += ["--prompts", "2", "--group", "2", "--study.problems", "4", "--save_every", "1", "--run"]

    def run(folder: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "gradus", *words, str(folder)], env={**os.environ, "OMP_NUM_THREADS": "1"})

    for seconds in (15.0, 20.0):
        process = run(tmp_path / "race")
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run(tmp_path / "race").wait() == 0
    killed = json.loads((tmp_path / "race" / RACE).read_text())
    (tmp_path / "race").rename(tmp_path / "killed")
    assert run(tmp_path / "race").wait() == 0
    straight = json.loads((tmp_path / "race" / RACE).read_text())
    for document in (killed, straight):
        del document["times"]
    assert killed == straight
