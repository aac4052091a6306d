"""Rewards that are rare at the start."""

from gradus.comparison.calibrate import stored
from gradus.grounds.sparse import sparse


def test_the_start_is_rarely_right_and_the_pair_is_separated():
    found = stored(sparse)
    if found is not None:
        assert found["start"] < 0.08
        assert found["pair"]["separated"]
