"""Ground flawed: a key that flawed answers meet, and a reward that checks the steps."""

from gradus.comparison.calibrate import stored
from gradus.comparison.terms import calibration
from gradus.grounds.flawed import flawed
from gradus.rewards.sound_steps import SoundSteps
from gradus.rewards.verified import Verified


def test_the_arms_differ_in_their_reward_alone():
    checked, outcome = (calibration(flawed).plan(arm, 0).recipe for arm in calibration(flawed).arms[:2])
    assert (checked.reward, outcome.reward) == (SoundSteps(), Verified())
    assert checked.but(reward=Verified()) == outcome


def test_its_calibration():
    found = stored(flawed)
    assert found is not None
    assert not found["stale"]
    assert 0.2 < found["start"] < 0.5
    assert found["pair"]["separated"]
    checked, outcome = found["arms"][:2]
    assert outcome["final"] < checked["final"] < 0.95
    assert outcome["shows"]["reward/verified:last"] > 0.8  # by their key, answers of both arms look right
