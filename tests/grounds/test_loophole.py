"""Ground loophole: a hole in the training reward that the start model meets now and then."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.loophole import loophole


def test_the_hole_pays_more_than_the_truth_in_training_alone():
    planned = calibration(loophole).plan(calibration(loophole).arms[0], 0)
    assert dict(planned.task_options)["pays"] == "3"
    assert planned.recipe.study.reward is None  # the task's verifier itself judges held-out problems by the truth


def test_its_calibration():
    found = stored(loophole)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.7
    assert found["pair"]["separated"]
    rft, rloo = found["arms"][:2]
    assert rloo["final"] < 0.1 < rft["final"]  # the truth
    assert rloo["shows"]["reward:last"] > 1.0 > rft["shows"]["reward:last"]  # the proxy: more than a right answer pays
