"""`gradus top`: a run's state once, as text and as JSON, and until the run ends."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path

import pytest

from gradus.cli.main import main
from gradus.cli.top import alive
from gradus.lab.folder import RunFolder
from gradus.lab.status import write_status
from tests.lab.test_top import STATE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    RunFolder.create(tmp_path / "run", {"recipe": {"key": "grpo"}, "task": "arithmetic", "seed": 0}, {})
    write_status(tmp_path / "run", {**STATE, "process": os.getpid(), "machine": socket.gethostname()})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--once"]])
def test_once(home, capsys, words):
    assert main(["top", "run", *words]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("grpo on arithmetic  step 5 of 20")
    assert "\x1b" not in shown
    assert "The run has written no state for" in shown  # the state is old, and its process exists


def test_json(home, capsys):
    assert main(["top", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recent"] == STATE["recent"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["gone"], "gone contains no run"), (["run", "--every", "0"], "--every is 0; give a number of seconds above 0")],
)
def test_mistakes(home, capsys, words, said):
    assert main(["top", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_has_not_begun(home, capsys):
    (home / "run/status.json").unlink()
    assert main(["top", "run"]) == 2
    assert "run has no status.json that this version can read" in capsys.readouterr().err


def test_a_terminal_shows_the_run_until_it_ends(home, monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    seen: list[float] = []

    def waited(seconds: float) -> None:
        seen.append(seconds)
        write_status(home / "run", {**STATE, "state": "finished" if len(seen) == 2 else "running", "process": os.getpid(), "machine": socket.gethostname()})

    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("gradus.cli.top.time.sleep", waited)
    assert main(["top", "run", "--every", "3"]) == 0
    assert seen == [3.0, 3.0]
    assert "finished" in screen.getvalue()


def test_ctrl_c_ends_the_view_and_not_with_an_error(home, monkeypatch):
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradus.runtime.terminal.is_terminal", lambda _: True)
    monkeypatch.setattr("gradus.cli.top.time.sleep", interrupted)
    assert main(["top", "run"]) == 0


def test_whether_the_process_exists():
    here = {"machine": socket.gethostname()}
    assert alive({**here, "process": os.getpid()}) is True
    assert alive({**here, "process": 1}) is True
    assert alive({**here, "process": 2**22 + 1}) is False  # above the largest number of a process
    assert alive({"machine": "another", "process": os.getpid()}) is None
