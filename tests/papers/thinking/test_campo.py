"""CAMPO: rewards of loops and cut answers by hand, the limits of the stages, and DAPO at the limit."""

from __future__ import annotations

import pytest

from gradus.papers.bases.dapo import dapo
from gradus.papers.thinking.campo import campo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.ramp import Ramp
from gradus.selection.filters import Mixed
from gradus.testing.methods import check_micro_batches, check_same_update, steps_of
from gradus.types import Ended
from gradus.types.moments import Moment
from tests.rewards.judged import score, trajectory


def tokens(before: int, total: int) -> list[int]:
    return (list(range(1000, 1000 + before)) + [1, 2, 3, 4, 5] * total)[:total]


def judged(*rows):
    """(text, tokens, end) of every answer."""
    answers = [trajectory(text, tokens=row).but(ended=ended) for text, row, ended in rows]
    (found,) = score(campo.reward, answers, verify=lambda p, c: float(c == "yes"))
    return found


def test_rewards_by_hand() -> None:
    stop, cut = Ended.STOP, Ended.LENGTH
    found = judged(
        ("yes", tokens(25, 100), stop),
        ("yes", tokens(50, 100), stop),
        ("yes", tokens(75, 100), stop),
        ("yes", tokens(100, 100), stop),
        ("no", tokens(100, 100), stop),
        ("no", tokens(50, 100), stop),
        ("yes", tokens(100, 100), cut),
        ("yes", tokens(50, 100), cut),
    )
    assert [j.components["looped"] for j in found] == [0.75, 0.5, 0.25, 0, 0, 0.5, 0, 0.5]
    assert [j.reward for j in found] == [0.25, 0.5, 0.75, 1.0, 0.0, -0.5, 0.0, -0.5]  # a cut answer has at most 0
    assert [j.components["verified"] for j in found] == [1, 1, 1, 1, 0, 0, 0, 0]  # a loop does not make an answer wrong


def test_the_limit_of_a_stage() -> None:
    limits = [campo.schedule.at(Moment(step=step, steps=2000), campo)[0].setting.max_tokens for step in (0, 1199, 1200, 1999)]
    assert limits == [16384, 16384, 32768, 32768]
    small = campo.but(schedule=Ramp("setting.max_tokens", ((0, 2), (1, 6)), shape="step"))
    (_, first), (_, second) = steps_of(small, steps=2, prompts=6)
    lengths = [max(t.actions for g in groups for t in g.trajectories) for groups in (first, second)]
    assert lengths[0] == 2 < lengths[1] <= 6
    cut = [t for g in first for t in g.trajectories if t.ended is Ended.LENGTH]
    assert cut
    assert all(t.value <= 0 for t in cut)


def test_without_its_differences_it_is_dapo() -> None:
    plain = campo.but(schedule=ConstantSchedule(), reward=Verified())
    check_same_update(plain, dapo.but(reward=Verified(), update__count=1))
    assert {path.split(".")[0] for path in changes(dapo, campo)} == {"reward", "schedule", "update"}
    assert campo.selection == Mixed()
    check_micro_batches(campo)


@pytest.mark.parametrize("weight", [0.0, -0.5])
def test_the_weight_of_a_loop(weight: float) -> None:
    part = campo.but(reward__weights__looped=weight).reward
    (row,) = score(part, [trajectory("yes", tokens=tokens(50, 100))], verify=lambda p, c: 1.0)
    assert row[0].reward == {0.0: 1.0, -0.5: 0.75}[weight]
