"""Ground unstable: fresh samples, and a rate ten times that of the other grounds on this task."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.unstable import unstable


def test_samples_are_fresh_and_the_rate_is_high():
    experiment = calibration(unstable)
    plans = {arm.name: experiment.plan(arm, 0).recipe for arm in experiment.arms}
    assert (plans["reinforce"].update.count, plans["reinforce"].update.epochs) == (1, 1)
    assert {recipe.setting.learning_rate for recipe in plans.values()} == {3e-3}


def test_its_calibration():
    found = stored(unstable)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.6
    assert found["pair"]["separated"]
    assert found["arms"][1]["final"] < 0.2
    assert found["arms"][1]["shows"]["held_out/accuracy:drop"] > 0.6  # it has learned, and lost it
