"""What stages make of answers: right ones to imitate, pairs, problems by their pass rate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradus.schedules.harvests import (
    AllPairs,
    AnswersAndRewards,
    AnswersThatAgree,
    OptimalValues,
    PassRates,
    RightAndWrong,
    RightAnswers,
    accuracy_curves,
    agreed,
    filled,
    optimal_value,
)
from gradus.testing.methods import toy_group
from gradus.types import Ended, Failed, Group, Problem, UserError


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


def test_the_value_by_hand() -> None:
    rewards = [1, 0, 0, 0]
    assert optimal_value(rewards, beta=0.5) == pytest.approx(0.4772, abs=5e-5)  # .5 log((e^2 + 3) / 4)
    assert optimal_value(rewards, beta=1e6) == pytest.approx(0.25, abs=1e-6)
    assert optimal_value(rewards, beta=math.inf) == 0.25
    assert optimal_value(rewards, beta=1e-3) == pytest.approx(1 + 1e-3 * math.log(0.25))  # above .998; exp(1000) would overflow
    assert optimal_value([0, 0, 0, 0], beta=0.5) == 0
    assert optimal_value([0.7], beta=0.5) == 0.7
    assert optimal_value([-1, -3], beta=2.0) == pytest.approx(2 * math.log((math.exp(-0.5) + math.exp(-1.5)) / 2))


def test_the_value_rises_from_the_mean_to_the_maximum() -> None:
    draw = np.random.default_rng(0)
    for rewards in draw.normal(size=(20, 8)):
        values = [optimal_value(rewards, beta=beta) for beta in (1e3, 10, 1, 0.1, 1e-3)]
        assert values == sorted(values)
        assert values[0] == pytest.approx(rewards.mean(), abs=1e-2)
        assert values[-1] == pytest.approx(rewards.max(), abs=1e-2)


def test_optimal_values_are_over_all_answers_to_a_problem() -> None:
    hard = toy_group(0, 0, key="hard")
    renamed = [t.but(problem=Problem("hard", "toy", text="b")) for t in hard.trajectories]
    easy, more = toy_group(1, 0, key="easy"), toy_group(0, 0, key="more")
    easy = easy.but(trajectories=tuple(t.but(completion="x") for t in easy.trajectories))
    more = more.but(trajectories=tuple(t.but(completion="y", reward=Failed("judge") if i else 0.0) for i, t in enumerate(more.trajectories)))
    hard = hard.but(trajectories=tuple(t.but(completion="z") for t in renamed))
    rows = OptimalValues(0.5).rows([easy, hard, more])
    assert [row["problem"].id for row in rows] == ["p", "hard"]
    # rewards 1, 0, 0: the failed one does not count
    assert [row["optimal_value"] for row in rows] == pytest.approx([0.5 * math.log((math.exp(2) + 2) / 3), 0.0])
    assert [row["problem"].id for row in OptimalValues(0.5, solved=True).rows([easy, hard])] == ["p"]
    long = easy.but(trajectories=tuple(t.but(ended=Ended.LENGTH) for t in easy.trajectories))
    assert OptimalValues(0.5).rows([long])[0]["optimal_value"] == pytest.approx(0.5 * math.log((math.exp(2) + 1) / 2))  # limits cut no answer out
    with pytest.raises(UserError, match=r"OptimalValues.beta is 0"):
        OptimalValues(0.0)


def test_solutions_7_7_9_keep_the_7s_and_7_8_9_keep_nothing():
    assert agreed(["1=7", "2=7", "3=9"], 2) == ["1=7", "2=7"]
    assert agreed(["=7", "=8", "=9"], 2) == agreed([], 2) == []
    rows = AnswersThatAgree().rows([group("p", ("1=7", 0.0), ("2=7", 0.0), ("3=9", 1.0)), group("q", ("=7", 1.0), ("=8", 0.0), ("=9", 0.0))])
    assert [(row["problem"].id, row["solution"]) for row in rows] == [("p", "1=7"), ("p", "2=7")]


def ranked(*values, texts=None):
    group = toy_group(*values, lengths=[1] * len(values))
    made = [t.but(completion=text) for t, text in zip(group.trajectories, texts or "abcdef", strict=False)]
    return AllPairs().rows([Group("g", tuple(made))])


def test_all_pairs_of_different_answers_by_hand():
    found = ranked(0.5, 1.0, 0.0)
    assert [(row["chosen"], row["rejected"]) for row in found] == [("b", "a"), ("a", "c"), ("b", "c")]
    assert ranked(1.0, 1.0) == ranked(1.0) == ranked(1.0, 0.0, texts="aa") == []
    assert ranked(1.0, Failed("x")) == []


def test_answers_of_two_groups_are_no_pair():
    """A rank is the share of comparisons within a group, so a reward of one group says nothing about an answer of another."""
    first, second = (
        Group(name, tuple(t.but(completion=name + t.id) for t in toy_group(1.0, value, lengths=[1, 1]).trajectories)) for name, value in (("x", 0.0), ("y", 0.5))
    )
    found = AllPairs().rows([first, second])
    assert [(row["chosen"][0], row["rejected"][0]) for row in found] == [("x", "x"), ("y", "y")]
