"""What runs share: problems in the order of their first use, held-out problems and initial weights, for recipes of every kind of rollout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gradus import api
from gradus.comparison.equal import drawn, files_in, fingerprints, hash_of, model_hash, start_of
from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.job import asked_of
from gradus.training.budget import Budget
from gradus.training.run import Run

KINDS = ("grpo", "ppo", "dapo", "sft")  # without and with a critic, with groups drawn again, on given answers
SMALL = (("prompts", "4"), ("group", "2"), ("study.problems", "4"), ("study.greedy", "false"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One step of each kind of recipe, with one seed."""
    made = Experiment(tuple(Arm(name, name) for name in KINDS), fields=SMALL, budget=Budget("steps", 1), problems=6)
    home = tmp_path_factory.mktemp("runs")
    return {arm.name: api.launch(made.plan(arm, 3), home / arm.name) for arm in made.arms}


def test_recipes_of_every_kind_see_the_same_problems_in_the_same_order(runs: dict[str, Run]):
    found = {name: [hash_of([p]) for p in drawn(run)] for name, run in runs.items()}
    longest = max(found.values(), key=len)
    assert len(longest) >= 4
    assert all(len(one) >= 2 and one == longest[: len(one)] for one in found.values()), found


def test_they_are_examined_on_the_same_problems(runs: dict[str, Run]):
    made = Experiment((Arm("grpo", "grpo"),), fields=SMALL, problems=6)
    found = [start_of(run, None, [request.problem for request in asked_of(run, made)[0]]) for run in runs.values()]
    assert len({one["held_out"] for one in found}) == 1
    assert len({one["model"] for one in found}) == 1


def test_they_begin_with_the_same_weights():
    made = Experiment(tuple(Arm(name, name) for name in KINDS), fields=SMALL)
    weights = [api.start(made.plan(arm, 3)).players["policy"].policy.network.state_dict() for arm in made.arms]
    for other in weights[1:]:
        assert all(torch.equal(other[name], tensor) for name, tensor in weights[0].items() if name in other)
        assert len(other.keys() & weights[0].keys()) > 10


def test_another_model_has_another_hash(runs: dict[str, Run], tmp_path: Path):
    folder = tmp_path / "model"
    runs["grpo"].players["policy"].policy.save(folder)
    assert model_hash(runs["grpo"], str(folder)) != model_hash(runs["grpo"], None)


def test_a_model_on_that_of_another_player_has_its_files(runs: dict[str, Run]):
    judge = api.start(Experiment((Arm("reward_model", "reward_model"),), fields=(("prompts", "4"),)).plan(Arm("reward_model", "reward_model"), 3))
    assert judge.recipe.players["policy"].model.of.of == "sampler"
    assert model_hash(judge, None) == model_hash(runs["grpo"], None)


def test_the_texts_of_a_plan_name_files(tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w").write_text("1")
    (tmp_path / "model" / ".hidden").write_text("1")
    plan: dict[str, Any] = {"reward": {"path": f"{tmp_path}/a.py:f"}, "players": [{"model": str(tmp_path / "model")}, {"n": 3}], "about": "a. b/c"}
    assert list(fingerprints(plan)) == [str(tmp_path / "a.py"), str(tmp_path / "model" / "w")]
    assert list(fingerprints([f"{tmp_path}/a.py:f*0.5"])) == [str(tmp_path / "a.py")]
    assert fingerprints("/", ".", str(Path.cwd().parent), "x" * 5000, "/\0") == {}
    before = fingerprints(plan)
    (tmp_path / "a.py").write_text("x = 20")
    assert fingerprints(plan) != before
    assert files_in(tmp_path / "a.py") == [tmp_path / "a.py"]
