"""Trivial, fitting and impossible problems in one task."""

from gradus.comparison.calibrate import stored
from gradus.grounds.ladder import ladder
from gradus.training.plan import load_task
from gradus.types import Key


def test_a_fifth_of_the_problems_stands_in_the_middle():
    source = load_task(ladder.task, ladder.options).source
    levels = [p.meta["difficulty"] for p in source.draw(range(100), None, Key(0))]
    assert {level: levels.count(level) for level in set(levels)} == {1: 40, 3: 20, 8: 40}


def test_the_pair_is_separated():
    found = stored(ladder)
    if found is not None:
        assert found["pair"]["separated"]
        assert 0.35 < found["start"] < 0.6  # two fifths are solved at the start, and some of a fifth
