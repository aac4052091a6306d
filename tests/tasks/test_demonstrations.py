"""A demonstration is what was seen and done, and it must win."""

from __future__ import annotations

import pytest

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.lake_environment import FrozenLake, Walk
from gradus.types import Key


def walk(grid: str = "P.G") -> Walk:
    return Walk((grid,), FrozenLake(), Key(0))


def test_pairs_of_observation_and_action() -> None:
    assert demonstrated(walk(), ["right", "right"]) == [("P.G", "right"), (".PG", "right")]


def test_a_demonstration_must_win() -> None:
    with pytest.raises(ValueError, match="earns nothing"):
        demonstrated(walk(), ["right"])
    with pytest.raises(ValueError, match="ended before"):
        demonstrated(walk(), ["right", "right", "up"])
    with pytest.raises(ValueError, match="earns nothing"):
        demonstrated(walk("PH"), ["right"])
