import pytest

from gradus.rewards.overlong import Overlong, overlong_penalty
from gradus.types import UserError
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


def test_the_defaults_are_the_paper_s():
    # generation ends at 16384 expected and 4096 tokens of cache
    assert (Overlong().max_tokens, Overlong().cache) == (16384 + 4096, 4096)


@pytest.mark.parametrize("cache", [0, -1, 11])
def test_the_cache_lies_within_the_limit(cache):
    with pytest.raises(UserError, match="must be at least 1 and at most max_tokens"):
        Overlong(10, cache)
