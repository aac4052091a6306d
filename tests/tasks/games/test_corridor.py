"""Corridors of every level: their demonstration, their limit, and the chance of random doors."""

from __future__ import annotations

import pytest

from gradus.tasks.games.corridor import LEVELS, by_luck, corridor
from gradus.tasks.games.corridor_environment import DOORS, KEYS, Corridor, Passage
from gradus.types import Key, UserError


@pytest.mark.parametrize("level", LEVELS)
def test_the_demonstration_leads_out(level: int) -> None:
    task = corridor(level, back=1)
    for problem in task.source.draw(range(10), level, Key(0)):
        assert len(problem.meta["keys"]) == LEVELS[level]
        episode = Passage(problem.meta["keys"], task.environment)  # type: ignore[arg-type]
        turns = [episode.play(door) for door in problem.meta["solution"].split("\n")]
        assert turns[-1].reward == 1.0
        assert [door for _, door in problem.meta["demonstration"]] == [KEYS[key] for key in problem.meta["keys"]]


def test_the_limit_is_patience_times_rooms() -> None:
    assert [corridor(level).environment.limit for level in LEVELS] == [10, 15, 20, 30, 40]  # type: ignore[union-attr]
    assert corridor(1, patience=8).environment.limit == 32  # type: ignore[union-attr]
    with pytest.raises(UserError, match=r"`patience` is 0\.5"):
        corridor(patience=0.5)


def test_the_chance_is_that_of_random_doors() -> None:
    assert by_luck(2, 2) == 1 / 16
    assert by_luck(2, 3) == pytest.approx(1 - (27 + 27) / 64)  # no right door of three: 27 of 64, one: 3 * 9 of 64
    assert corridor(1, back=1).chance == 0.0
    wins, count = 0.0, 300
    for i, problem in enumerate(corridor(1).source.draw(range(count), 1, Key(1))):
        episode, key = Passage(problem.meta["keys"], Corridor(limit=10)), Key(i)
        turn = episode.first
        while not (turn.terminated or turn.truncated):
            turn = episode.play(key.fold(episode.turns).choice(list(DOORS.names)))
        wins += turn.reward
    assert wins / count == pytest.approx(corridor(1).chance, abs=0.1)  # four standard deviations: 4 sqrt(0.17 / 300)


def test_held_out_corridors_are_not_trained_on() -> None:
    task = corridor(2)
    held = {p.meta["keys"] for p in task.held_out.draw(range(50), None, Key(0))}
    assert not held & {p.meta["keys"] for p in task.source.draw(range(300), None, Key(1))}
