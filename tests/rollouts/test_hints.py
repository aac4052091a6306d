"""The ladder of hints of a problem, and prompts with a hint under them."""

from __future__ import annotations

import pytest

from gradus.rollouts.hints import Hint, hinted, ladder
from gradus.tasks.puzzles.countdown import countdown
from gradus.types import Frozen, Key, Problem, Request, UserError

KINDS = ("knowledge", "planning", "solution")
PROBLEM = Problem("p", "t", ({"role": "user", "content": "ask"},), meta=Frozen(hints={"a": ["x", "y"], "b": ("z",)}))


def test_parts_add_up_within_their_kind():
    assert ladder(PROBLEM, ("a", "b")) == (Hint(1, "a", "x"), Hint(2, "a", "xy"), Hint(3, "b", "z"))
    assert ladder(PROBLEM, ("b", "a")) == (Hint(1, "b", "z"), Hint(2, "a", "x"), Hint(3, "a", "xy"))


def test_countdown_has_twelve_levels():
    (problem,) = countdown().source.draw([0], 2, Key(0))
    found = ladder(problem, KINDS)
    assert [(h.level, h.kind) for h in found] == [(4 * i + j + 1, kind) for i, kind in enumerate(KINDS) for j in range(4)]
    assert found[11].text == problem.meta["solution"]
    assert found[4].text == problem.meta["hints"]["planning"][0]


@pytest.mark.parametrize(
    "hints", [None, "start with 4", {"knowledge": ["x"]}, {"knowledge": ["x"], "planning": "y"}, {"knowledge": ["x"], "planning": []}]
)
def test_hints_of_another_form_are_refused(hints):
    problem = Problem("p", "t", text="ask", meta=Frozen(hints=hints) if hints is not None else Frozen())
    with pytest.raises(UserError, match=r'problem p has no hints of the kind "(knowledge|planning)"'):
        ladder(problem, ("knowledge", "planning"))


def test_the_hint_stands_under_the_question_and_draws_for_itself():
    asked = hinted(Request(PROBLEM, count=8, tags=("x",)), Hint(2, "a", "x{}y"), "hint: {}", "be brief")
    assert asked.prompt == ({"role": "system", "content": "be brief"}, {"role": "user", "content": "ask\nhint: x{}y"})
    assert (asked.count, asked.tags, asked.problem) == (1, ("x", "hint", 2), PROBLEM)
