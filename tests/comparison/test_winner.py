"""The winner's file loads as the recipe that the race trained; its commands are understood."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from gradus.cli.parser import build_parser, planned_of, split_fields
from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.winner import FILE, commands, source_of, train_command
from gradus.recipe.core import PROFILES
from gradus.recipe.registry import recipe
from gradus.training.budget import Budget
from tests.small_model import save_small_model

OWN = '''from gradus import load_recipe

mine = load_recipe("rloo").derive("mine", "Mine.", setting__group=4)
'''


@pytest.mark.parametrize(
    ("word", "how"),
    [
        (Arm("grpo learning_rate=3e-4", "grpo", (("learning_rate", "3e-4"),)), {}),
        (Arm("grpo", "grpo"), {"fields": (("prompts", "3"), ("objective.policy.trust.high", "0.3"))}),
        (Arm("grpo", "grpo"), {"profile": "small"}),
        (Arm("mine", "mine.py:mine"), {"model": "model"}),
        (Arm("sft:5,grpo:5", "sft:5,grpo:5"), {}),
    ],
)
def test_the_file_is_the_recipe_that_was_trained(word: Arm, how: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    save_small_model(tmp_path / "model")
    experiment = Experiment((word,), "arithmetic", (("level", "2"),), budget=Budget("steps", 40), **how)
    folder = tmp_path / "race"
    folder.mkdir()
    (folder / FILE).write_text(source_of(experiment, word, folder))
    words = shlex.split(train_command(experiment, folder))[1:]
    known, fields = split_fields(words, build_parser()[1]["train"])
    options = build_parser()[0].parse_args(known)
    options.fields, options.beside = fields, []
    planned, trained = planned_of(options), experiment.plan(word, 0)
    names = dict.fromkeys(("key", "base", "about", "family", "parent"))
    assert replace(planned.recipe, **names) == replace(trained.recipe, **names)
    assert (planned.task, planned.task_options, planned.model, planned.budget) == (trained.task, trained.task_options, trained.model, trained.budget)
    assert planned.recipe.key == "winner"
    if "profile" in how:
        assert recipe(f"{folder / FILE}:winner").setting == PROFILES["small"]


def test_commands_train_on():
    experiment = Experiment((Arm("grpo", "grpo"),), "mine.jsonl", device="cuda", reward=("r.py:score",), budget=Budget("steps", 40))
    whole = commands(experiment, Path("race"), Path("race/runs/grpo-seed0"), whole=True)
    anew = "gradus train race/winner.py:winner --task mine.jsonl --reward r.py:score --device cuda --budget steps=40"
    assert whole == ("gradus resume race/runs/grpo-seed0 --steps 80", anew)
    assert commands(experiment, Path("race"), Path("race/runs/grpo-seed0"), whole=False) == ("gradus resume race/runs/grpo-seed0", anew)
    tokens = replace(experiment, budget=Budget("tokens", 123456.789))
    assert commands(tokens, Path("r"), Path("r/runs/x"), whole=True)[0].endswith("--budget tokens=123456.789")
