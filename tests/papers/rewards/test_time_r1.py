"""Time-R1: closeness, difference, ordering and completion by hand, the factor P, forms, the schedule, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.time_r1 import Closeness, agreement, completion, difference, months, ordering, penalty, time_r1
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.ramp import ramp
from gradus.tasks.text.dates import dates
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem

JAN, JUL, OCT = (months(text) for text in ("2020-01", "2020-07", "2020-10"))


def problem(kind: str, *parts: str, level: int = 1, hides: str = "") -> Problem:
    return Problem(kind, "dates", text="q", answer=" ".join(parts), meta=Frozen(category=kind, parts=parts, difficulty=level, hides=hides))


def accuracy(p: Problem, said: str, **fields: object) -> float:
    return Closeness(**fields).accuracy(p, said)["accuracy"]  # type: ignore[arg-type]


def test_six_months_off_by_hand() -> None:
    assert accuracy(problem("inference", "2020-01"), "2020-07") == pytest.approx(0.5488, abs=5e-5)
    assert accuracy(problem("inference", "2020-01", level=3), "2020-07") == pytest.approx(0.6570, abs=5e-5)
    assert accuracy(problem("inference", "2020-01"), "2020-01") == 1.0


def test_a_difference_by_hand() -> None:
    due = problem("difference", "2020-01", "2020-07", "6")
    assert accuracy(due, "2020-01 2020-10 9") == pytest.approx(0.25 + 0.25 * math.exp(-0.3) + 0.5 * math.exp(-0.3))
    assert accuracy(due, "2020-01 2020-10 9") == pytest.approx(0.8056, abs=5e-5)
    value, own = difference((JAN, OCT), (JAN, JUL), 6, 0.1)
    assert (value, own) == (pytest.approx(0.9352, abs=5e-5), pytest.approx(0.7408, abs=5e-5))
    assert accuracy(due, "2020-01 2020-10 6") == pytest.approx(0.6928, abs=5e-5)
    assert accuracy(due, "2020-01 2020-10 6", consistency=False) == pytest.approx(value)
    # a hard problem has its rate in all three parts
    assert difference((JAN, OCT), (JAN, JUL), 9, 0.07)[0] == pytest.approx(0.25 + 0.75 * math.exp(-0.21))
    # from a claimed gap of 25 on: rates .05, and .1 * 25 / 50
    value, own = difference((JAN, JAN + 40), (JAN, JAN + 40), 50, 0.1)
    assert (value, own) == (pytest.approx(0.5 + 0.5 * math.exp(-0.5)), pytest.approx(math.exp(-0.05 * 10)))


def test_an_ordering_by_hand() -> None:
    said = (JAN, JUL, OCT)
    assert [agreement(order, said) for order in ("1-2-3", "1-3-2", "3-1-2", "3-2-1")] == [3, 2, 1, 0]
    assert ordering(said, said, "1-2-3", "1-2-3", 0.1) == (pytest.approx(0.6 + 0.4 * 0.999), 1.0)
    # months right, order has one pair right: .6 + .4 * .333, and P .4
    assert ordering(said, said, "3-1-2", "1-2-3", 0.1) == (pytest.approx(0.6 + 0.4 * 0.333), 0.4)
    assert ordering((JAN, JAN, JAN), said, "1-2-3", "1-2-3", 0.1)[1] == pytest.approx(0.2)
    assert ordering((JAN, JAN + 1, JAN + 2), said, "1-2-3", "1-2-3", 0.1)[1] == pytest.approx(0.2)
    assert ordering((JAN + 2, JAN + 1, JAN), said, "3-2-1", "1-2-3", 0.1)[1] == pytest.approx(0.2)
    assert ordering((JAN, JAN + 1, JAN + 2), said, "2-1-3", "1-2-3", 0.1)[1] == 0.7  # no pattern, one wrong pair
    assert ordering((JAN + 4, JAN + 2, JAN), said, "3-2-1", "1-2-3", 0.1)[1] == 1.0


def test_a_completion_by_hand() -> None:
    assert completion(1.0, 2001, 2003, 0.1, "year") == pytest.approx(0.5 + 0.5 * math.exp(-0.6))
    assert completion(0.5, 12, 1, 0.1, "month") == pytest.approx(0.25 + 0.5 * math.exp(-0.3))  # one month apart, around the year
    assert accuracy(problem("completion", "2020-01", "1", hides="month"), "2020-01 1") == 1.0


@pytest.mark.parametrize(("hides", "said"), [("month", "13"), ("month", "99"), ("month", "0"), ("year", "1899"), ("year", "2101")])
def test_a_completion_outside_the_calendar_has_no_accuracy(hides: str, said: str) -> None:
    due = problem("completion", "2020-01", {"month": "1", "year": "2020"}[hides], hides=hides)
    assert Closeness().accuracy(due, f"2020-01 {said}") == {"accuracy": 0.0, "valid": 0.0}


def test_the_cost_of_missing_parts() -> None:
    cost = Closeness().absent
    assert [cost("inference", said) for said in ("", "no event", "None", "soon")] == [0.2, 0.1, 0.1, 0.0]
    assert [cost("difference", said) for said in ("", "no event", "2020-01 2020-07", "2020-13 2020-07 6")] == [0.2, 0.2, 0.2, 0.0]
    assert [cost("ordering", said) for said in ("2020-01 2020-02 2020-03", "2020-01 2020-02 2020-03 1-1-3")] == [0.2, 0.0]
    assert [cost("completion", said) for said in ("2020-01", "2020-01 May")] == [0.2, 0.0]


PARTS = {
    "inference": ("2020-01",), "difference": ("2020-01", "2020-07", "6"), "ordering": ("2020-01", "2020-02", "2020-03", "1-2-3"),
    "completion": ("2020-01", "1"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("inference", "2020-13"),
        ("inference", "2020-01 3"),
        ("difference", "2020-01 2020-07"),
        ("difference", "2020-01 2020-07 x"),
        ("ordering", "2020-01 2020-02 2020-03 1-1-3"),
        ("completion", ""),
    ],
)
def test_an_answer_without_its_form_has_no_accuracy(kind: str, said: str) -> None:
    assert Closeness().accuracy(problem(kind, *PARTS[kind], hides="month"), said) == {"accuracy": 0.0, "valid": 0.0}
    assert Closeness().accuracy(problem(kind, *PARTS[kind], hides="month"), " ".join(PARTS[kind]))["valid"] == 1.0


def test_the_whole_reward_by_hand() -> None:
    texts = ("<think>x</think><answer>2020-01</answer>", "<answer>2020-01</answer>", "<answer>no event</answer>", "2020-01")
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=problem("inference", "2020-01"), completion=c) for i, c in enumerate(texts))
    world, _ = scripted_world(dates(), lambda ask: "")
    (found,) = asyncio.run(Closeness().score([Group("g", rows)], {}, world))
    tag = 0.025 * 0.33
    assert [j.reward for j in found] == pytest.approx([1.05 + 0.025 + 3 * tag, 1.05 + 2 * tag, 2 * tag - 0.1, -0.2])
    assert [j.components["verified"] for j in found] == [1.0, 1.0, 0.0, 0.0]


def test_penalties_by_hand() -> None:
    words = [str(i) for i in range(1000)]
    assert penalty(" ".join(words[:900])) == 0.0
    assert penalty(" ".join(words[:962])) == pytest.approx(0.15)
    assert penalty(" ".join([*words[:50], *["x"] * 6])) == pytest.approx(0.2)
    assert penalty("x " * 6) == 0.0  # too short to count
    assert penalty(" ".join(["a", "b", "c", "d", "e"] * 50)) == pytest.approx(0.5 - 5 / 245)


def test_the_rate_rises_over_50_steps() -> None:
    points = time_r1.schedule.points
    assert [ramp(step, points, ("linear",)) for step in (0, 100, 125, 150, 300)] == pytest.approx([0.07, 0.07, 0.085, 0.1, 0.1])
    assert (time_r1.schedule.path, time_r1.reward.easy) == ("reward.hard", 0.1)


def test_with_the_verdict_it_is_grpo() -> None:
    bare = time_r1.but(reward=Verified(), schedule=ConstantSchedule())
    base = grpo.but(objective__kl__coefficient=0.001)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (bare, base)))
    assert set(changes(grpo, time_r1)) == {"reward", "objective.kl.coefficient", "schedule", "setting.group"}
    check_micro_batches(time_r1)
