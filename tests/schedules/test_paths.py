"""Values at paths of a recipe."""

from __future__ import annotations

from gradus.papers.bases.grpo import grpo
from gradus.schedules.paths import fitting, value_at, with_value


def test_values_at_paths() -> None:
    assert value_at(grpo, "objective.kl.coefficient") == grpo.objective["kl"].coefficient
    assert value_at(grpo, "objective.none.at.all") is None
    assert fitting(grpo, "setting.group", 3.6) == 4
    assert fitting(grpo, "setting.max_tokens", 3.2) == 3  # an int, or None
    assert fitting(grpo, "setting.temperature", 3.6) == 3.6
    assert fitting(grpo, "nothing.here", 3.6) == 3.6


def test_the_same_value_is_the_same_recipe() -> None:
    assert with_value(grpo, "setting.group", grpo.setting.group) is grpo
    assert with_value(grpo, "setting.group", 3).setting.group == 3
    assert with_value(grpo, "setting.temperature", 1).setting.temperature == 1
