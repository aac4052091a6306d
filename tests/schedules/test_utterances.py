"""The rewards of single utterances by hand, and the rows that are left out."""

from __future__ import annotations

import pytest

from gradus.rewards.dialogue_scores import DIMENSIONS
from gradus.schedules.utterances import Utterances, history, scaled, spread_score
from gradus.testing.methods import toy_trajectory
from gradus.types import Failed, Frozen, Group, Problem, UserError

CASE = Problem("p", "negotiation", text="", meta=Frozen(limit=14, cost=8, ask=16))
PAIRS = [("lamp, limit 14\n16?", "please why"), ("cost 8; 16?", "please offer 8"), ("13?", "offer 8"), ("11?", "offer 3"), ("no; 11?", "deal")]


def test_the_spread_of_a_score_by_hand():
    """G = 8 and attributions 3, 0, 1."""
    assert spread_score(8, (3, 0, 1)) == pytest.approx([8, 0, 2.6667], abs=1e-4)
    assert spread_score(8, (3, 0, 1), "normalised") == [6, 0, 2]
    assert spread_score(8, (3, 0, 1), "equal") == [8, 8, 8]
    assert spread_score(8, (0, 0), "normalised") == [0, 0]
    assert spread_score(8, (3, 3)) == [8, 8]  # need not add up to G


def test_the_scale_by_hand():
    assert scaled([2, 6, 10]).tolist() == [0, 0.5, 1]
    assert scaled([4, 4]).tolist() == [0, 0]
    assert scaled([]).tolist() == []


def episode(scores, attributions, said=("a", "b", "c"), name="x"):
    pairs = [[f"seen {i}", text] for i, text in enumerate(said)]
    names = DIMENSIONS[: len(scores)]
    extra = Frozen(dialogue=pairs, scores=dict(zip(names, scores, strict=True)), attributions=dict(zip(names, attributions, strict=True)))
    return toy_trajectory([0], name=name).but(extra=extra)


def rows(*episodes, **options):
    return Utterances(**options).rows([Group(f"g{i}", (t,)) for i, t in enumerate(episodes)])


def test_the_reward_of_an_utterance_is_the_mean_of_the_scaled_dimensions():
    """Goal 8, 0, 2.6667 -> 1, 0, 1/3. Relationship 9 (1, 2, 3)/3 = 3, 6, 9 -> 0, .5, 1. Knowledge 6 (3, 3, 0)/3 = 6, 6, 0 -> 1, 1, 0."""
    found = rows(episode((8, 9, 6), ((3, 0, 1), (1, 2, 3), (3, 3, 0))))
    assert [row["rewards"][0] for row in found] == pytest.approx([2 / 3, 0.5, 4 / 9])
    assert [row["answers"] for row in found] == [["a"], ["b"], ["c"]]
    (first, *_) = rows(episode((8, 9, 6), ((3, 0, 1), (1, 2, 3), (3, 3, 0))), weights=Frozen(goal=2.0, relationship=2.0, knowledge=0.0))
    assert first["rewards"] == pytest.approx([0.5])


def test_dimension_values_of_one_utterance_by_hand():
    """Values 1, .5 and 0 with equal weights: R = .5. The scale is that of the whole data set, two episodes here."""
    whole = ((3,), (3,), (3,))
    found = rows(episode((10, 5, 0), whole, ("a",)), episode((0, 0, 10), whole, ("b",), "y"), episode((0, 10, 0), whole, ("c",), "z"))
    assert found[0]["rewards"] == pytest.approx([0.5])


def test_equal_texts_in_different_histories_keep_their_own_targets():
    found = rows(episode((10,), ((0, 3),), ("offer 5", "offer 5")))
    assert [row["rewards"] for row in found] == [[0.0], [1.0]]
    assert found[0]["prompt"] == [{"role": "user", "content": "seen 0"}]
    assert found[1]["prompt"] == [*found[0]["prompt"], {"role": "assistant", "content": "offer 5"}, {"role": "user", "content": "seen 1"}]
    assert history([["x", "a"]], 0) == [{"role": "user", "content": "x"}]


def test_failed_and_auxiliary_episodes_make_no_row():
    whole = episode((8,), ((3, 0, 1),))
    assert rows(whole.but(reward=Failed("broken"))) == []
    assert Utterances().rows([Group("g", (whole,), aside=True)]) == []
    assert Utterances().rows([]) == []
    with pytest.raises(UserError, match="spread"):
        Utterances("even")


def test_an_unread_attribution_makes_no_row():
    """Goal 9 (-1, 1, 3): 3 and 9 -> 0 and 1. The scale does not see the unread utterance; the other dimension loses the utterance, too."""
    found = rows(episode((9, 6), ((-1, 1, 3), (3, 2, 0))))
    assert [(row["answers"], row["rewards"]) for row in found] == [(["b"], [0.5]), (["c"], [0.5])]
    assert [len(row["prompt"]) for row in found] == [3, 5]  # the unread utterance stays in the history
    apart = rows(episode((8,), ((-1, 3, 1),)), episode((4,), ((2, 0, 1),), name="y"), spread="normalised")
    assert [row["rewards"][0] for row in apart] == pytest.approx([1, 1 / 3, 4 / 9, 0, 2 / 9])  # 6, 2, 8/3, 0, 4/3
    assert rows(episode((9,), ((-1, -1, -1),))) == []
