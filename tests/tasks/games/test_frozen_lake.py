"""Maps of every level: their form, their way, and the chance of a random walk."""

from __future__ import annotations

import pytest

from gradus.tasks.games.frozen_lake import LEVELS, frozen_lake
from gradus.tasks.games.lake_environment import MOVES, FrozenLake, Walk, shortest
from gradus.types import Key


@pytest.mark.parametrize("level", LEVELS)
def test_maps_have_a_way_and_their_form(level: int) -> None:
    size, share, _ = LEVELS[level]
    problems = frozen_lake(level).source.draw(range(200), level, Key(0))
    holes = 0
    for problem in problems:
        grid = problem.meta["map"]
        text = "".join(grid)
        assert [len(row) for row in grid] == [size] * size
        assert (text.count("P"), text.count("G")) == (1, 1)
        assert set(text) <= set("P.HG")
        way = shortest(grid)
        assert way is not None
        assert len(way) >= 2
        assert problem.answer == " ".join(way)
        assert problem.meta["solution"].split("\n") == way
        holes += text.count("H")
    assert 0.5 * share < holes / (200 * size * size) <= share  # maps without a way are drawn again, so holes are rarer than drawn


@pytest.mark.parametrize("level", LEVELS)
def test_the_chance_is_that_of_a_random_walk(level: int) -> None:
    wins = 0.0
    for i, problem in enumerate(frozen_lake(level).source.draw(range(600), level, Key(1))):
        walk, turn, key = Walk(problem.meta["map"], FrozenLake(), Key(0)), None, Key(i)
        while turn is None or not (turn.terminated or turn.truncated):
            turn = walk.play(key.fold(walk.moves).choice(list(MOVES)))
        wins += turn.reward
    assert wins / 600 == pytest.approx(frozen_lake(level).chance, abs=0.08)  # four standard deviations at most: 4 sqrt(0.24 / 600)


def test_slip_is_the_environments() -> None:
    assert frozen_lake(slip=0.25).environment == FrozenLake(slip=0.25)
