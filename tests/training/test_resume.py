"""What may change of a run that goes on, and what may not."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradus
from gradus.cli.completion import build_parser
from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from gradus.papers.bases.grpo import grpo
from gradus.training.resume import MAY_CHANGE, OPTIONS, put_back, read_fields, replanned
from gradus.types import UserError


def test_what_the_machine_gives_may_change() -> None:
    given = read_fields(grpo, [("memory", "6GB"), ("setting.keep", "5"), ("guard.returns", "7")])
    assert given == {"setting__memory": "6GB", "setting__keep": 5, "setting__guard__returns": 7}
    changed = replanned(grpo, 9, given)
    assert (changed.setting.memory, changed.setting.keep, changed.setting.guard.returns, changed.setting.steps) == ("6GB", 5, 7, 9)
    assert replanned(grpo, None, {"max_wait": 5.0}) == grpo.but(setting__max_wait=5.0)
    assert replanned(grpo, None, {}) == grpo


@pytest.mark.parametrize("name", ["setting__learning_rate", "setting__prompts", "guard__spike", "credit"])
def test_what_a_run_computes_may_not(name: str) -> None:
    path = name.replace("__", ".").removeprefix("setting.")
    takes = "--steps, --until, --device, --processes, --log, --metrics_port, --trust, --memory, "
    with pytest.raises(UserError, match=rf"--{path} cannot change within a run; gradus resume accepts only {takes}.*export"):
        replanned(grpo, None, {name: 3})


@pytest.mark.parametrize("words", [["--seed", "3"], ["--task", "gsm8k"], ["--reward", "r.py:score"], ["--learning_rate", "0.5"]])
def test_who_asks_a_finished_run_for_what_cannot_change_is_told_that_alone(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"prompts": 2, "group": 2, "eval_every": 0, "max_tokens": 4}
    gradus.train("reinforce", steps=1, run=tmp_path / "run", study=None, **{f"setting__{name}": value for name, value in small.items()})
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "run"), *words]) == 2
    out, said = capsys.readouterr()
    assert f"{words[0]} cannot change within a run; gradus resume accepts only --steps, --until, " in said
    assert "done already" not in out


def test_a_slip_in_an_option_is_told_with_the_option() -> None:
    with pytest.raises(UserError, match=r'unknown option "--untill" \(did you mean --until\?\)'):
        read_fields(grpo, [("untill", "8h")])


def test_every_option_and_field_that_may_change_is_named_in_the_help() -> None:
    parser = build_parser()[1]["resume"]
    epilog = parser.epilog
    assert set(OPTIONS) == {name.removeprefix("--") for a in parser._actions for name in a.option_strings if name.startswith("--")} - {"help"}
    assert epilog is not None
    assert [name for name in MAY_CHANGE if f"--{name}" not in epilog] == []


def test_a_run_goes_on_with_other_limits_to_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"prompts": 2, "group": 2, "save_every": 1, "eval_every": 0, "max_tokens": 4}
    settings = {f"setting__{name}": value for name, value in small.items()}
    whole = gradus.train("reinforce", steps=2, run=tmp_path / "whole", study=None, **settings)
    gradus.train("reinforce", steps=1, run=tmp_path / "run", study=None, **settings)
    words = ["resume", str(tmp_path / "run"), "--steps", "2", "--keep", "7", "--memory", "40GB", "--max_wait", "900"]
    assert main(words) == 0
    folder = RunFolder.open(tmp_path / "run")
    assert folder.metrics() == whole.metrics
    setting = folder.recipe()["recipe"]["setting"]
    assert (setting["keep"], setting["memory"], setting["max_wait"]) == (7, "40GB", 900.0)
    assert folder.gaps(2) == []
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "run"), "--learning_rate", "0.5"]) == 2
    assert "--learning_rate cannot change within a run" in "".join(capsys.readouterr().err.split("\n"))
    assert RunFolder.open(tmp_path / "run").recipe()["recipe"]["setting"]["learning_rate"] != 0.5


@pytest.mark.parametrize("error", [KeyError("player-critic.safetensors"), RuntimeError("size mismatch\n for weights")])
def test_a_checkpoint_that_does_not_fit_the_recipe_is_a_sentence(error: Exception, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {}, {})
    folder.save(3, {}, {"state.json": {}})

    class Other:
        def restore(self, checkpoint: object) -> None:
            raise error

    with pytest.raises(UserError, match=r"step-000003 does not fit .*recipe\.json \(.*\); restore the old file, or use the version"):
        put_back(Other(), folder)  # type: ignore[arg-type]
