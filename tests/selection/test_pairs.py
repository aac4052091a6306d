"""Groups cut into pairs."""

from __future__ import annotations

import pytest

from gradus.selection.filters import BestAndWorst
from gradus.selection.pairs import Consecutive, Fewer, Higher, RankedPairs, Right, RightWrongPair, Shorter
from gradus.testing.methods import toy_group
from gradus.types import Frozen, Group, Key, UserError
from gradus.types.returned import check_kept


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


def episode(name, right, turns, actions=4, reward=None):
    """A judged episode of `turns` turns."""
    made = toy_group(float(right), lengths=[actions], key=name).trajectories[0]
    made = made.but(links=Frozen(turns=turns))
    return made if reward is None else made.but(reward=reward)


def pairs(*episodes, by):
    kept, dropped = RankedPairs(by=by).keep([Group("g", tuple(episodes))], Key())
    assert bool(kept) != bool(dropped)
    return [tuple(t.id.split("/")[0] for t in g.trajectories) for g in kept]


THRIFT = (Right(), Fewer("turns"), Shorter(1.5))


def test_the_first_criterion_that_decides_makes_the_pair():
    three, five, wrong = episode("three", True, 4), episode("five", True, 6), episode("wrong", False, 2)
    assert pairs(three, five, wrong, by=THRIFT) == [("three", "five"), ("three", "wrong"), ("five", "wrong")]
    assert pairs(wrong, five, three, by=THRIFT) == [("five", "wrong"), ("three", "wrong"), ("three", "five")]  # whatever the order
    assert pairs(three, five, wrong, by=(Right(),)) == [("three", "wrong"), ("five", "wrong")]


def test_two_wrong_ones_make_no_pair():
    assert pairs(episode("a", False, 2), episode("b", False, 9), by=THRIFT) == []
    assert pairs(episode("a", False, 2), episode("b", False, 9), by=(Fewer("turns"),)) == [("a", "b")]  # unless no criterion asks


@pytest.mark.parametrize(("actions", "found"), [(150, []), (151, [("short", "long")]), (100, [])])
def test_the_longer_one_loses_above_one_and_a_half_times_the_length(actions, found):
    assert pairs(episode("long", True, 4, actions), episode("short", True, 4, 100), by=THRIFT) == found


def test_a_higher_score_wins_by_more_than_the_margin():
    a, b, c = (episode(n, True, t, reward=r) for n, t, r in (("a", 5, 0.75), ("b", 4, 0.5), ("c", 4, 0.25)))
    assert pairs(a, b, c, by=(Higher(0.25), Fewer("turns"))) == [("b", "a"), ("a", "c")]  # 0.25 apart is not more: then the turns decide


def test_copies_are_named_after_pair_and_side():
    three, five, wrong = episode("three", True, 4), episode("five", True, 6), episode("wrong", False, 2)
    kept, dropped = RankedPairs(by=THRIFT, most=2).keep([Group("g", (three, five, wrong), pool=(1.0,)), Group("h", (wrong,))], Key())
    assert [[(t.id, t.links["preferred"], t.links["turns"]) for t in g.trajectories] for g in kept] == [
        [("three/0/pair/0", True, 4), ("five/0/pair/0", False, 6)],
        [("three/0/pair/1", True, 4), ("wrong/0/pair/1", False, 2)],
    ]
    assert [(g.key, g.pool) for g in kept] == [("g/pair/0", (1.0,)), ("g/pair/1", (1.0,))]
    assert [g.key for g in dropped] == ["h"]
    check_kept(RankedPairs(), (kept, dropped), [], Key())


def test_what_is_not_trained_on_is_in_no_ranked_pair():
    right, wrong = episode("a", True, 2), episode("b", False, 2)
    assert RankedPairs().keep([Group("g", (right.but(trained=False), wrong))], Key())[0] == []


def test_ranked_pairs_of_right_and_wrong_are_the_best_and_the_worst():
    made = toy_group(1, 0)
    (best,), _ = BestAndWorst().keep([made], Key())
    (ranked,), _ = RankedPairs().keep([made], Key())
    assert [t.contexts for t in ranked.trajectories] == [t.contexts for t in best.trajectories]


def test_refusals():
    with pytest.raises(UserError, match="`by` is empty"):
        RankedPairs(by=())
    with pytest.raises(UserError, match=r"Shorter.times is 0.5"):
        Shorter(0.5)
    with pytest.raises(UserError, match=r"Fewer\(turns\), but .* has no number turns in its links"):
        RankedPairs(by=THRIFT).keep([toy_group(1, 1)], Key())


@pytest.mark.parametrize(("how", "due"), [("balanced", (3, 4)), ("longest", (6, 1)), ("shortest", (3, 8))])
def test_the_choice_of_a_pair(how, due):
    group = toy_group(1, 0, 1, 0, 0, lengths=[6, 1, 3, 4, 8])
    ((pair,), dropped) = RightWrongPair(how).keep([group], Key())
    assert tuple(t.actions for t in pair.trajectories) == due
    assert [t.reward for t in pair.trajectories] == [1, 0]
    assert dropped == []


def test_random_pairs_are_keyed_and_all_occur():
    group = toy_group(1, 0, 1, 0, lengths=[1, 2, 3, 4])
    drawn = [tuple(t.actions for t in RightWrongPair().keep([group], Key(n))[0][0].trajectories) for n in range(60)]
    assert set(drawn) == {(1, 2), (1, 4), (3, 2), (3, 4)}
    assert drawn == [tuple(t.actions for t in RightWrongPair().keep([group], Key(n))[0][0].trajectories) for n in range(60)]
    kept, dropped = RightWrongPair().keep([toy_group(1, 1), toy_group(0, 0)], Key())
    assert kept == []
    assert len(dropped) == 2


def test_another_choice_of_a_pair_is_refused():
    with pytest.raises(UserError, match=r"RightWrongPair\.pairs"):
        RightWrongPair("best")
