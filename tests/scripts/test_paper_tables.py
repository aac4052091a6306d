"""The generated tables of docs/papers.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradus.cli.coverage import Line
from gradus.recipe.catalogue import System, systems
from gradus.recipe.claim import Claim
from gradus.recipe.registry import recipe_modules
from scripts.paper_tables import HEAD, folded, papers, rows

CLAIMS = [Claim(says=says, source="a paper", better_by=0.1, task="arithmetic") for says in ("It rises.", "It is <fast>.")]
GRPO = {"key": "grpo", "base": "reinforce", "family": "bases", "about": "Rewards.", "claims": [claim.stored() for claim in CLAIMS]}


def test_a_recipe_has_a_row_for_each_claim_with_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradus.recipe.index.FOLDERS", {"recipes": tmp_path})
    (tmp_path / "bases" / "measured").mkdir(parents=True)
    result = {"claim": CLAIMS[0].digest, "verdict": "opposite", "figure": -0.2, "interval": [-0.3, -0.1], "why": ""}
    (tmp_path / "bases" / "measured" / "grpo.json").write_text(json.dumps([result]))
    first, second = rows(Line(None, GRPO))
    assert first[0] == "`grpo`"
    assert first[1].endswith("2024, [2402.03300](https://arxiv.org/abs/2402.03300)")
    assert first[2:] == ["`reinforce`: Rewards.", "It rises.", "opposite -0.2 [-0.3, -0.1]"]
    assert second == ["", "", "", r"It is \<fast>.", "not measured"]
    assert {len(first), len(second)} == {len(HEAD)}


def test_systems_that_wait_are_folded_by_family() -> None:
    found = list(folded([System(key, family, "On Vines", 2024, waits="values") for key, family in (("a", "credit"), ("b", "data"), ("c", "data"))]))
    assert found[0].splitlines() == ["<details><summary>credit: 1</summary>", "", "- `a`: On Vines (2024). Waits for values.", "", "</details>"]
    assert found[1].count("- `") == 2


def test_the_page_has_every_recipe_and_every_system_once() -> None:
    page = papers()
    assert [key for key in recipe_modules() if page.count(f"| `{key}` |") != 1] == []
    assert [key for key, system in systems().items() if system.waits and page.count(f"- `{key}`: ") != 1] == []
    assert f"{len(systems())} systems of the catalogue: " in page.splitlines()[0]
