"""Proving grounds as records: all of the house are whole, and wrong ones are refused."""

from __future__ import annotations

import pytest

from gradus.comparison.ground import Ground, Pair, Start, ground_of, grounds
from gradus.comparison.measures import Measure
from gradus.recipe.registry import recipe_modules, task_modules
from gradus.types import UserError

PAIR = Pair("grpo", "rloo", "accuracy", "a reason")


def test_every_ground_is_whole():
    for name in grounds():
        ground = ground_of(name)
        assert name not in recipe_modules(), "gradus show takes both"
        assert ground.about.endswith((".", "?"))
        assert ground.pair.why
        assert ground.pair.better != ground.pair.worse
        assert [Measure(measure).name for measure in ground.measures] == list(ground.measures)
        assert ground.task.partition(":")[0] in task_modules()


def test_a_wrong_name_suggests_the_near_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradus.comparison.ground.grounds", lambda: ["stale", "sparse"])
    with pytest.raises(UserError, match="did you mean stale"):
        ground_of("stail")


def test_pass_at_k_needs_k_answers():
    with pytest.raises(UserError, match="pass@16 but has only 4 answers"):
        Ground("g", "About.", "arithmetic", "steps=2", PAIR, measures=("pass@16",))
    assert Ground("g", "About.", "arithmetic", "steps=2", PAIR, measures=("pass@16",), samples=16).samples == 16


def test_a_start_reads_as_its_command():
    first = Start("sft", "countdown", 10, {"level": "2"}, {"learning_rate": "1e-3"})
    assert str(first) == "sft --task countdown --task.level 2 --steps 10 --seed 0 --learning_rate 1e-3"
    assert str(Start("grpo", "countdown", 5, start=first)).endswith(f", after: {first}")
