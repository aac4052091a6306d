"""`gradus race`: from its words to the race, and from the race to its exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gradus.cli.completion import candidates
from gradus.cli.main import main
from gradus.comparison.race import Asked
from gradus.recipe.registry import recipe_modules
from tests.comparison.test_race_result import document

FOUND = {**document(), "winner": None, "left": [], "held": [], "lost": [], "notes": ["a note"], "says": "It is over.", "spent": {"steps": 3}, "commands": []}


@pytest.fixture
def races(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Asked, str, dict[str, Any]]]:
    seen: list[tuple[Asked, str, dict[str, Any]]] = []

    def raced(asked: Asked, folder: Any, **how: Any) -> dict[str, Any]:
        seen.append((asked, str(folder), how))
        return FOUND

    monkeypatch.setattr("gradus.comparison.race_terms.raced", raced)
    return seen


def test_words_become_a_race(races: list[Any], capsys: pytest.CaptureFixture[str]):
    words = ["race", "grpo", "rloo", "--task", "countdown", "--task.level", "3", "--budget", "30m", "--try", "group=4,8", "--group", "2", "--parallel", "1"]
    assert main(words) == 1  # no winner
    [(asked, folder, how)] = races
    assert folder == "runs/race-grpo-rloo-countdown"
    assert how["processes"] == 1
    assert asked.choice.tries == (("group", ("4", "8")),)
    assert asked.experiment.task_options == (("level", "3"),)
    assert asked.experiment.fields == (("group", "2"),)
    assert capsys.readouterr().out.rstrip().endswith("It is over.")
    assert main(["race", "--family", "bases", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["says"] == "It is over."
    assert races[-1][1] == "runs/race-bases-default"


def test_completion_knows_recipes_and_families():
    assert set(candidates(["race", ""])) == set(recipe_modules())
    assert candidates(["race", "grpo", "rlo"]) == ["rloo"]
    assert candidates(["race", "--family", "ba"]) == ["bases"]
    assert "--rates" in candidates(["race", "--r"])
