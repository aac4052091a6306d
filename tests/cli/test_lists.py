"""Listings of recipes and tasks."""

from __future__ import annotations

import json

import pytest

from gradus.cli.lists import papers, tasks
from gradus.types import UserError


def test_papers_are_found() -> None:
    rows = json.loads(papers(search="REINFORCE", as_json=True))
    assert {"reinforce", "grpo"} <= {row["key"] for row in rows}
    assert all("reinforce" in f"{row['key']} {row['base']} {row['about']}".lower() for row in rows)
    assert papers("control").splitlines()[0].split() == ["recipe", "base", "family", "description"]
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


@pytest.mark.parametrize("columns", [80, 120])
def test_listings_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for text in (papers(), tasks()):
        lines = text.splitlines()
        assert max(map(len, lines)) <= columns
        assert max(map(len, lines)) > columns - 12  # the width is used
    listed = papers()
    assert all(row["about"].split()[-1] in listed for row in json.loads(papers(as_json=True)))
