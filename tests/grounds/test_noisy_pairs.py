"""Ground noisy_pairs: swapped preferences, against which one arm's mistakes cancel and the other's do not."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.noisy_pairs import noisy_pairs
from gradus.training.plan import task_of
from gradus.types import Key


def test_three_of_ten_training_pairs_are_swapped():
    task = task_of(calibration(noisy_pairs).plan(calibration(noisy_pairs).arms[0], 0))
    swapped = [p.meta["swapped"] for p in task.source.draw(range(14 * 32), None, Key(0))]
    assert 0.23 < sum(swapped) / len(swapped) < 0.37  # three standard deviations of 448: 3 sqrt(0.21 / 448)


def test_its_calibration():
    found = stored(noisy_pairs)
    assert found is not None
    assert not found["stale"]
    assert 0.2 < found["start"] < 0.6
    assert found["pair"]["separated"]
    dpo, orpo = found["arms"][:2]
    assert orpo["final"] < found["start"] < dpo["final"]
