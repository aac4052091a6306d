"""Rewards that are rare at the start."""

from gradus.comparison.calibrate import stored
from gradus.grounds.sparse import sparse


def test_the_start_is_rarely_right_and_the_pair_is_separated():
    found = stored(sparse)
    if found is not None:
        assert not found["stale"]
        assert 0 < found["start"] < 0.08
        assert found["pair"]["separated"]


def test_one_round_of_sampling_leaves_less_than_half_of_the_groups():
    found = stored(sparse)
    if found is not None:
        full, once = (arm["shows"].get("tokens/train:mean", arm["final"]) for arm in found["arms"])
        assert once < full / 2
