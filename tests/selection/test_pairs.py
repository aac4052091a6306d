"""Groups cut into pairs."""

from __future__ import annotations

from gradus.selection.pairs import Consecutive
from gradus.testing.methods import toy_group
from gradus.types import Key


def test_pairs_of_consecutive_trajectories_that_differ():
    kept, dropped = Consecutive().keep([toy_group(1, 0, 0, 0, 0.5, 1, 1, key="a"), toy_group(1, key="b")], Key())
    assert [[t.id for t in g.trajectories] for g in kept] == [["a/0", "a/1"], ["a/4", "a/5"]]
    assert [[t.id for t in g.trajectories] for g in dropped] == [["a/2", "a/3"]]
    assert len({g.key for g in kept + dropped}) == 3


def test_the_rewards_of_the_pool_stay():
    whole = toy_group(1, 0, 1, 1).but(pool=(1, 0, 1, 1))
    kept, dropped = Consecutive().keep([whole], Key())
    assert [g.pool for g in kept + dropped] == [whole.pool] * 2


def test_what_was_sampled_for_a_value_only_is_in_no_pair():
    made = toy_group(1, 0, 1, 0)
    probed = made.but(trajectories=(made.trajectories[0].but(trained=False), *made.trajectories[1:]))
    kept, _ = Consecutive().keep([probed], Key())
    assert [[t.id for t in g.trajectories] for g in kept] == [["g/1", "g/2"]]
