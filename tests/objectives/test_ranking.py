"""Terms over all pairs of a group: which pairs there are, the loss of a reward model by hand, the best as a batch of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import ContextMean, GroupMean, SequenceMean, TokenMean
from gradus.objectives.ranking import BradleyTerry, ImitationOfBest, Ranking, best_of, last_values, ordered_pairs, ranking_losses
from gradus.objectives.terms import evaluate
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import UserError
from gradus.types.signals import LogProb, Value


def test_pairs_are_all_whose_rewards_differ():
    better, worse, alike = ordered_pairs(toy_batch(toy_group(1, 0, 1, key="a"), toy_group(2, 2, key="b"), toy_group(0, 3, key="c")))
    assert list(zip(better.tolist(), worse.tolist(), alike.tolist(), strict=True)) == [(0, 1, 2), (2, 1, 2), (6, 5, 1)]


def test_ranking_losses_by_hand():
    better, worse = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([3.0, 1.0, 1.0])
    assert ranking_losses(better, worse).tolist() == [2, 0, 0]


def test_a_group_without_pairs_counts_in_the_mean():
    rows = torch.tensor([-2.0, -1.0, -5.0, -5.0], dtype=torch.float64, requires_grad=True)
    made = toy_batch(toy_group(1, 0, lengths=[1, 1], key="a"), toy_group(1, 1, lengths=[1, 1], key="b"))
    loss, _ = evaluate({"rank": Ranking()}, {LogProb(): rows}, made)
    assert loss.item() == 0.5


def test_the_best_are_counted_as_a_batch_of_their_own():
    made = toy_batch(toy_group(0, 1, 1, lengths=[1, 2, 3], key="a"), toy_group(1, 0, lengths=[4, 1], key="b"))
    best, rows = best_of(made, "policy")
    assert rows.tolist() == [1, 2, 6, 7, 8, 9]
    for average, expected in (
        (TokenMean(), [1 / 6] * 6),
        (SequenceMean(), [1 / 4] * 2 + [1 / 8] * 4),
        (ContextMean(), [1 / 4] * 2 + [1 / 8] * 4),  # each is one context; those of the others do not count
        (GroupMean(), [1 / 4] * 2 + [1 / 8] * 4),
    ):
        assert average.coefficients(best, "policy").tolist() == pytest.approx(expected)


def test_imitation_of_the_best_weighs_actions():
    made = toy_batch(toy_group(0, 1, lengths=[1, 2]))
    half = made.rows(torch.arange(3))
    half.weight[:] = 0.5
    loss, _ = ImitationOfBest().loss({LogProb(): torch.tensor([-9.0, -1, -3], dtype=torch.float64)}, half)
    assert loss.item() == 1.0


def test_the_score_of_an_answer_is_the_value_before_its_last_action():
    values = torch.tensor([5.0, 1, 2, 3, 7], dtype=torch.float64, requires_grad=True)
    made = toy_batch(toy_group(1, 0, 0, lengths=[1, 3, 1]))
    scores = last_values(values, made)
    assert scores.tolist() == [5, 3, 7]
    (scores * torch.tensor([1.0, 10, 100])).sum().backward()
    assert values.grad.tolist() == [1, 0, 0, 10, 100]


def test_bradley_terry_by_hand():
    # scores 1, 0 and, of the second group, 0, 1, 2: one pair a lead of 1; pairs (1, 0) and (2, 0) leads of 1 and 2, equal rewards no pair
    values = torch.tensor([1.0, 9.0, 0.0, 0.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    made = toy_batch(toy_group(1, 0, lengths=[1, 2], key="a"), toy_group(0, 1, 1, lengths=[1, 1, 1], key="b"))
    loss, metrics = evaluate({"pairs": BradleyTerry()}, {Value(): values}, made)
    cost = {lead: math.log(1 + math.exp(-lead)) for lead in (1, 2)}
    assert loss.item() == pytest.approx((cost[1] + (cost[1] + cost[2]) / 2) / 2)
    assert metrics["pair_accuracy"].mean == 1.0
    assert metrics["score"].mean == pytest.approx(4 / 5)
    loss.backward()
    wrong = {lead: 1 / (1 + math.exp(lead)) for lead in (1, 2)}
    expected = [-wrong[1] / 2, 0, wrong[1] / 2, (wrong[1] + wrong[2]) / 4, -wrong[1] / 4, -wrong[2] / 4]
    assert_close(values.grad, torch.tensor(expected, dtype=torch.float64))


def test_a_margin_asks_for_a_lead_in_proportion_to_the_rewards():
    made = toy_batch(toy_group(1, 0.5, lengths=[1, 1]))
    values = torch.tensor([1.0, 0.0], dtype=torch.float64)
    loss, _ = BradleyTerry(margin=4.0).loss({Value(): values}, made)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(1)))  # a lead of 1 where 4 (1 - .5) = 2 is asked for
    with pytest.raises(UserError, match="margin is -1"):
        BradleyTerry(margin=-1)


def test_bradley_terry_equals_plain_loops():
    rng = np.random.default_rng(8)
    groups = [toy_group(*rng.integers(0, 3, 4).tolist(), lengths=rng.integers(1, 4, 4).tolist(), key=k) for k in "abc"]
    made = toy_batch(*groups)
    values = rng.normal(size=made.actions)
    loss, _ = BradleyTerry(margin=0.5).loss({Value(): torch.from_numpy(values)}, made)
    at, total = 0, 0.0
    for g in groups:
        scores = []
        for t in g.trajectories:
            at += t.actions
            scores.append(values[at - 1])
        r = g.rewards
        costs = [math.log(1 + math.exp(-(scores[i] - scores[j] - 0.5 * (r[i] - r[j])))) for i in range(4) for j in range(4) if r[i] > r[j]]
        total += sum(costs) / max(len(costs), 1) / 3
    assert loss.item() == pytest.approx(total)
