"""Metis-RISE: the data by pass rate, the penalty for overlong answers by hand, and the order and weights of the stages."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.papers.bases.dapo import dapo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.metis_rise import Repairs, metis_rise
from gradus.rewards.overlong import Overlong, overlong_penalty
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_same_update, toy_group
from gradus.types import Ended, Failed, Frozen, Problem


def answered(name: str, right: int, of: int = 8, solution: str | None = "expert") -> Any:
    """A group of `of` answers "aaa...", the first `right` of them right. Answer i has 10 - i letters."""
    group = toy_group(*[1.0] * right, *[0.0] * (of - right), key=name)
    problem = Problem(name, "toy", text=name, meta=Frozen(solution=solution) if solution else Frozen())
    return group.but(
        trajectories=tuple(t.but(problem=problem, completion="a" * (10 - i)) for i, t in enumerate(group.trajectories))
    )


def test_the_data_by_pass_rate() -> None:
    """8 of 8: nothing. 3 of 8: the shortest of the three right answers, 8 letters. 0 of 8: the expert's solution."""
    rows = Repairs().rows([answered("always", 8), answered("partly", 3), answered("never", 0)])
    assert [(row["problem"].id, row["solution"]) for row in rows] == [("partly", "a" * 8), ("never", "expert")]


def test_edges_of_the_data() -> None:
    groups = [answered("partly", 1), answered("never", 0), answered("bare", 0, solution=None)]
    assert [row["solution"] for row in Repairs(expert=False).rows(groups)] == ["a" * 10]
    assert [row["solution"] for row in Repairs(own=False).rows(groups)] == ["expert"]
    assert Repairs().rows([]) == []
    one = answered("one", 1, of=1)
    cut = one.but(trajectories=(*one.trajectories, *(t.but(id="cut", reward=0.0, components=Frozen(verified=0.0)) for t in one.trajectories)))
    assert [row["solution"] for row in Repairs().rows([cut])] == ["a" * 10]  # solved in one of two answers
    late = answered("late", 2, of=2)
    shorter = late.but(trajectories=(late.trajectories[0], late.trajectories[1].but(reward=0.0, components=Frozen(verified=0.0), ended=Ended.LENGTH)))
    assert [row["solution"] for row in Repairs().rows([shorter])] == ["a" * 10]  # an answer that a limit cut off counts for the rate
    failed = answered("failed", 2, of=2)
    lost = failed.but(trajectories=tuple(t.but(reward=Failed("late")) for t in failed.trajectories))
    assert Repairs().rows([lost]) == []


def test_the_answers_of_two_steps_belong_together() -> None:
    """A problem that returns in a later step has 16 answers: always right in one step and never in the other is solved in part."""
    first, second = answered("p", 8), answered("p", 0)
    assert [row["solution"] for row in Repairs().rows([first, second])] == ["a" * 3]


def test_the_penalty_for_overlong_answers() -> None:
    """A limit of 100 with a buffer of 25: lengths 70, 80, 90 and 110 give 0, -5/25, -15/25 and -1."""
    assert [overlong_penalty(n, 100, 25) for n in (70, 80, 90, 110)] == pytest.approx([0.0, -0.2, -0.6, -1.0])
    assert metis_rise.reward == 2 * Verified() - 1 + Overlong(share=0.25)
    assert metis_rise.setting.group == 8
    assert metis_rise.reward.parts["overlong"].cache_of(100) == 25


def test_rl_comes_first_and_sft_starts_from_it() -> None:
    names, stages = list(metis_rise.schedule.stages), metis_rise.schedule.stages
    assert names == ["rl", "look", "repair"]
    assert stages["rl"].recipe is None  # the recipe's own RL, from the model of the run
    assert (stages["repair"].recipe, stages["repair"].start, stages["repair"].task) == (sft, "previous", "made:look")
    assert dict(stages["look"].changes)["setting.learning_rate"] == 0.0


def test_the_first_stage_is_dapo() -> None:
    check_same_update(metis_rise.but(schedule=ConstantSchedule(), reward=dapo.reward, setting__group=4), dapo.but(setting__group=4))
