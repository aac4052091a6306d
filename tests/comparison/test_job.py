"""The parts of a result: readings of a metric, the curve, tokens by purpose, and the identity by which a finished run is reused."""

from __future__ import annotations

import mmap
from dataclasses import replace
from pathlib import Path

import pytest

from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.job import Job, by_purpose, cost, curve, forget_peak, identity, peak_memory, readings
from gradus.testing.methods import toy_group
from gradus.training.budget import Budget


def test_a_run_has_a_peak_of_its_own():
    with mmap.mmap(-1, 320_000_000) as held:  # a mapping: the system gets it back at once, which an allocator does not promise
        held.write(b"1" * len(held))
        before = peak_memory()
    forget_peak()
    assert peak_memory() < before - 2e8


V = {"torch": "1"}
ROWS = [
    {"step": 0, "reward": 0.1, "held_out/accuracy": 0.2, "tokens/rollout": 10, "tokens/rollout/critic": 3, "tokens/evaluate": 5},
    {"step": 1, "reward": 0.2, "tokens/rollout": 20},
    {"step": 2, "held_out/accuracy": 0.5},
]


def test_readings_of_a_metric():
    found = readings([1.0, 4.0, 2.0, 3.0])
    assert found == {"first": 1.0, "last": 3.0, "mean": 2.5, "max": 4.0, "min": 1.0, "gain": 2.0, "drop": 2.0, "variation": 1.25**0.5 / 2.5}
    assert readings([]) == {}


def test_scores_stand_at_what_was_spent_before_them():
    assert curve("tokens", ROWS, {}, False) == [[0, 0.2], [30, 0.5]]
    assert curve("steps", ROWS, {}, False) == [[0, 0.2], [2, 0.5]]


def test_tokens_of_each_purpose_are_summed():
    assert by_purpose(ROWS) == {"evaluate": 5, "rollout": 30}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(Experiment((Arm("grpo", "grpo"),), budget=Budget("steps", 2)), Arm("grpo", "grpo"), 0, tmp_path / "run")


def test_the_tokens_per_answer_have_every_player_once():
    assert cost({"evaluate": 90, "evaluate/value": 30}, [toy_group(1, 0), toy_group(1)]) == {"answer_tokens": 30.0}
    assert cost({}, []) == {"answer_tokens": 0.0}


def test_the_identity_is_what_decides_the_result(job: Job, tmp_path: Path):
    same = replace(job, arm=Arm("another name", "grpo"), folder=tmp_path / "elsewhere")
    assert identity(same, V) == identity(job, V)
    others = [
        replace(job, seed=1),
        replace(job, arm=Arm("grpo", "grpo", (("group", "2"),))),
        replace(job, arm=Arm("grpo", "rloo")),
        replace(job, experiment=replace(job.experiment, problems=7)),
        replace(job, experiment=replace(job.experiment, budget=Budget("tokens", 2))),
        replace(job, experiment=replace(job.experiment, task="countdown")),
    ]
    others += [replace(job, experiment=replace(job.experiment, reward=("Verified*2",)))]
    assert identity(job, {"torch": "2"}) != identity(job, V)
    assert len({identity(one, V) for one in (job, *others)}) == 1 + len(others)


def test_the_identity_holds_the_content_of_every_file(job: Job, tmp_path: Path):
    reward, problems, model = tmp_path / "mine.py", tmp_path / "mine.jsonl", tmp_path / "model"
    model.mkdir()
    files = {reward: "def score(completions, **columns):\n    return [0.0]\n", problems: '{"prompt": "1", "answer": "1"}\n', model / "weights": "1"}
    for path, text in files.items():
        path.write_text(text)
    job = replace(job, experiment=replace(job.experiment, reward=(f"{reward}:score",), task=str(problems), model=str(model)))
    found = [identity(job, V)]
    for path, text in files.items():
        path.write_text(text + " ")
        found.append(identity(job, V))
    assert len(set(found)) == 4
