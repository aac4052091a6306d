"""Ground noisy_both: verdicts err both ways in training, and never on held-out problems."""

import pytest

from gradus.comparison.calibrate import stored
from gradus.grounds.noisy_both import noisy_both
from gradus.training.plan import load_task
from gradus.types import Key


def test_the_shares_are_what_it_says():
    task = load_task(noisy_both.task, dict(noisy_both.options))
    for source, missed, fooled in ((task.source, 0.3, 0.3), (task.held_out, 0.0, 0.0)):
        problems = source.draw(range(300), None, Key(1))
        right = [task.verify(p, p.meta["solution"]) for p in problems]
        wrong = [task.verify(p, f"={p.answer + 1}") for p in problems]
        assert 1 - sum(right) / 300 == pytest.approx(missed, abs=0.08 * (missed > 0))  # 3 sqrt(0.21 / 300)
        assert sum(wrong) / 300 == pytest.approx(fooled, abs=0.08 * (fooled > 0))


def test_its_calibration():
    found = stored(noisy_both)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.6
    assert found["pair"]["separated"]
    averages, imitates = found["arms"][:2]
    assert averages["final"] > 0.7
    assert imitates["final"] < averages["final"] - 0.2
