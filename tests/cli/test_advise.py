"""`gradus advise`: from its words to the advice."""

from __future__ import annotations

import json

import pytest

from gradus.cli.main import main


def test_words_become_a_question(capsys: pytest.CaptureFixture[str]):
    words = ["advise", "--task", "string_ops", "--task.level", "2", "--measure", "accuracy@deep", "--also", "deep=string_ops --level 3", "--problems", "0"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["facts"]["goal"] == "harder"
    assert [choice["recipe"] for choice in found["recipes"]] == ["sft --learning_rate 0.0001", "chord", "grpo"]
    assert main(words) == 0
    assert "gradus train sft --learning_rate 0.0001 --task string_ops" in capsys.readouterr().out


def test_noise_is_declared(capsys: pytest.CaptureFixture[str]):
    assert main(["advise", "--noisy", "--problems", "0"]) == 0
    assert "rule      noisy verdicts, with solutions: " in capsys.readouterr().out


def test_a_ground_and_a_task_are_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["advise", "--ground", "slow", "--task", "countdown"]) == 2
    assert "the ground slow has its own task" in capsys.readouterr().err
