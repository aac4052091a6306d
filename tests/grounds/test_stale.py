"""Ground stale: many updates a batch, at a rate that is harmless with one."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.stale import stale


def test_every_arm_takes_32_updates_from_a_batch():
    experiment = calibration(stale)
    updates = [experiment.plan(arm, 0).recipe.update for arm in experiment.arms]
    assert [(u.count, u.epochs) for u in updates] == [(8, 4)] * 3


def test_its_calibration():
    found = stored(stale)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.6
    assert found["pair"]["separated"]
    assert found["arms"][1]["final"] < 0.2 < found["start"] < found["arms"][0]["final"] < 0.9  # one is lost, one learns and has room
