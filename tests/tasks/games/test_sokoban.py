"""Maps of every level: their form, their way, and the chance of random moves."""

from __future__ import annotations

import pytest

from gradus.tasks.games.sokoban import LEVELS, sokoban
from gradus.tasks.games.sokoban_environment import MOVES, Push, Sokoban, way
from gradus.types import Key


@pytest.mark.parametrize("level", LEVELS)
def test_maps_have_a_way_and_their_form(level: int) -> None:
    size, _, most, _ = LEVELS[level]
    for problem in sokoban(level).source.draw(range(20), level, Key(0)):
        grid = problem.meta["map"]
        text = "".join(grid)
        assert [len(row) for row in grid] == [size] * size
        assert (text.count("P"), text.count("B"), text.count("G")) == (1, 1, 1)
        assert 2 <= len(way(grid) or []) <= most
        assert problem.answer == " ".join(way(grid) or [])


@pytest.mark.parametrize("level", [1, 2])
def test_the_chance_is_that_of_random_moves(level: int) -> None:
    wins, count = 0.0, 300
    for i, problem in enumerate(sokoban(level).source.draw(range(count), level, Key(1))):
        episode, key = Push(problem.meta["map"], Sokoban()), Key(i)
        turn = episode.first
        while not (turn.terminated or turn.truncated):
            turn = episode.play(key.fold(episode.moves).choice(list(MOVES)))
        wins += turn.reward
    assert wins / count == pytest.approx(sokoban(level).chance, abs=0.1)  # four standard deviations: 4 sqrt(0.18 / 300)


def test_a_team_has_two_seats() -> None:
    assert sokoban().environment.seats == ("policy",)  # type: ignore[union-attr]
    assert sokoban(team=True).environment.seats == ("planner", "checker")  # type: ignore[union-attr]
