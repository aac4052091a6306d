"""RLSP: rewards by hand, loops and cut answers, the order of right and wrong answers, the rise of alpha, and PPO at the limit."""

from __future__ import annotations

import pytest

from gradus.papers.bases.ppo import ppo
from gradus.papers.thinking.rlsp import LengthEffort, rlsp
from gradus.recipe.core import changes
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_micro_batches, check_same_update
from gradus.types import Ended, UserError
from gradus.types.moments import Moment
from tests.rewards.judged import score, trajectory

SMALL = rlsp.but(reward__parts__effort__target=100).reward


def judged(*rows):
    answers = [trajectory(text, tokens=tokens).but(ended=ended) for text, tokens, ended in rows]
    (found,) = score(SMALL, answers, verify=lambda p, c: float(c == "yes"))
    return found


def test_rewards_by_hand() -> None:
    stop = Ended.STOP
    found = judged(("yes", range(50), stop), ("no", range(200), stop), ("yes", [], stop), ("no", range(50), stop))
    assert [j.reward for j in found] == pytest.approx([0.9, 0.2, 0.8, 0.1])
    assert [j.components["effort"] for j in found] == [0.5, 1.0, 0.0, 0.5]
    assert [j.components["verified"] for j in found] == [1, 0, 1, 0]


def test_a_loop_and_a_cut_answer_have_no_effort() -> None:
    loop = [*range(10, 30), *[1, 2, 3, 4] * 5]
    found = judged(("no", loop, Ended.STOP), ("yes", loop, Ended.STOP), ("no", range(50), Ended.LENGTH))
    assert [j.components["effort"] for j in found] == [0, 0, 0]
    # f = 1 - 20/40: the price is .05
    assert [j.reward for j in found] == pytest.approx([-0.05, 0.75, 0.0])
    assert LengthEffort().value(trajectory("x", tokens=[1, 2, 3] * 7)) > 0  # a block of three is not a block of four


def test_the_verdict_dominates() -> None:
    loops = [1, 2, 3, 4] * 50
    right = judged(*(("yes", tokens, Ended.STOP) for tokens in ([], range(99), loops)))
    wrong = judged(*(("no", tokens, Ended.STOP) for tokens in ([], range(999), loops)))
    assert min(j.reward for j in right) == pytest.approx(0.7)
    assert max(j.reward for j in wrong) == pytest.approx(0.2)


def test_alpha_rises_to_one_in_the_last_fifth() -> None:
    found = [rlsp.schedule.at(Moment(step=step, steps=100), rlsp)[0].reward.weights for step in (0, 80, 90, 99)]
    assert [w["verified"] for w in found] == pytest.approx([0.8, 0.8, 0.9, 0.99], abs=0.003)
    assert all(w["verified"] + w["effort"] == pytest.approx(1) for w in found)
    assert all(w["looped"] == -0.1 for w in found)


def test_without_effort_it_is_ppo() -> None:
    weights = {"reward__weights__verified": 1.0, "reward__weights__effort": 0.0, "reward__weights__looped": 0.0}
    check_same_update(rlsp.but(schedule=ConstantSchedule(), **weights), ppo.but(credit__rule__lam=1.0, credit__coefficient=0.05))
    assert {path.split(".")[0] for path in changes(ppo, rlsp)} == {"reward", "credit", "schedule"}
    check_micro_batches(rlsp)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="target"):
        LengthEffort(target=0)
