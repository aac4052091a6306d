"""GroupRank: the three terms by hand, malformed answers, merged groups, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import random

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.grouprank import GroupScores, grouprank, likeness, merged, ranked, recall, scores_of
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.text.ranking import ranking
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem, UserError

LABELS = Frozen(A=10.0, B=5.0, C=0.0)
PROBLEM = Problem("x", "ranking", text="q", meta=Frozen(grades=LABELS))


def test_ndcg_of_the_papers_order_by_hand() -> None:
    # gains 2, 0, 1 in the predicted order against 2, 1, 0: (2 + 1/2) / (2 + 1/log2 3)
    problem = Problem("x", "ranking", text="q", meta=Frozen(grades=Frozen(A=2.0, B=1.0, C=0.0)))
    assert GroupScores(most=2).terms(problem, "A2 C1 B0")["ndcg"] == pytest.approx(0.9502, abs=5e-5)


def test_the_reward_by_hand() -> None:
    # 8 4 0 against 10 5 0: 1 - (2 + 1 + 0) / 30
    terms = GroupScores().terms(PROBLEM, '{"A": 8, "B": 4, "C": 0}')
    assert terms == {"recall": 1.0, "ndcg": 1.0, "distribution": pytest.approx(0.9)}
    rows = tuple(toy_trajectory([2], name=c).but(problem=PROBLEM, completion=c) for c in ("A8 B4 C0=A B C", "A0 B4 C8"))
    world, _ = scripted_world(ranking(), lambda ask: "")
    ((one, two),) = asyncio.run(GroupScores().score([Group("g", rows)], {}, world))
    assert one.reward == pytest.approx(0.3 + 0.4 + 0.27)
    assert one.components == {"verified": 1.0, "recall": 1.0, "ndcg": 1.0, "distribution": pytest.approx(0.9)}
    # order C B A: 1 of 2 positives in the first 2; (5/log2 3 + 10/2) / (10 + 5/log2 3); 1 - (10 + 1 + 8) / 30
    gain = (5 / 1.5849625 + 5) / (10 + 5 / 1.5849625)
    assert two.reward == pytest.approx(0.3 * 0.5 + 0.4 * gain + 0.3 * (1 - 19 / 30))


@pytest.mark.parametrize(
    "text",
    [
        '{"A": 8, "B": 4}', '{"A": 8, "B": 4, "C": 0, "D": 1}', '{"A": 8, "A": 8, "B": 4, "C": 0}', '{"A": 8, "B": 4, "C": 11}', '{"A": 8, "B": 4, "C": -1}',
        "{", "", "A8 B4", '{"A": [1]}',
    ],
)
def test_a_malformed_answer_earns_nothing(text: str) -> None:
    assert set(GroupScores().terms(PROBLEM, text).values()) == {0.0}


def test_a_group_without_positives_has_only_the_distribution() -> None:
    problem = Problem("x", "ranking", text="q", meta=Frozen(grades=Frozen(A=0.0, B=0.0)))
    assert GroupScores().terms(problem, "A0 B5") == {"recall": 0.0, "ndcg": 0.0, "distribution": pytest.approx(0.75)}


def test_equal_scores_keep_the_given_order() -> None:
    assert ranked({"A": 1, "B": 2, "C": 1}, ["C", "B", "A"]) == ["B", "C", "A"]
    assert recall(["B", "A"], {"A": 1, "B": 0}) == 0.0


def test_merging_does_not_depend_on_the_order_of_groups() -> None:
    rng, order = random.Random(0), list("ABCDEFGH")
    for _ in range(20):
        scores = {name: float(rng.randint(0, 3)) for name in order}
        groups = [{n: scores[n] for n in order[i : i + 2]} for i in range(0, 8, 2)]
        assert merged(groups, order) == merged(rng.sample(groups, 4), order) == ranked(scores, order)


def test_only_the_distribution_sees_a_shift_of_a_group() -> None:
    labels = {"A": 9.0, "B": 3.0}
    shifted = {name: label + 1 for name, label in labels.items()}
    assert (likeness(labels, labels, 10), likeness(shifted, labels, 10)) == (1.0, pytest.approx(0.9))
    assert ranked(shifted, ["A", "B"]) == ranked(labels, ["A", "B"])  # so recall and NDCG are unchanged
    others = {"C": 3.5, "D": 0.0}
    assert merged([labels, others], list("ABCD")) != merged([shifted, others], list("ABCD"))


def test_scores_are_read() -> None:
    assert scores_of('I think {"A": 7.5, "B": 3} ') == [("A", 7.5), ("B", 3.0)]
    assert scores_of("A0 B2 C1=B C A") == [("A", 0.0), ("B", 2.0), ("C", 1.0)]
    assert scores_of("no scores") == []


def test_with_the_verdict_it_is_grpo() -> None:
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (grouprank.but(reward=Verified()), grpo))
    assert torch.equal(one, other)
    assert set(changes(grpo, grouprank)) == {"reward"}
    check_micro_batches(grouprank)
    with pytest.raises(UserError, match=r"GroupScores\.most"):
        GroupScores(most=0)
