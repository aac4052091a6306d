"""`gradus claims`: the table, JSON, and the sentence of a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradus.cli.main import main
from gradus.comparison import claims
from gradus.comparison.claims import keep
from gradus.recipe import index
from gradus.recipe.claim import Claim

ONE = Claim(says="It learns faster.", source="ours", against="grpo", task="arithmetic", better_by=0.1)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with one claim, whose results lie in a folder of the test."""
    (tmp_path / "credit").mkdir()
    rows: dict[str, Any] = {"recipes": [{"key": "mine", "family": "credit", "claims": [ONE.stored()]}], "tasks": []}
    monkeypatch.setattr(index, "read", lambda: rows)
    monkeypatch.setattr(index, "FOLDERS", {"recipes": tmp_path})
    keep("mine", ONE, {"verdict": "not seen", "figure": 0.05, "interval": [-0.01, 0.11]})
    return tmp_path


def test_the_table(tree, capsys):
    assert main(["claims"]) == 0
    told = capsys.readouterr().out.split("\n")
    assert told[0].split() == ["recipe", "asked", "figure", "[95", "%]", "verdict", "claim"]
    assert " ".join(told[1].split()) == "mine at least +0.1 +0.05 [-0.01, 0.11] not seen It learns faster."
    assert told[3] == "1 claim: 1 not seen"


def test_the_sentence_of_a_result(tree, capsys):
    assert main(["claims", "mine", "--why", "Too few seeds."]) == 0
    assert "It learns faster. Why: Too few seeds." in " ".join(capsys.readouterr().out.split())
    assert main(["claims", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["claim"] == ONE.stored()
    assert (found["standing"], found["result"]["why"], found["result"]["figure"]) == ("not seen", "Too few seeds.", 0.05)


def test_no_sentence_without_a_measurement(tree, capsys):
    claims.file_of("credit", "mine").unlink()
    assert main(["claims", "mine", "--why", "More."]) == 2
    assert "has no result, or the claim has changed after its measurement; measure the claim with --run, and then explain the result" in capsys.readouterr().err


def test_a_claim_is_measured_and_its_failure_told(tree, capsys, monkeypatch):
    from gradus.comparison import claim_runs
    from gradus.types import UserError

    def run(of: Any, **_: Any) -> None:
        keep(of.key, of.claim, {"verdict": "seen", "figure": 0.2, "interval": [0.1, 0.3]})

    monkeypatch.setattr(claim_runs, "run_claim", run)
    assert main(["claims", "mine", "--run"]) == 0
    told = capsys.readouterr()
    assert "mine: It learns faster." in told.err
    assert "+0.2 [0.1, 0.3]" in told.out

    def failed(of: Any, **_: Any) -> None:
        raise UserError("a run failed; look at it")

    monkeypatch.setattr(claim_runs, "run_claim", failed)
    assert main(["claims", "--run"]) == 1
    assert "gradus: a run failed; look at it" in capsys.readouterr().err
