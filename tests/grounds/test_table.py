"""Ground table: the optimum under a KL penalty keeps every best arm, and the numbers that its text gives."""

import numpy as np
import pytest

from gradus.comparison.calibrate import stored
from gradus.grounds.table import table
from gradus.tasks.games.bandit import MACHINES, payoffs, regularised
from gradus.training.plan import load_task
from gradus.types import Key


def test_the_regularised_optimum_keeps_the_best_arms():
    task = load_task(table.task, dict(table.options))
    (problem,) = task.source.draw([0], None, Key(0))
    assert problem.meta["payoffs"].count(1.0) == 4
    for machine in MACHINES:
        paid = np.array(payoffs(machine, 8, 0.0, 4))
        best = regularised(np.full(8, 1 / 8), paid, beta=0.2)
        assert best[paid == 1.0] == pytest.approx(best[paid == 1.0][0])
        assert best[paid == 1.0].sum() > 0.97  # e^(0.8 / 0.2) = 55 to 1, arm against arm
    # eight answers from k equal arms show each one with chance 1 - (1 - 1/k)^8
    assert [round(4 * (1 - (1 - 1 / k) ** 8), 1) for k in (8, 4)] == [2.6, 3.6]


def test_its_calibration():
    found = stored(table)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.7
    assert found["pair"]["separated"]
