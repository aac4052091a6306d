"""`gradus report`: the page of one run, and of several."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradus.cli.main import main
from gradus.lab.folder import RunFolder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a", "b"):
        run = RunFolder.create(tmp_path / name, {"recipe": {"key": "grpo"}, "task": "arithmetic", "seed": 0}, {})
        run.append_metrics(0, {"reward": 0.5})
        run.append_metrics(1, {"reward": 0.75})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_pages_of_one_and_of_two_runs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a"]) == 0
    assert capsys.readouterr().out == "a/report.html\n"
    assert main(["report", "a", "b/"]) == 0
    assert capsys.readouterr().out == "runs/report-a-b.html\n"
    assert (home / "runs" / "report-a-b.html").is_file()
    assert main(["report", "a", "b", "--by", "tokens", "--out", "two.html"]) == 0
    assert "tokens sampled" in (home / "two.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone"], "gone contains no run, because"),
        (["a", "--by", "tokens"], "--by is only for the page of several runs"),
        (["a", "--out", "x.html"], "--out is only for the page of several runs"),
        (["a", "b", "--by", "token"], 'unknown axis "token" (did you mean tokens'),
    ],
)
def test_what_cannot_be_done_is_told(home: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["report", *words]) == 2
    assert said in capsys.readouterr().err
