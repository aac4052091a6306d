"""String functions with checked steps: a short key in training, result and steps on held-out problems."""

import pytest

from gradus.tasks.text.flawed import Checked, flawed
from gradus.tasks.text.string_ops import string_ops
from gradus.types import Frozen, Key, Problem, UserError


def problem(**meta):
    """reverse(tail(rotate(planet)))."""
    return Problem("p", "string_ops", (), answer="ptena", meta=Frozen(solution="lanetp anetp=ptena", **meta))


@pytest.mark.parametrize(
    ("completion", "steps", "training", "held_out"),
    [
        ("lanetp anetp=ptena", 1.0, 1.0, 1.0),
        ("lanetp anetp = ptena\n", 1.0, 1.0, 1.0),
        ("=ptena", 0.0, 1.0, 0.0),  # right by luck: no steps
        ("lanetp anept=ptena", 2 / 3, 1.0, 0.0),  # right with a false step
        ("lanetp=ptena", 1 / 3, 1.0, 0.0),  # a step is missing, so no later one is at its place
        ("lanetp anetp ptena=ptena", 3 / 4, 1.0, 0.0),  # one too many
        ("=pt", 0.0, 1.0, 0.0),  # the key alone
        ("lanetp anetp=aptena", 2 / 3, 0.0, 0.0),  # another result
        ("lanetp anetp", 2 / 3, 0.0, 0.0),  # no result
    ],
)
def test_steps_and_verdicts(completion, steps, training, held_out):
    verify = Checked()
    assert verify.steps(problem(), completion) == pytest.approx(steps)
    assert verify(problem(answer_key="p"), completion) == training
    assert verify(problem(), completion) == held_out


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("", True),
        ("lanetp ", True),
        ("lanetp anetp", True),
        ("lanetp anetp=", True),
        ("lanetp anetp=ptena", True),
        ("lanetp anept", False),
        ("lanetp=", False),  # a step is missing
        ("lanetp anetp=aptena", False),
        ("lanetp anetp ptena", False),  # the result without its mark
    ],
)
def test_the_beginning_of_an_answer_is_right_if_all_its_steps_are(text, right):
    assert Checked().begins_right(problem(), text) is right


def test_problems_are_those_of_string_ops():
    task, plain = flawed(2, letters=2), string_ops(2)
    drawn = task.source.draw(range(20), None, Key(0))
    assert [p.question for p in drawn] == [p.question for p in plain.source.draw(range(20), None, Key(0))]
    assert all(p.meta["answer_key"] == p.answer[:2] for p in drawn)
    held_out = task.held_out.draw(range(20), None, Key(0))
    assert held_out == plain.held_out.draw(range(20), None, Key(0))
    assert [task.verify(p, p.meta["solution"]) for p in (*drawn, *held_out)] == [1.0] * 40


def test_an_empty_key_is_refused():
    with pytest.raises(UserError, match="`letters` is 0"):
        flawed(letters=0)
