"""The command: what it prints and what it ends with."""

from __future__ import annotations

import json

import pytest

from gradus.cli.main import main
from gradus.testing.command import levels_of, listed
from gradus.types import UserError

FEW = ("--problems", "3", "--texts", "60", "--levels", "1,2")
BROKEN = """
from dataclasses import replace
from gradus.tasks.maths.arithmetic import arithmetic
def task(level: int = 2):
    return replace(arithmetic(level), verify=lambda problem, text: float("=" in text))
"""


def test_a_task_that_keeps_its_contract_ends_with_0(capsys):
    assert main(["contract", "arithmetic", *FEW, "--task.operations", "+"]) == 0
    told, progress = capsys.readouterr()
    assert "trying arithmetic: hostile answers ..." in progress
    assert told.startswith("arithmetic\n")
    assert told.endswith("the contract is kept\n")
    assert "only a task given by name, without options" in told


def test_findings_end_with_1(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(BROKEN)
    assert main(["contract", f"{tmp_path / 'mine.py'}:task", *FEW, "--only", "wrong answers, reference answers"]) == 1
    told = capsys.readouterr().out
    assert "right answers to other problems are judged right" in told
    assert "hostile" not in told


def test_a_reward_is_tested_too_and_all_can_be_had_as_json(tmp_path, capsys):
    (tmp_path / "reward.py").write_text(
        "def score(completions, **columns):\n    return [float('=' in c[0]['content']) for c in completions]\n"
    )
    assert main(["contract", "arithmetic", *FEW, "--reward", f"{tmp_path / 'reward.py'}:score", "--json"]) == 0
    task, reward = json.loads(capsys.readouterr().out)
    assert [task["ok"], reward["ok"]] == [True, True]
    assert reward["rules"][0] == {"rule": "a number each", "tried": 12, "findings": [], "skipped": ""}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["arithmetik"], "did you mean arithmetic?"),
        (["arithmetic", "--levels", "two"], '--levels is "two"'),
        (["arithmetic", "--levels", "9"], "task arithmetic has levels 1 to 8"),
        (["flow_2d", "--levels", "2"], "task flow_2d has levels 1 to 1"),
        (["arithmetic", "--allow", "net"], "did you mean network?"),
        (["arithmetic", "--only", "wrong"], "did you mean wrong answers?"),
        (["arithmetic", "--texts", "0"], "`texts` is 0"),
        (["arithmetic", "--rewrd", "r.py:f"], "--rewrd is not an option of gradus contract (did you mean --reward?)"),
        (["arithmetic", "--learning_rate", "1"], "--learning_rate is not an option of gradus contract"),
        (["arithmetic", "--reward", "nowhere.py:f", *FEW], "there is no file nowhere.py"),
    ],
)
def test_mistakes_are_sentences(words, told, capsys):
    assert main(["contract", *words]) == 2
    assert told in capsys.readouterr().err


def test_lists():
    assert listed(" a, b c ,,") == ["a", "b c"]
    assert (levels_of(""), levels_of("3"), levels_of("1, 2")) == (None, (3,), (1, 2))
    with pytest.raises(UserError):
        levels_of("1.5")
