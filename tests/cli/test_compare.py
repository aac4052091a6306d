"""The words of `gradus compare` around its result: the state of a stopped comparison, and the exit codes of signals."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradus.cli.compare import state_of
from gradus.cli.main import main


def test_a_stopped_comparison_says_what_is_finished_and_how_to_continue(tmp_path: Path):
    assert state_of(tmp_path / "none", 4) == "nothing was trained yet; start it again with the same command"
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "grpo-seed0.json").write_text("{}")
    (tmp_path / "results" / "grpo-seed1.begun").write_text("")
    assert state_of(tmp_path, 4).startswith("1 of 4 runs are finished")
    assert state_of(tmp_path, 4).endswith("the same command continues")


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_signal_has_its_exit_code(stop: BaseException, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def stopped(*_: object, **__: object) -> None:
        raise stop

    monkeypatch.setattr("gradus.comparison.compare.compare", stopped)
    assert main(["compare", "grpo", "rloo", "--run", str(tmp_path / "made")]) == code
    assert capsys.readouterr().err.strip() == "stopped; nothing was trained yet; start it again with the same command"
