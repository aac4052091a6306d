"""Start models: made once, found again, and part of the terms of their ground."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradus.comparison.experiment import Elsewhere
from gradus.comparison.ground import Ground, Pair, Start
from gradus.comparison.starts import elsewhere_of, made, plan_of, shown, terms_of

PAIR = Pair("grpo", "rloo", "accuracy", "a reason")
SMALL = {"prompts": "2", "group": "2", "max_tokens": "8"}


def test_further_tasks_in_words():
    assert elsewhere_of("countdown") == Elsewhere("countdown", "countdown")
    assert elsewhere_of("deep=string_ops --level 5") == Elsewhere("deep", "string_ops", (("level", "5"),))


def test_the_plan_of_a_start():
    planned = plan_of(Start("sft", "countdown", 7, {"level": "2"}, {"learning_rate": "1e-3"}, seed=3), None)
    assert (planned.task, planned.seed, planned.task_options) == ("countdown", 3, (("level", "2"),))
    assert (planned.recipe.setting.steps, planned.recipe.setting.learning_rate, planned.recipe.study) == (7, 1e-3, None)


def test_the_first_problems_name_a_start():
    two, three = (shown(plan_of(Start("sft", "countdown", 7, {"level": level}), None)) for level in "23")
    assert len(two) == 8
    assert two == shown(plan_of(Start("sft", "countdown", 9, {"level": "2"}), None))
    assert not set(two) & set(three)


@pytest.mark.alone
def test_a_start_is_made_once_and_is_the_model_of_its_ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    start, said = Start("grpo", "arithmetic", 1, fields=SMALL), list[str]()
    ground = Ground("g", "About.", "countdown", "steps=2", PAIR, {"level": "2"}, start, measures=("accuracy", "distinct"), others=("arithmetic",))
    terms = terms_of(ground, said.append)
    assert len(said) == 1
    assert (Path(terms["model"]) / "model.safetensors").is_file()
    assert (terms["task"], terms["task_options"], terms["measure"], terms["shows"]) == ("countdown", (("level", "2"),), "accuracy", ("distinct",))
    assert terms["others"] == (Elsewhere("arithmetic", "arithmetic"),)
    monkeypatch.setattr("gradus.api.launch", lambda *_, **__: pytest.fail("the start was made again"))
    assert str(made(start)) == terms["model"]
    assert len(said) == 1
