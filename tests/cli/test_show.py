"""Listings of recipes and tasks, and what a recipe is made of."""

from __future__ import annotations

import json

import pytest

from gradus.cli.show import brief, diff, listing, papers, show, tasks
from gradus.recipe.core import Setting
from gradus.recipe.registry import recipe
from gradus.types import UserError


def test_papers_are_found() -> None:
    rows = json.loads(papers(search="REINFORCE", as_json=True))
    assert {"reinforce", "grpo"} <= {row["key"] for row in rows}
    assert all("reinforce" in f"{row['key']} {row['base']} {row['about']}".lower() for row in rows)
    assert papers("bases").splitlines()[0].split() == ["recipe", "base", "family", "description"]
    assert {row["family"] for row in json.loads(papers("bases", as_json=True))} == {"bases"}
    with pytest.raises(UserError, match=r"unknown family \"base\" \(did you mean bases"):
        papers("base")


def test_a_search_without_a_find_says_so() -> None:
    assert papers(search="zzz") == 'no recipe has "zzz" in its name or description'
    assert papers("bases", "zzz").endswith("; family bases")
    assert json.loads(papers(search="zzz", as_json=True)) == []


def test_tasks_are_listed() -> None:
    assert {"arithmetic", "string_ops"} <= {row["name"] for row in json.loads(tasks(as_json=True))}
    assert tasks().splitlines()[0].split() == ["task", "description"]


def test_tasks_of_a_package_are_listed() -> None:
    pytest.importorskip("reasoning_gym")
    assert "reasoning_gym:chain_sum" in tasks("reasoning_gym").splitlines()
    assert json.loads(tasks("reasoning_gym", as_json=True)) == tasks("reasoning_gym").splitlines()
    with pytest.raises(UserError, match=r"unknown package \"reasoning-gym\" \(did you mean reasoning_gym"):
        tasks("reasoning-gym")


def test_a_recipe_is_shown() -> None:
    shown = show("grpo")
    assert "base: reinforce; family: bases" in shown
    assert shown.count("Unclipped() -> Clip(low=0.2, high=0.2)") == 1
    assert [line.split() for line in shown.splitlines() if "setting.group" in line] == [["setting.group", "8"]]
    method, setting = shown.split("\nsetting:\n")
    assert "setting." not in method
    assert ["setting.max_tokens", "none"] in [line.split() for line in setting.splitlines()]  # a field that is left empty can be set too
    assert ["objective.policy.weight", "none"] in [line.split() for line in method.splitlines()]
    assert all(line.startswith("  setting.") for line in setting.splitlines())


def test_recipes_differ_by_what_changes() -> None:
    assert diff("grpo", "grpo") == "grpo -> grpo\n  nothing"
    lines = diff("reinforce", "rloo").splitlines()
    assert lines[0] == "reinforce -> rloo"
    assert [line.split()[0] for line in lines[1:]] == ["credit"]


def test_parts_in_brief() -> None:
    assert brief(recipe("grpo").objective["policy"].trust) == "Clip(low=0.2, high=0.2)"
    assert brief(Setting(steps=3)).startswith("Setting(learning_rate=0.0001, warmup=5, steps=3,")
    assert brief("a") == "'a'"


def test_the_last_column_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listing([("a", "one two")], ("name", "what")) == "name  what\na     one two"
    monkeypatch.setenv("COLUMNS", "36")  # 30 are left for the last column
    assert listing([("a", "one " * 10)], ("name", "what")).splitlines() == [
        "name  what",
        "a     one one one one one one one",
        "      one one one",
    ]
