"""The bandit: its payoffs, its verdicts, and the optimum under a KL penalty."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.tasks.games.bandit import ARMS, LEVELS, MACHINES, bandit, payoffs, regularised, total_variation, verify
from gradus.types import Frozen, Key, Problem, UserError


@pytest.mark.parametrize("level", LEVELS)
def test_payoffs(level: int) -> None:
    arms = LEVELS[level]
    rows = np.array([payoffs(machine, arms, 0.5, 1) for machine in MACHINES])
    assert rows.shape == (8, arms)
    best = rows.argmax(1)
    assert (rows.max(1) == 1.0).all()
    counts = np.bincount(best, minlength=arms)
    assert counts.max() - counts.min() <= (arms > 8)  # no arm is the best of more machines than another, as far as there are machines
    lesser = np.where(rows == 1.0, np.nan, rows)
    low, high = np.nanmin(lesser, 1), np.nanmax(lesser, 1)
    rich = low >= 0.5
    assert rich.sum() == 4
    assert (high[~rich] <= 0.2).all()
    assert (high <= 0.7).all()


def test_half_of_each_arms_machines_are_rich() -> None:
    for arm in range(4):
        found = [min(payoffs(m, 4, 0.8, 1)) >= 0.8 for m in MACHINES if np.argmax(payoffs(m, 4, 0.8, 1)) == arm]
        assert sorted(found) == [False, True]


def test_several_best_arms() -> None:
    assert all(payoffs(machine, 8, 0.0, 3).count(1.0) == 3 for machine in MACHINES)


def test_verdicts() -> None:
    p = Problem("x", "bandit", answer="b", meta=Frozen(payoffs=(0.25, 1.0)))
    assert [verify(p, text) for text in ("b", " b\n", "a", "c", "ab", "", "A", "b b")] == [1.0, 1.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_problems_and_their_split() -> None:
    task = bandit(level=3)
    held = {p.question for p in task.held_out.draw(range(50), None, Key(0))}
    drawn = task.source.draw(range(200), None, Key(1))
    assert not held & {p.question for p in drawn}
    assert {p.question[-1] for p in drawn} == set(MACHINES)
    for p in drawn[:20]:
        assert task.verify is not None
        assert task.verify(p, p.meta["solution"]) == 1.0
        assert p.answer in ARMS[:8]


@pytest.mark.parametrize(("options", "says"), [({"rich": 0.9}, "`rich` is 0.9; it must lie in"), ({"best": 4}, "`best` is 4; give 1 to 3")])
def test_refusals(options: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        bandit(level=2, **options)


def test_the_regularised_optimum_by_hand() -> None:
    found = regularised(np.array([0.5, 0.25, 0.25]), np.log([1.0, 4.0, 2.0]), beta=1.0)
    assert found == pytest.approx([0.25, 0.5, 0.25])  # 0.5 : 1 : 0.5
    prior, rewards, beta = np.array([0.7, 0.2, 0.1]), np.array([0.0, 1.0, 0.5]), 0.5
    best = regularised(prior, rewards, beta=beta)

    def value(p: np.ndarray) -> float:
        return float((p * (rewards - beta * np.log(p / prior))).sum())

    for i in range(20):
        other = np.array([*Key(i).uniform(3)]) + 0.01
        assert value(other / other.sum()) <= value(best)


def test_total_variation_by_hand() -> None:
    assert total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])) == 0.5
