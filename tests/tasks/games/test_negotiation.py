"""The task negotiation: a bargain by hand, what the seller understands, and the problems of every level."""

from __future__ import annotations

import pytest

from gradus.tasks.games.negotiation import LEVELS, TURNS, negotiation
from gradus.tasks.games.negotiation_environment import Bargain, Negotiation, Utterance, replayed, step_of, surplus, understood
from gradus.testing import Effort, check_task
from gradus.types import Frozen, Key, Problem, UserError

CASE = Problem("p", "negotiation", text="", meta=Frozen(limit=14, cost=8, ask=16))


def test_a_bargain_by_hand() -> None:
    """The gap is 8, so a plain offer lowers the price by 2 and a polite one by 3."""
    game = Bargain(14, 8, 16, 5)
    assert game.first.observation == "16?"
    assert game.play("offer 8").observation == "14?"
    assert game.play("please offer 8").observation == "11?"
    assert game.play("why").observation == "cost 8; 11?"
    end = game.play("offer 10")  # above 11 - 2
    assert (end.observation, end.terminated) == ("deal 10", True)
    assert end.reward == pytest.approx(4 / 6)


def test_a_low_offer_changes_nothing_and_the_price_stays_above_the_cost() -> None:
    game = Bargain(14, 8, 10, 9)
    low = game.play("offer 3")
    assert (low.observation, low.valid) == ("no; 10?", True)
    assert game.play("please offer 4").observation == "9?"
    assert game.play("please offer 4").observation == "9?"
    assert not game.play("hm").valid


def test_a_deal_above_the_limit_earns_nothing() -> None:
    assert Bargain(14, 8, 16, 5).play("deal").reward == 0.0
    over = Bargain(14, 8, 16, 5).play("offer 20")
    assert (over.observation, over.reward) == ("deal 16", 0.0)
    assert (surplus(14, 8, 8), surplus(14, 8, 7), surplus(14, 8, 14)) == (1.0, 1.0, 0.0)


def test_the_last_turn() -> None:
    game = Bargain(14, 8, 16, 2)
    assert not game.play("why").truncated
    last = game.play("why")
    assert (last.truncated, last.terminated, last.reward) == (True, False, 0.0)
    with pytest.raises(UserError, match="limit"):
        Negotiation(0)


def test_what_the_seller_understands() -> None:
    assert understood("PLEASE offer 12 now") == Utterance("offer", 12, True)
    assert understood("offer me 12").kind == ""
    assert understood("why? deal") == Utterance("deal")
    assert understood("pleased to offer 7") == Utterance("offer", 7)
    assert [step_of(gap, polite) for gap in (5, 6, 12) for polite in (False, True)] == [1, 2, 2, 3, 3, 4]


def test_a_replay_gives_every_turn() -> None:
    episode, pairs, answers = replayed(CASE, ["offer 8", "please deal"])
    assert pairs == [("16?", "offer 8"), ("14?", "please deal")]
    assert (answers[-1].observation, episode.price) == ("deal 14", 14)


def test_the_contributions_by_hand() -> None:
    """16 -> 14 by a plain offer, then a deal at 14, the limit: no gain."""
    found = Negotiation().contributions(CASE, ["offer 8", "hm", "why", "please why", "please deal"])
    assert found == {"goal": (0, [1, 0, 0, 0, 0]), "relationship": (4, [1, 0, 1, 3, 3]), "knowledge": (10, [0, 0, 3, 0, 0])}
    assert Negotiation().contributions(CASE, []) == {"goal": (0, []), "relationship": (0, []), "knowledge": (0, [])}


@pytest.mark.parametrize("level", LEVELS)
def test_the_problems_of_a_level(level: int) -> None:
    low, high, least, most = LEVELS[level]
    for p in negotiation().source.draw(range(150), level, Key(0)):
        limit, cost, ask = (p.meta[name] for name in ("limit", "cost", "ask"))
        assert low <= cost <= high
        assert least <= ask - cost <= most
        assert cost + 2 <= limit < ask
        assert str(cost) not in p.question.partition(",")[0]
        said = [action for _, action in p.meta["demonstration"]]
        episode, pairs, answers = replayed(p, said, TURNS)
        assert pairs == [tuple(pair) for pair in p.meta["demonstration"]]
        assert answers[-1].reward == 1
        assert episode.price is not None


def test_demonstrations_of_mixed_skill() -> None:
    problems = negotiation(skill=0.5).source.draw(range(200), None, Key(0))
    best = [replayed(p, [a for _, a in p.meta["demonstration"]])[2][-1].reward for p in problems]
    assert 60 < sum(r == 1 for r in best) < 150
    assert min(best) > 0
    assert all(p.meta["demonstration"][0][1] == "please why" for p in negotiation(skill=0.5).held_out.draw(range(50), None, Key(0)))
    with pytest.raises(UserError, match="skill"):
        negotiation(skill=2)


def test_the_contract() -> None:
    check_task(negotiation(), effort=Effort(problems=8, texts=50), strict=True)
    held = {p.id[-6:] for p in negotiation().held_out.draw(range(100), 1, Key(0))}
    assert not held & {p.id[-6:] for p in negotiation().source.draw(range(200), 1, Key(0))}
