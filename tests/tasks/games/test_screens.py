"""Screens of every level: the demonstration sends the form, the split is by content, the chance is that of random taps."""

from __future__ import annotations

import pytest

from gradus.tasks.games.screens import LEVELS, screens
from gradus.tasks.games.screens_environment import Screens
from gradus.types import Key, UserError


@pytest.mark.parametrize("level", LEVELS)
def test_the_demonstration_sends_the_form(level: int) -> None:
    task = screens(level)
    for problem in task.source.draw(range(10), level, Key(0)):
        apps, fields, _ = LEVELS[level]
        assert (len(problem.meta["apps"]), len(problem.meta["fields"])) == (apps, fields)
        episode = Screens().start(problem, Key(), None)  # type: ignore[arg-type]
        turns = [episode.play(tap) for tap in problem.meta["solution"].split("\n")]
        assert [t.reward for t in turns] == [0.0] * (len(turns) - 1) + [1.0]
        assert [tap for _, tap in problem.meta["demonstration"]] == problem.answer.split()
        assert len(turns) == 2 + sum(problem.meta["values"])
        assert problem.meta["app"] in str(problem.messages[0]["content"])


def test_held_out_devices_are_never_drawn_for_training() -> None:
    task = screens(3)
    held_out = {str(p.messages) + str(p.meta["apps"]) for p in task.held_out.draw(range(40), 3, Key(1))}
    assert not held_out & {str(p.messages) + str(p.meta["apps"]) for p in task.source.draw(range(300), 3, Key(1))}
    assert "demonstration" not in screens(show="array").provides
    with pytest.raises(UserError, match="levels 1 to 3"):
        task.source.draw([0], 4, Key())


def test_the_chance_is_that_of_random_taps() -> None:
    wins = 0.0
    for i, problem in enumerate(screens(1).source.draw(range(300), 1, Key(1))):
        episode = Screens().start(problem, Key(), None)  # type: ignore[arg-type]
        turn = episode.first
        while not (turn.terminated or turn.truncated):
            turn = episode.play(int(Key(i).fold(episode.taps).uniform() * 5))
        wins += turn.reward
    assert wins / 300 == pytest.approx(screens(1).chance, abs=0.06)
