"""`gradus screen`: what it prints, what it writes, and that a run trains on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradus.cli.main import main


def test_it_writes_the_band_and_a_run_trains_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["screen", "arithmetic", "rows.jsonl", "--keep", "0.2..0.9", "--samples", "4", "--problems", "12", "--task.level", "2"]) == 0
    told = capsys.readouterr().out
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert f"{len(rows)} of 12 problems have a pass rate from 0.2 to 0.9" in told
    assert "train on it: gradus train grpo --task arithmetic --task.level 2 --task.problems rows.jsonl" in told
    assert {row["pass_rate"] for row in rows} <= {0.25, 0.5, 0.75}
    assert all(row["problem"]["meta"]["map"]["difficulty"] == 2 for row in rows)
    quick = ["--steps", "1", "--prompts", "2", "--group", "2", "--study", "none"]
    assert main(["train", "grpo", "--task", "arithmetic", "--task.problems", "rows.jsonl", "--run", "run", *quick]) == 0
    assert "rows.jsonl" in json.loads(Path("run/provenance.json").read_text())["data"]


def test_as_json_it_holds_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "all.jsonl")
    assert main(["screen", "arithmetic", target, "--keep", "0..1", "--samples", "2", "--problems", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["screen/problems"], found["screen/kept"], found["file"]) == (4, 4, target)
