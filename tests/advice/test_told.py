"""Advice as text: short lines, and commands that a shell takes."""

from __future__ import annotations

import shlex
from dataclasses import replace

from gradus.advice.advise import advised
from gradus.advice.asked import asked_of
from gradus.advice.told import command_lines, sentence, told
from tests.advice.test_measured import ROW


def test_lines_fit_the_terminal():
    fields = {"learning_rate": "3e-3", "update.epochs": "16", "players.policy.model": "Adapter"}
    text = told(advised(asked_of(task="arithmetic", task_options={"level": "2"}, fields=fields, problems=0)))
    assert max(map(len, text.splitlines())) <= 80
    assert "16 updates per batch; learning rate 30 times that of the rule" in text
    assert 'the rule "high learning rate" applies, too; its first recipe is trpo' in text.replace("\n          ", " ")
    assert "probe     none: you asked for none" in text


def test_a_long_command_is_one_command():
    command = "gradus train delethink --rollout.size 31 --rollout.carry 16 --task 'my problems.jsonl' --model path/to/some/model --group 4"
    lines = command_lines(command, "   ")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 82  # with the sign at the end
    assert shlex.split("\n".join(lines).replace("\\\n", " ")) == shlex.split(command)


def test_figures_in_words():
    assert sentence(ROW) == "on ground g by accuracy: m2po 0.70, grpo 0.50; advantage +0.20 [+0.10, +0.30] (99% interval, 2 seeds): better"
    assert sentence(replace(ROW, accuracy=0.5, accuracy_against=0.625)).endswith(": better; accuracy 0.50 and 0.62")
    assert "is the reference" in sentence(replace(ROW, mean=None, low=None, high=None))


def test_nothing_to_judge_with():
    found = advised(asked_of(task="arithmetic", problems=0))
    assert "rule      none, and no recipe fits" in told(replace(found, rule=None, choices=()))
