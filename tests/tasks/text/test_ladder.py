"""String functions at several levels in turn."""

from collections import Counter

import pytest

from gradus.tasks.text.ladder import ladder
from gradus.tasks.text.string_ops import string_ops
from gradus.types import Key, UserError
from gradus.types.parts import Arms


def levels(problems):
    return [p.meta["difficulty"] for p in problems]


def test_levels_come_in_turn_in_training_and_held_out():
    task = ladder("1,1,3,8")
    for source in (task.source, task.held_out):
        assert levels(source.draw(range(8), None, Key(0))) == [1, 1, 3, 8, 1, 1, 3, 8]
        assert levels(source.draw([7, 2], None, Key(0))) == [8, 3]


def test_problems_are_those_of_string_ops():
    task, plain = ladder("1,3"), string_ops()
    (drawn,) = task.source.draw([5], None, Key(2))
    assert drawn == plain.source.draw([5], 3, Key(2))[0]
    assert all(task.verify(p, p.meta["solution"]) == 1.0 for p in task.held_out.draw(range(6), None, Key(0)))
    assert not {p.question for p in task.held_out.draw(range(100), None, Key(0))} & {p.question for p in task.source.draw(range(400), None, Key(1))}


def test_each_level_is_an_arm():
    source = ladder("1,1,3,8,8").source
    assert isinstance(source, Arms)
    assert source.arms == ("ladder/1", "ladder/3", "ladder/8")
    drawn = source.draw_arm("ladder/3", range(4), None, Key(0))
    assert Counter((p.meta["arm"], p.meta["difficulty"]) for p in drawn) == {("ladder/3", 3): 4}
    with pytest.raises(UserError, match="ladder/2"):
        source.draw_arm("ladder/2", [0], None, Key(0))


def test_refusals():
    with pytest.raises(UserError, match='`levels` is "one,3"; write whole numbers'):
        ladder("one,3")
    with pytest.raises(UserError, match="levels 1 to 8, but level 9 was given"):
        ladder("1,9")


def test_a_level_that_is_asked_for_is_that_of_all():
    assert levels(ladder().source.draw(range(4), 2, Key(0))) == [2, 2, 2, 2]
