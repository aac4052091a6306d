"""Ground slow: a small rate, and at the end of the budget room for every arm."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.slow import slow


def test_the_rate_is_small_and_the_arms_differ_in_updates():
    experiment = calibration(slow)
    recipes = {arm.name: experiment.plan(arm, 0).recipe for arm in experiment.arms}
    assert {recipe.setting.learning_rate for recipe in recipes.values()} == {1e-5}
    assert {name: recipe.update.count * recipe.update.epochs for name, recipe in recipes.items()} == {"expert_iteration": 8, "grpo": 1}


def test_its_calibration():
    found = stored(slow)
    assert found is not None
    assert not found["stale"]
    assert 0.3 < found["start"] < 0.6
    assert found["pair"]["separated"]
    assert all(arm["final"] < 0.9 for arm in found["arms"])
