"""`gradus explain` gives the limit and the temperature that a run uses, for every combination of the places that set them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from gradus.api import start
from gradus.cli.main import main
from gradus.cli.parser import build_parser, planned_of, split_fields
from gradus.training.plan import Plan

TASK = """
from dataclasses import replace
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.types import Sampling
task = replace(arithmetic(), name="own", sampling=Sampling(max_tokens=64, temperature=0.7, stops=("#",)))
"""
TASKS = {
    "own limit, equal to the default": ["--task", "own.py:task"],
    "own limit by level": ["--task", "arithmetic", "--task.level", "1"],
    "none": ["--task", "problems.jsonl"],
    "typed for the task": ["--task", "problems.jsonl", "--task.sampling.max_tokens", "64", "--task.sampling.temperature", "0.9"],
    "mixture": ["--task", "own.py:task,problems.jsonl"],
    "default task": [],
}
TYPED = {"nothing": [], "both": ["--max_tokens", "7", "--temperature", "0.5"], "none": ["--max_tokens", "none"]}
EXPECTED = {  # (task, profile) -> the limit if nothing is typed
    **{("own limit, equal to the default", p): 64 for p in ("tiny", "small", "paper")},
    **{("own limit by level", p): 24 for p in ("tiny", "small", "paper")},
    **{("default task", p): 48 for p in ("tiny", "small", "paper")},
    **{("typed for the task", p): 64 for p in ("tiny", "small", "paper")},
    **{("none", p): n for p, n in (("tiny", 64), ("small", 512), ("paper", 1024))},
    **{("mixture", p): n for p, n in (("tiny", 64), ("small", 512), ("paper", 1024))},
}
HEAT = {"own limit, equal to the default": 0.7, "mixture": 0.7, "typed for the task": 0.9}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(TASK)
    Path("problems.jsonl").write_text("".join(json.dumps({"prompt": f"{n}+1", "answer": n + 1}) + "\n" for n in range(4)))
    return tmp_path


def planned(words: list[str]) -> Plan:
    parser, commands = build_parser()
    known, fields = split_fields(["train", "grpo", *words], commands["train"])
    options = parser.parse_args(known)
    options.fields, options.beside = fields, []
    return planned_of(options)


def explained(capsys: pytest.CaptureFixture[str], field: str, words: list[str]) -> dict[str, object]:
    assert main(["explain", field, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", TASKS)
def test_what_is_explained_is_what_a_run_uses(kind: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for profile, typed in itertools.product(("tiny", "small", "paper"), TYPED):
        words = [*TASKS[kind], "--profile", profile, *TYPED[typed]]
        run = start(planned([*words, "--precision", "float32"]))
        used = run.world(run.recipe, "train").sampling
        said = {name: explained(capsys, name, ["grpo", *words]) for name in ("max_tokens", "temperature")}
        assert said["max_tokens"]["value"] == used.max_tokens == (7 if typed == "both" else EXPECTED[kind, profile])
        assert said["temperature"]["value"] == used.temperature == (0.5 if typed == "both" else HEAT.get(kind, 1.0))
        if not (kind == "mixture" and typed != "both"):  # the limit of a mixture is the largest of several
            assert said["max_tokens"]["origins"][-1]["value"] == used.max_tokens
        assert said["temperature"]["origins"][-1]["value"] == used.temperature
        assert used.stops == (("#",) if kind.startswith("own limit, equal") else ())


def test_a_run_is_explained_by_its_own_task(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--task", "own.py:task", "--profile", "small", "--steps", "1", "--prompts", "2", "--group", "2", "--study", "none"]
    assert main(["train", "grpo", *words, "--precision", "float32", "--run", "run"]) == 0
    capsys.readouterr()
    assert explained(capsys, "max_tokens", ["run"])["value"] == 64
    assert explained(capsys, "temperature", ["run"])["value"] == 0.7


def test_a_run_stored_by_an_earlier_version_keeps_its_limit(here: Path) -> None:
    stored = planned(["--task", "own.py:task", "--profile", "small"]).stored()
    del stored["recipe"]["setting"]["default_tokens"]  # before, a profile set max_tokens itself
    stored["recipe"]["setting"]["max_tokens"] = 512
    run = start(Plan.read(stored))
    assert run.world(run.recipe, "train").sampling.max_tokens == 512
    stored = planned(["--task", "problems.jsonl,arithmetic"]).stored()
    del stored["recipe"]["setting"]["default_tokens"]
    run = start(Plan.read(stored))
    assert run.world(run.recipe, "train").sampling.max_tokens == 64  # the larger of 64 and arithmetic's 48
