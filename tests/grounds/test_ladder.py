"""Trivial, fitting and impossible problems in one task."""

from gradus.comparison.calibrate import stored
from gradus.grounds.ladder import ladder
from gradus.training.plan import load_task
from gradus.types import Key


def test_a_fifth_of_the_problems_stands_in_the_middle():
    source = load_task(ladder.task, ladder.options).source
    levels = [p.meta["difficulty"] for p in source.draw(range(100), None, Key(0))]
    assert {level: levels.count(level) for level in set(levels)} == {1: 40, 3: 20, 8: 40}


def test_most_groups_hold_no_signal_and_the_pair_is_separated():
    found = stored(ladder)
    if found is not None:
        assert not found["stale"]
        assert found["pair"]["separated"]
        assert 0.35 < found["start"] < 0.65  # two fifths are solved at the start, and some of a fifth
        even = next(arm for arm in found["arms"] if arm["name"] == "grpo")
        assert even["shows"].get("informative:mean", even["final"]) < 0.35  # of all groups, if the kinds are drawn evenly
