"""Grounds noisy and noisy_both: verdicts err in training by the stated shares, and never on held-out problems."""

import pytest

from gradus.comparison.calibrate import stored
from gradus.comparison.ground import Ground
from gradus.grounds.noisy import noisy
from gradus.grounds.noisy_both import noisy_both
from gradus.training.plan import load_task
from gradus.types import Key


@pytest.mark.parametrize(("ground", "missed", "fooled"), [(noisy, 0.0, 0.3), (noisy_both, 0.3, 0.3)])
def test_the_shares_are_what_it_says(ground: Ground, missed: float, fooled: float):
    task = load_task(ground.task, dict(ground.options))
    for source, of_right, of_wrong in ((task.source, missed, fooled), (task.held_out, 0.0, 0.0)):
        problems = source.draw(range(300), None, Key(1))
        right = [task.verify(p, p.meta["solution"]) for p in problems]
        wrong = [task.verify(p, f"={p.answer + 1}") for p in problems]
        assert 1 - sum(right) / 300 == pytest.approx(of_right, abs=0.08 * (of_right > 0))  # 3 sqrt(0.21 / 300)
        assert sum(wrong) / 300 == pytest.approx(of_wrong, abs=0.08 * (of_wrong > 0))


@pytest.mark.parametrize("ground", [noisy, noisy_both])
def test_its_calibration(ground: Ground):
    found = stored(ground)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.6
    assert found["pair"]["separated"]
    averages, imitates = found["arms"][:2]
    assert averages["final"] > 0.7
    assert imitates["final"] < averages["final"] - 0.2
