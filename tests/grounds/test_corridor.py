"""Ground corridor: nearly every episode ends well, also by luck, and the arms differ in one term."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.corridor import corridor
from gradus.training.plan import load_task


def test_random_doors_lead_out():
    task = load_task(corridor.task, dict(corridor.options))
    assert task.environment.limit == 32
    assert task.chance > 0.95
    assert corridor.fields["rollout.max_turns"] == "32"


def test_the_arms_differ_in_the_comparison_by_state():
    experiment = calibration(corridor)
    better, worse = (experiment.plan(arm, 0).recipe for arm in experiment.arms)
    assert better.credit.omega == 1.0
    assert worse == better.but(credit__omega=0.0)


def test_its_calibration():
    found = stored(corridor)
    assert found is not None
    assert not found["stale"]
    assert found["start"] > 0.7
    assert found["pair"]["separated"]
