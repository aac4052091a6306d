"""The coverage of the catalogue: systems that run, systems that wait, and the counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradus.cli.coverage import Line, counts, covered, plain, shown, told
from gradus.cli.main import main
from gradus.cli.show import show
from gradus.comparison.ground import grounds
from gradus.recipe.catalogue import System, systems
from gradus.recipe.claim import Claim
from gradus.recipe.registry import recipe_modules
from gradus.types import UserError

WAITS = System("vine", "credit", "On Vines", 2024, waits="values")
RUNS = System("tree", "credit", "On Trees", 2023)
TREE = {"key": "tree", "family": "credit", "base": "grpo", "about": "Values on a tree.", "tests": 7}
BUSH = {**TREE, "key": "bush"}
BASE = {**TREE, "key": "sft", "family": "bases"}
LINES = [Line(None, BASE), Line(None, BUSH), Line(RUNS, TREE), Line(WAITS, None)]


def test_a_row_says_whether_a_system_runs_or_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    rows = [line.split(maxsplit=3) for line in told(LINES).splitlines()]
    assert rows[3] == ["tree", "credit", "runs", "7          Values on a tree."]
    assert rows[4] == ["vine", "credit", "waits", "On Vines (2024): waits for values"]
    assert told(LINES).splitlines()[-1] == "0 claims: 0 seen, 0 not seen, 0 opposite, 0 not measured; 3 recipes without a claim"
    assert told([]).startswith("no system and no recipe has this text")


def test_a_recipe_that_waits_for_its_modality_says_so() -> None:
    line = Line(System("tree", "credit", "On Trees", 2023, modality="videos"), TREE)
    assert line.about == "Values on a tree. It waits for a policy that reads videos."
    assert plain([line])[0]["modality"] == "videos"
    assert "modality" not in plain([Line(RUNS, TREE)])[0]
    assert "reads videos" in told([line])


def test_the_counts_are_those_of_the_lines() -> None:
    assert counts(LINES) == "2 systems of the catalogue: 1 run, 1 wait; 1 base recipe and 1 variant run"
    assert counts(LINES[3:]) == "1 system of the catalogue: 0 run, 1 wait"


def test_claims_are_counted_by_their_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradus.recipe.index.FOLDERS", {"recipes": tmp_path})
    monkeypatch.setenv("COLUMNS", "120")
    claims = [Claim(says=says, source="a paper", better_by=0.1, task="arithmetic") for says in ("It rises.", "It is fast.", "It is small.")]
    (tmp_path / "credit" / "measured").mkdir(parents=True)
    results = [{"claim": claim.digest, "verdict": "seen", "figure": 0.2, "interval": [0.1, 0.3], "why": ""} for claim in claims[:2]]
    (tmp_path / "credit" / "measured" / "tree.json").write_text(json.dumps(results))
    tree, bush = ({**row, "claims": [claim.stored() for claim in claims]} for row in (TREE, BUSH))
    lines = [Line(RUNS, tree), Line(None, {**bush, "claims": bush["claims"][:1]}), Line(WAITS, None)]
    rows = told(lines).splitlines()
    assert rows[1].endswith("7  2 seen, 1 not measured  Values on a tree.")
    assert rows[2].endswith("7  not measured            Values on a tree.")
    assert rows[-1] == "4 claims: 2 seen, 0 not seen, 0 opposite, 2 not measured; 0 recipes without a claim"
    assert plain(lines)[0]["claims"][0] == {"says": "It rises.", "verdict": "seen", "figure": "+0.2 [0.1, 0.3]"}


def test_all_systems_and_all_recipes_are_covered() -> None:
    lines = covered()
    assert {line.key for line in lines} == {*systems(), *recipe_modules()}
    assert len(lines) == len({line.key for line in lines})
    assert {line.key for line in lines if line.recipe is not None} >= set(recipe_modules())
    assert f"{len(systems())} systems of the catalogue: " in told(lines).splitlines()[-2]
    states = [(line.family, line.recipe is None) for line in lines]
    assert states == sorted(states)


def test_lines_are_found_by_family_and_by_text() -> None:
    assert {line.family for line in covered("search")} == {"search"}  # a family without a recipe
    assert "rloo" in {line.key for line in covered("bases")} & {line.key for line in covered("objectives")}
    assert {"think2sql"} <= {line.key for line in covered(search="SQL")}
    assert {"quasar"} <= {line.key for line in covered(search="quantum circuits")}  # in the reason
    assert {"gigpo"} <= {line.key for line in covered("credit", "anchor")} | {line.key for line in covered("credit", "same state")}
    with pytest.raises(UserError, match=r'unknown family "serch" \(did you mean search'):
        covered("serch")


def test_the_same_plain() -> None:
    assert plain(LINES)[2:] == [
        {"key": "tree", "family": "credit", "state": "runs", "title": "On Trees", "year": 2023, "about": "Values on a tree.", "tests": 7, "claims": []},
        {"key": "vine", "family": "credit", "state": "waits", "title": "On Vines", "year": 2024, "waits": "values"},
    ]
    assert json.loads(json.dumps(plain(covered())))[0]["family"] == "agents"


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "--all", "--family", "search"]) == 0
    assert "waits" in capsys.readouterr().out
    assert main(["papers", "--all", "--family", "search", "--json"]) == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"runs", "waits"}


def test_a_system_that_waits_is_shown_with_its_reason_and_recipes_near_it() -> None:
    lines = shown("quasar").splitlines()
    system = systems()["quasar"]
    assert lines[0] == f"quasar: {system.title} ({system.year})"
    assert f"It does not run yet: it waits for {system.waits}." in lines
    near = lines[-1].removeprefix("nearest recipes: ").partition(";")[0].split(", ")
    assert near[0] == "grpo"
    assert set(near) <= set(recipe_modules())
    assert shown("gigpo") == show("gigpo")


def test_a_wrong_name_suggests_recipes_and_systems() -> None:
    with pytest.raises(UserError, match=r'unknown recipe "zerosarch" \(did you mean zerosearch'):
        shown("zerosarch")
    with pytest.raises(UserError, match=r'unknown recipe "gigop" \(did you mean gigpo'):
        shown("gigop")


def test_a_ground_is_shown() -> None:
    assert shown(grounds()[0])
    with pytest.raises(UserError, match="unknown recipe"):
        shown("nothing_like_it")


def test_the_list_imports_nothing_heavy() -> None:
    code = "import sys; from gradus.cli.main import main; main(['papers', '--all']); print({'torch', 'scipy', 'transformers', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
