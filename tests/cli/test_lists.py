"""Listings of recipes and tasks."""

from __future__ import annotations

import json

import pytest

from gradus.cli.lists import papers, tasks
from gradus.recipe import index
from gradus.types import UserError


def test_papers_are_found() -> None:
    rows = json.loads(papers(search="REINFORCE", as_json=True))
    assert {"reinforce", "grpo"} <= {row["key"] for row in rows}
    assert all("reinforce" in f"{row['key']} {row['base']} {row['about']}".lower() for row in rows)
    assert papers("bases").splitlines()[0].split() == ["recipe", "base", "family", "description"]
    assert {row["family"] for row in json.loads(papers("bases", as_json=True))} == {"bases"}
    with pytest.raises(UserError, match=r"unknown family \"base\" \(did you mean bases"):
        papers("base")


@pytest.mark.parametrize("family", [None, *sorted({row["family"] for row in index.read()["recipes"]})])
def test_every_listing_is_a_table_at_80_columns(family: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = papers(family).splitlines()
    assert lines[0].split() == ["recipe", "base", "family", "description"]
    assert max(map(len, lines)) <= 80
    for row in json.loads(papers(family, as_json=True)):
        at = next(i for i, line in enumerate(lines) if f"{line} ".startswith(f"{row['key']} "))
        assert [word for line in lines[at : at + 3] for word in line.split()][: 3 if row.get("base") else 2][-1] == row["family"]


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
