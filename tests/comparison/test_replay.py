"""A run is repeated from its start, and both runs are compared."""

from __future__ import annotations

import json
import shutil

import pytest

import gradus
from gradus.api import train
from gradus.cli.main import main
from gradus.comparison.replay import replay
from gradus.recipe.registry import recipe
from gradus.types import UserError
from gradus.types.systems import Streaming
from tests.training.test_ahead import SMALL


def test_a_replay_has_the_same_bytes(tmp_path):
    words = {**SMALL, "setting__save_every": 2}
    made = recipe("grpo").but(system=Streaming(staleness=2, workers=3, deadline=0.01))
    train(made, steps=6, run=tmp_path / "run", **words)
    found = replay(tmp_path / "run", tmp_path / "again")
    assert (found.steps, found.differs) == (6, None)
    assert (tmp_path / "run/facts.jsonl").read_text() == (tmp_path / "again/facts.jsonl").read_text()
    facts = [json.loads(line) for line in (tmp_path / "run/facts.jsonl").read_text().splitlines()]
    assert len({tuple(map(tuple, json.loads(f["reason"]))) for f in facts}) == 6


def test_a_difference_is_found(tmp_path):
    train(recipe("grpo"), steps=2, run=tmp_path / "run", **SMALL)
    path = tmp_path / "run/metrics.jsonl"
    path.write_text(path.read_text().replace('"step": 1,', '"step": 1, "other": 1.0,'))
    assert replay(tmp_path / "run", tmp_path / "again").differs == 1


def test_a_killed_run_obeys_its_facts(tmp_path):
    """The steps that had stored their groups are repeated with these groups."""
    made = recipe("grpo").but(system=Streaming(staleness=1, workers=2))

    def fall(run, row, groups):
        if row["step"] == 3:
            raise RuntimeError("the machine fails")

    with pytest.raises(RuntimeError, match="the machine fails"):
        train(made, steps=6, run=tmp_path / "run", on_step=fall, setting__save_every=2, **SMALL)
    before = (tmp_path / "run/facts.jsonl").read_text()
    gradus.resume(tmp_path / "run")
    after = (tmp_path / "run/facts.jsonl").read_text()
    assert after.startswith(before)
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


def test_the_command_compares_and_says_where_a_run_differs(tmp_path, capsys):
    train(recipe("grpo"), steps=2, run=tmp_path / "run", **SMALL)
    assert main(["replay", str(tmp_path / "run")]) == 0
    assert f"all 2 steps are equal: metrics and saved weights have the same bytes; the repeated run: {tmp_path}/run-again" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "run")]) == 2
    assert "run-again" in capsys.readouterr().err
    (saved,) = (tmp_path / "run").glob("checkpoints/*2*/model/model.safetensors")
    saved.write_bytes(saved.read_bytes()[:-1] + b"x")
    assert main(["replay", str(tmp_path / "run"), "--run", str(tmp_path / "third")]) == 1
    assert "step 2 differs" in capsys.readouterr().out


def test_a_run_without_a_step_is_refused(tmp_path):
    train(recipe("grpo"), steps=1, run=tmp_path / "run", **SMALL)
    (tmp_path / "run/metrics.jsonl").unlink()
    shutil.rmtree(tmp_path / "run/checkpoints")
    with pytest.raises(UserError, match="has no finished step, so there is nothing to repeat"):
        replay(tmp_path / "run", tmp_path / "again")
