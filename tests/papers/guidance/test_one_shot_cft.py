"""One-shot CFT: critiques by hand, the rows of one problem, which tokens are trained on, and SFT as the limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gradus.papers.bases.sft import sft
from gradus.papers.guidance.one_shot_cft import ASK, FORMS, Critiques, OneProblem, critique, one_shot_cft
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.testing.methods import TOY, check_same_update, readable, scripted_world, toy_group
from gradus.types import Failed, Frozen, Key, Problem, Request, UserError

SOLUTION = "7+5=12 4+8+1=13 3+2+1=6 =632"
ONE = Problem("p", "arithmetic", text="347+285", answer=632, meta=Frozen(solution=SOLUTION))


def answered(*given: tuple[float, str]) -> Any:
    group = toy_group(*[reward for reward, _ in given])
    return group.but(trajectories=tuple(t.but(problem=ONE, completion=text) for t, (_, text) in zip(group.trajectories, given, strict=True)))


def test_a_critique_names_the_first_wrong_step() -> None:
    wrong = "7+5=12 4+8+1=13 3+2=5 =532"
    assert critique(wrong, SOLUTION, False, 0) == "step 3 is 3+2=5, but it must be 3+2+1=6. wrong"
    assert critique("7+5=12", SOLUTION, False, 4) == "step 2: not missing, 4+8+1=13. wrong"
    assert all("3+2+1=6" in critique(wrong, SOLUTION, False, i) and "wrong" in critique(wrong, SOLUTION, False, i) for i in range(len(FORMS)))
    assert critique(f"{SOLUTION} =633", SOLUTION, False, 0) == "step 5 is =633, but it must be the end. wrong"  # a step too many
    assert critique(SOLUTION, SOLUTION, True, 0) == "each step is right. right"
    assert critique("=632", SOLUTION, True, 1) == "no error found. right"  # a right answer in another way


def test_every_row_has_the_same_problem_and_both_verdicts_occur() -> None:
    """90 different answers, 30 of them right: 3 critiques of each right answer and 7 of each wrong one. A lower bound leaves out forms before answers."""
    given = [(float(i % 3 == 0), f"{SOLUTION} {i}" if i % 3 == 0 else f"7+5={i} =632") for i in range(90)]
    rows = Critiques().rows([answered(*given), answered(*given[:5])])
    right = sum(row["solution"].startswith("right") or row["solution"].endswith("right") for row in rows)
    assert all(row["problem"].question.startswith("347+285\n") and row["problem"].question.endswith(ASK) for row in rows)
    candidates = {row["problem"].question.split("\n")[1] for row in rows}
    assert len(candidates) == 90
    assert 0 < right < len(rows)
    assert len(rows) == 30 * 3 + 60 * 7  # right answers have three forms
    assert len({row["problem"].id for row in rows}) == len(rows)
    few = Critiques(most=100).rows([answered(*given)])
    assert len(few) == 100
    assert len({row["problem"].question for row in few[:90]}) == 90  # the first form of each answer comes before all second forms
    assert [row["problem"].id.split("-")[-1] for row in few] == ["0"] * 90 + ["1"] * 10
    assert len({r["problem"].question for r in Critiques(answers=10).rows([answered(*given)])}) == 10


def test_a_failed_answer_gives_no_row() -> None:
    group = answered((0.0, "7+5=13"))
    assert Critiques().rows([group.but(trajectories=tuple(t.but(reward=Failed("late")) for t in group.trajectories))]) == []
    with pytest.raises(UserError, match="teachers"):
        Critiques(teachers=8)


def test_only_tokens_of_the_critique_are_trained_on() -> None:
    (row, *_) = Critiques().rows([answered((0.0, "b"))])
    shown = row["problem"]
    world, _ = scripted_world(TOY, lambda ask: "b")
    problem = Problem(shown.id, "toy", text=shown.text, meta=Frozen(solution=row["solution"]))
    (group,) = asyncio.run(Demonstrations().run([Request(problem)], world))
    (context,) = group.trajectories[0].contexts
    assert group.trajectories[0].completion == row["solution"]
    trained = readable(context.sequence[context.action_positions])
    assert row["solution"] in trained
    assert ASK not in trained
    assert "347+285" not in trained.replace(row["solution"], "")


def test_the_same_problem_in_every_step() -> None:
    class World:
        task, group, seed = arithmetic(2), 4, Key(3)

    given: Any = World()
    (first,), (second,) = (OneProblem(5).choose(given.task.source, 8, given) for _ in range(2))
    assert (first.problem.id, first.count) == (second.problem.id, 32)
    assert OneProblem(6).choose(given.task.source, 8, given)[0].problem.id != first.problem.id


def test_the_stages_and_sft_as_the_limit() -> None:
    stages = one_shot_cft.schedule.stages
    assert list(stages) == ["collect", "study"]
    assert (dict(stages["collect"].changes)["setting.learning_rate"], stages["study"].recipe) == (0.0, sft)
    check_same_update(one_shot_cft.but(schedule=ConstantSchedule()), sft)
