from dataclasses import replace

import numpy as np
import pytest

from gradus.rewards.overlong import Overlong, overlong_penalty
from gradus.types import Frozen, UserError
from tests.rewards.judged import score, trajectory


@pytest.mark.parametrize(
    ("length", "penalty"),
    # 10 tokens at most, the last 4 of them in the cache: (6 - length) / 4 between 6 and 10
    [(0, 0.0), (6, 0.0), (7, -0.25), (8, -0.5), (10, -1.0), (11, -1.0), (1000, -1.0)],
)
def test_by_hand(length, penalty):
    assert overlong_penalty(length, 10, 4) == penalty
    ((judgement,),) = score(Overlong(10, 4), [trajectory(tokens=range(length))])
    assert judgement.reward == penalty
    assert judgement.components["overlong"] == penalty


def test_the_limit_is_that_of_sampling():
    # 48 new tokens: the last 9 are the cache, so 39 are free and 42 pay 3 / 9
    rows = [trajectory(tokens=range(length)) for length in (39, 42, 48)]
    (row,) = score(Overlong(), rows, max_tokens=48)
    assert [j.reward for j in row] == [0.0, pytest.approx(-1 / 3), -1.0]
    (row,) = score(Overlong(cache=24), rows, max_tokens=48)
    assert [j.reward for j in row] == [-0.625, -0.75, -1.0]


def test_the_shares_are_the_paper_s():
    # generation ends at 16384 expected and 4096 tokens of cache
    assert Overlong().cache_of(16384 + 4096) == 4096
    assert Overlong().cache_of(3) == 1
    assert [Overlong(share=0.25).cache_of(n) for n in (100, 48, 3)] == [25, 12, 1]
    assert Overlong(cache=7, share=0.25).cache_of(100) == 7
    with pytest.raises(UserError, match="share"):
        Overlong(share=1.5)


def test_an_episode_has_no_limit_of_its_own():
    one = trajectory(tokens=range(40))
    (context,) = one.contexts
    turns = one.but(contexts=(replace(context, streams=Frozen(turn=np.arange(40) // 20)),))
    chunks = one.but(contexts=(context, context))
    (row,) = score(Overlong(), [one, turns, chunks], max_tokens=40)
    assert [j.reward for j in row] == [-1.0, 0.0, 0.0]
    (row,) = score(Overlong(max_tokens=80, cache=80), [one, turns, chunks], max_tokens=40)
    assert [j.reward for j in row] == [-0.5, -0.5, -1.0]


def test_the_cache_lies_within_the_limit():
    for cache in (0, -1):
        with pytest.raises(UserError, match=f"Overlong.cache is {cache}"):
            Overlong(cache=cache)
    with pytest.raises(UserError, match="`cache` is 11, but `max_tokens` is 10; set `cache` to 10 or less"):
        Overlong(10, 11)
    with pytest.raises(UserError, match="`cache` is 50, but `max_tokens` is 48"):
        score(Overlong(cache=50), [trajectory(tokens=range(3))], max_tokens=48)
