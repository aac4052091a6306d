"""Corridors of every level: their demonstration, and the chance of random doors."""

from __future__ import annotations

from math import comb

import pytest

from gradus.tasks.games.corridor import LEVELS, corridor
from gradus.tasks.games.corridor_environment import KEYS, Passage
from gradus.types import Key


@pytest.mark.parametrize("level", LEVELS)
def test_the_demonstration_leads_out(level: int) -> None:
    task = corridor(level, back=1)
    for problem in task.source.draw(range(10), level, Key(0)):
        assert len(problem.meta["keys"]) == LEVELS[level][0]
        episode = Passage(problem.meta["keys"], task.environment)  # type: ignore[arg-type]
        turns = [episode.play(door) for door in problem.meta["solution"].split("\n")]
        assert turns[-1].reward == 1.0
        assert [door for _, door in problem.meta["demonstration"]] == [KEYS[key] for key in problem.meta["keys"]]


@pytest.mark.parametrize("level", LEVELS)
def test_the_chance_is_that_of_random_doors(level: int) -> None:
    rooms, chance = LEVELS[level]
    turns = corridor(level).environment.limit  # type: ignore[union-attr]
    assert turns == 2.5 * rooms
    assert chance == pytest.approx(sum(comb(turns, k) * 0.25**k * 0.75 ** (turns - k) for k in range(rooms, turns + 1)), abs=0.005)


def test_held_out_corridors_are_not_trained_on() -> None:
    task = corridor(2)
    held = {p.meta["keys"] for p in task.held_out.draw(range(50), None, Key(0))}
    assert not held & {p.meta["keys"] for p in task.source.draw(range(300), None, Key(1))}
