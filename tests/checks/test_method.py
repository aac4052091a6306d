"""A toy update is part of `gradus check`: a method's faults are findings, and a note is no error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradus import load_recipe
from gradus.checks import findings
from gradus.checks.method import of_method
from gradus.cli.main import main

WRONG = '''
from dataclasses import dataclass

from gradus import load_recipe


@dataclass(frozen=True)
class Centred:
    separable = True

    def losses(self, log_ratio, advantages, batch):
        return -log_ratio.exp() * (advantages - advantages.mean()), {}


centred = load_recipe("dr_grpo").derive("centred", "Advantages less their mean.", objective__policy__trust=Centred())
'''


def test_a_sound_method_is_ok_and_a_note_stands_beside_it() -> None:
    assert [f.verdict for f in of_method(load_recipe("ppo"))] == ["ok"]
    found = list(of_method(load_recipe("grpo")))
    assert [(f.check, f.verdict) for f in found] == [("method", "note"), ("method", "ok")]
    assert findings.passed(found)
    assert findings.summary(found) == "nothing is wrong: a run may start"


def test_what_is_left_out_is_not_called_ok() -> None:
    found = list(of_method(load_recipe("grpo").but(requires=frozenset({"tests"}))))
    assert [f.verdict for f in found] == ["not checked"]


def test_the_command_finds_a_wrong_separable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "centred.py").write_text(WRONG)
    assert main(["check", f"{tmp_path}/centred.py:centred", "--task", "arithmetic", "--samples", "0", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (found,) = [f for f in told["findings"] if f["check"] == "method"]
    assert found["verdict"] == "wrong"
    assert "Centred.losses (centred.py, line 11) depends on the micro-batch, though it declares separable = True" in found["says"]
    assert [f["check"] for f in told["findings"] if f["verdict"] == "wrong"] == ["method"]  # all else is looked at, and sound
