"""Listings of recipes and tasks, and what a recipe is made of."""

from __future__ import annotations

import json

import pytest

from gradus.cli.show import diff, listing, papers, show, tasks
from gradus.recipe.registry import recipe_modules
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


def test_a_recipe_is_shown_as_a_tree() -> None:
    shown = show("grpo")
    assert "base: reinforce; family: bases" in shown
    method, setting = shown.split("\nsetting:\n")
    at = method.splitlines().index("  objective")
    assert [line.split() for line in method.splitlines()[at + 1 : at + 7]] == [
        ["policy", "PolicyGradient"],
        ["ratio", "TokenRatio"],
        ["against", "old"],
        ["trust", "Clip"],
        ["low", "0.2"],
        ["high", "0.2"],
    ]
    indents = [len(line) - len(line.lstrip()) for line in method.splitlines()[at : at + 7]]
    assert indents == [2, 4, 6, 8, 6, 8, 8]
    words = [line.split() for line in shown.splitlines()]
    assert ["weight", "none"] in words  # a field that is left empty can be set too
    assert ["betas", "0.9,", "0.999"] in words
    assert ["greedy", "true"] in words
    assert [line for line in setting.splitlines() if line.startswith("  group ")] == ["  group                                  8"]
    assert "  learning_rate                          by rule: gradus explain learning_rate --model FOLDER" in setting.splitlines()
    assert "--players.policy.every 2" in shown
    assert "about" not in method.splitlines()[-1]


def test_recipes_differ_by_what_changes() -> None:
    assert diff("grpo", "grpo") == "grpo -> grpo\n  nothing"
    assert diff("reinforce", "rloo").splitlines() == ["reinforce -> rloo", "  credit                                   BatchBaseline -> LeaveOneOut"]
    lines = [line.split() for line in diff("grpo", "ppo").splitlines()]
    assert ["players.critic", "none", "->", "Player"] in lines
    assert ["+", "model", "Head"] in lines
    assert ["+", "value", "ValueLoss"] in lines
    assert ["objective.kl", "KL", "->", "none"] in lines
    assert ["-", "coefficient", "0.04"] in lines
    assert ["update.epochs", "1", "->", "4"] in lines


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_no_text_is_the_repr_of_an_object(key: str) -> None:
    for text in (show(key), diff("grpo", key)):
        assert not [sign for sign in ("(", "Frozen", "frozenset", "'", "<", "None", "True", "False") if sign in text.split("\n\n", 1)[-1]]


def test_the_last_column_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listing([("a", "one two")], ("name", "what")) == "name  what\na     one two"
    monkeypatch.setenv("COLUMNS", "36")  # 30 are left for the last column
    assert listing([("a", "one " * 10)], ("name", "what")).splitlines() == [
        "name  what",
        "a     one one one one one one one",
        "      one one one",
    ]
