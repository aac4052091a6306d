"""What stages make of answers: right ones to imitate, pairs, problems by their pass rate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradus.schedules.harvests import AnswersAndRewards, PassRates, RightAndWrong, RightAnswers, accuracy_curves, filled
from gradus.testing.methods import toy_group
from gradus.types import Ended, Failed, Group, Problem


def group(name: str, *answers: tuple[str, float], **changes: Any) -> Group:
    """A group of answers to a problem, each with its reward."""
    made = toy_group(*(reward for _, reward in answers), key=name)
    problem = Problem(name, "toy", ({"role": "user", "content": name},))
    kept = zip(made.trajectories, answers, strict=True)
    return made.but(trajectories=tuple(t.but(problem=problem, completion=text, **changes) for t, (text, _) in kept))


GROUPS = [
    group("p", ("long answer", 1.0), ("no", 0.0), ("yes", 1.0), ("long answer", 1.0), ("nope", 0.0)),
    group("q", ("no", 0.0), ("none", 0.0)),
    group("p", ("sure", 1.0), ("no", 0.0)),
]


def rows(harvest: Any, groups: list[Group]) -> list[tuple[Any, ...]]:
    return [(row["problem"].id, *(value for name, value in row.items() if name != "problem")) for row in harvest.rows(iter(groups))]


def test_right_answers_are_the_first_different_ones_of_each_problem() -> None:
    assert rows(RightAnswers(), GROUPS) == [("p", "long answer")]
    assert rows(RightAnswers(most=9), GROUPS) == [("p", "long answer"), ("p", "yes"), ("p", "sure")]
    assert rows(RightAnswers(most=2, shortest=True), GROUPS) == [("p", "yes"), ("p", "sure")]
    assert RightAnswers().provides == {"solution"}


def test_pairs_hold_a_right_and_a_wrong_answer() -> None:
    assert rows(RightAndWrong(), GROUPS) == [("p", "long answer", "no")]
    assert rows(RightAndWrong(most=9), GROUPS) == [("p", "long answer", "no"), ("p", "yes", "nope")]
    both = group("r", ("maybe", 1.0), ("maybe", 0.0), ("yes", 1.0), ("no", 0.0))  # a judge that draws
    assert rows(RightAndWrong(most=9), [both]) == [("r", "yes", "no")]


def test_pass_rates_count_all_answers_of_a_problem() -> None:
    assert rows(PassRates(), GROUPS) == [("q", 0.0)]  # p: 4 of 7
    assert rows(PassRates(0.5, 0.6), GROUPS) == [("p", pytest.approx(4 / 7))]


@pytest.mark.parametrize(
    "changes",
    [
        {"ended": Ended.LENGTH},
        {"player": "partner"},
        {"source": "expert"},
        {"trained": False},
        {"reward": Failed("no")},
        {"completion": " "},
    ],
)
def test_answers_that_are_none_are_left_out(changes: dict[str, Any]) -> None:
    (one,) = [group("p", ("yes", 1.0))]
    one = one.but(trajectories=tuple(t.but(**changes) for t in one.trajectories))
    assert rows(RightAnswers(), [one]) == []
    assert rows(PassRates(0, 1), [one]) == ([("p", 1.0)] if "ended" in changes else [])


def test_auxiliary_groups_and_answers_of_several_turns_are_left_out() -> None:
    (one,) = [group("p", ("yes", 1.0))]
    assert rows(RightAnswers(), [one.but(aside=True)]) == []
    t = one.trajectories[0]
    turns = replace(t.contexts[0], streams={"turn": np.zeros(t.actions, np.int32)})
    assert rows(RightAnswers(), [one.but(trajectories=(t.but(contexts=(turns,)),))]) == []


def test_answers_are_kept_with_their_rewards():
    texts = ["long answer", "no", "yes", "long answer", "nope", "sure", "no"]
    assert rows(AnswersAndRewards(), GROUPS) == [("p", texts, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]), ("q", ["no", "none"], [0.0, 0.0])]
    assert rows(AnswersAndRewards(most=1), GROUPS) == [("p", ["long answer"], [1.0]), ("q", ["no"], [0.0])]
    assert rows(AnswersAndRewards(least=3), GROUPS) == [("p", texts, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0])]
    cut = group("r", ("half", 0.0), ("whole", 1.0))
    cut = cut.but(trajectories=tuple(t.but(ended=Ended.LENGTH if t.completion == "half" else Ended.STOP) for t in cut.trajectories))
    assert rows(AnswersAndRewards(least=1), [cut]) == [("r", ["whole"], [1.0])]
    assert rows(AnswersAndRewards(), [cut]) == []


NAN = float("nan")


def test_a_gap_takes_the_next_value() -> None:
    assert filled([0.1, NAN, 0.9]).tolist() == [0.1, 0.9, 0.9]
    assert np.isnan(filled([0.1, NAN, NAN, 0.9])).tolist() == [False, True, False, False]
    assert np.isnan(filled([0.1, NAN])).tolist() == [False, True]


def test_the_curves_by_hand() -> None:
    failed = group("r", ("a", 1.0)).but(trajectories=())
    wrong = (
        group("p", ("a", 1.0), ("b", 0.0)),
        group("q", ("a", 0.0)),
        failed,
        group("q", ("a", 1.0)),
        group("p", ("b", 0.0)),
        group("q", ("a", 1.0)),
    )
    problems, curves = accuracy_curves(iter(wrong))
    assert [p.id for p in problems] == ["p", "q"]
    assert curves.tolist() == [[0.5, 0.0], [0.0, 1.0]]  # q has a third visit
    assert accuracy_curves([])[1].shape == (0, 0)
