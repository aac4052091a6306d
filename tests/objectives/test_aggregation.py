"""Every average by hand, and that a slice keeps the coefficients of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import (
    ConstantLength,
    ConstantTotal,
    ContextMean,
    GroupMean,
    Joint,
    SequenceMean,
    SequenceSum,
    TokenMean,
    pulling,
)
from gradus.testing.methods import toy_batch, toy_group, toy_trajectory
from gradus.types import Group, UserError

ALL = [TokenMean(), SequenceMean(), SequenceSum(), ContextMean(), GroupMean(), ConstantLength(10), ConstantTotal(20)]


def three():
    """A group with answers of 1 and 3 tokens, and one with an answer of 2."""
    return toy_batch(toy_group(1, 0, lengths=[1, 3], key="g"), toy_group(1, lengths=[2], key="h"))


@pytest.mark.parametrize(
    ("average", "expected"),
    [
        (TokenMean(), [1 / 6] * 6),
        (SequenceMean(), [1 / 3] + [1 / 9] * 3 + [1 / 6] * 2),
        (SequenceSum(), [1 / 3] * 6),
        (GroupMean(), [1 / 8] * 4 + [1 / 4] * 2),
        (ConstantLength(10), [1 / 30] * 6),
        (ConstantTotal(20), [1 / 20] * 6),
    ],
)
def test_coefficients_by_hand(average, expected):
    assert_close(average.coefficients(three(), "policy"), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("average", [*ALL, Joint(TokenMean())])
def test_a_slice_has_the_coefficients_of_the_whole(average):
    whole = three()
    everything = average.coefficients(whole, "policy")
    for chosen in ([0], [2, 0], [1], [2, 1, 0]):
        piece, rows = whole.slice(chosen)
        assert torch.equal(average.coefficients(piece, "policy"), everything[rows])


@pytest.mark.parametrize("average", ALL)
def test_trajectories_of_other_sources_do_not_count(average):
    policy, expert = toy_group(1, 0, lengths=[1, 3]), toy_trajectory([2] * 5, name="e", source="expert")
    mixed = toy_batch(Group("g", (policy.trajectories[0], expert, policy.trajectories[1])))
    mine, rows = mixed.of("policy")
    assert rows.tolist() == [0, 6, 7, 8]
    assert torch.equal(average.coefficients(mine, "policy"), average.coefficients(toy_batch(policy), "policy"))


def test_every_context_counts_alike():
    # one trajectory with contexts of 1 and 3 actions, one with a context of 2; a prompt without actions is no context of the loss
    prompt = toy_trajectory([1]).contexts[0].parent[0]
    contexts = [toy_trajectory([2] * n, prompt=prompt).contexts[0] for n in (1, 3)]
    several = toy_trajectory([2], name="a").but(contexts=(prompt, *contexts))
    whole = toy_batch(Group("g", (several, toy_trajectory([2, 2], name="b"))))
    expected = torch.tensor([1 / 3] + [1 / 9] * 3 + [1 / 6] * 2, dtype=torch.float64)
    assert_close(ContextMean().coefficients(whole, "policy"), expected)
    piece, rows = whole.slice([2, 1])
    assert torch.equal(ContextMean().coefficients(piece, "policy"), expected[rows])


def test_sources_together_have_one_denominator():
    # own answers of 1 and 3 tokens, a given one of 2: 6 tokens, 3 answers
    mixed = toy_group(1, 0, lengths=[1, 3])
    given = toy_trajectory([2, 2], name="e", source="expert")
    made = toy_batch(mixed.but(trajectories=(*mixed.trajectories, given)))
    for source, rows in (("policy", 4), ("expert", 2)):
        mine, _ = made.of(source)
        assert Joint(TokenMean()).coefficients(mine, source).tolist() == [1 / 6] * rows
        assert Joint(ConstantLength(10)).coefficients(mine, source).tolist() == [1 / 30] * rows
    alone = three()
    assert torch.equal(Joint(SequenceMean()).coefficients(alone, "policy"), SequenceMean().coefficients(alone, "policy"))


@pytest.mark.parametrize("average", [GroupMean(), ContextMean()])
def test_a_joint_average_refuses_counts_of_one_source(average):
    with pytest.raises(UserError, match=f"Joint needs the same denominator for all sources, but the denominator of {type(average).__name__}"):
        Joint(average)


def test_weighted_counts_by_hand():
    """Weights 1, 0 of the first and 2, 2, 0 of the second answer: the sums are 1 and 4."""
    group = toy_group(1, 0, lengths=[2, 3])
    first, second = group.trajectories
    weighted = group.but(trajectories=(first.but(weights=np.array([1.0, 0.0])), second.but(weight=2.0, weights=np.array([1.0, 1.0, 0.0]))))
    made = toy_batch(weighted, advantages=[1.0, 1.0])
    losses = made.weight * torch.tensor([10.0, 99.0, 1.0, 3.0, 99.0], dtype=torch.float64)
    token, sequence = (mean(counted="weighted").coefficients(made, "policy") for mean in (TokenMean, SequenceMean))
    assert float((token * losses).sum()) == pytest.approx((10 + 2 * 1 + 2 * 3) / 5)
    assert float((sequence * losses).sum()) == pytest.approx((10 / 1 + (2 * 1 + 2 * 3) / 4) / 2)
    piece, _ = made.slice([1])
    assert torch.equal(TokenMean("weighted").coefficients(piece, "policy"), token[2:])  # of the whole mini-batch
    assert torch.equal(SequenceMean("weighted").coefficients(piece, "policy"), sequence[2:])


def test_weighted_counts_equal_the_plain_ones_at_weight_1_and_leave_out_what_has_none():
    made = toy_batch(toy_group(1, 0, lengths=[2, 3]), advantages=[1.0, 1.0])
    for mean in (TokenMean, SequenceMean):
        assert_close(mean("weighted").coefficients(made, "policy"), mean().coefficients(made, "policy"))
    group = toy_group(1, 0, lengths=[2, 3])
    silent = group.but(trajectories=(group.trajectories[0].but(weight=0.0), group.trajectories[1]))
    made = toy_batch(silent, advantages=[1.0, 1.0])
    assert SequenceMean("weighted").coefficients(made, "policy").tolist() == pytest.approx([0, 0, 1 / 3, 1 / 3, 1 / 3])
    assert TokenMean("weighted").coefficients(made, "policy").tolist() == pytest.approx([1 / 3] * 5)


def test_a_joint_average_of_weighted_actions():
    """Own answers with the weights 1, 0 and 1, 1; a replayed one with 0, 0.5: the weights add up to 3.5, over three answers."""
    group = toy_group(1, 0, lengths=[2, 2])
    first, second = group.trajectories
    replayed = toy_trajectory([2, 2], name="r", source="replay", weights=np.array([0.0, 0.5]))
    made = toy_batch(group.but(trajectories=(first.but(weights=np.array([1.0, 0.0])), second, replayed)))
    for source, rows, sums in (("policy", 4, [1, 1, 2, 2]), ("replay", 2, [0.5, 0.5])):
        mine, _ = made.of(source)
        assert Joint(TokenMean("weighted")).coefficients(mine, source).tolist() == pytest.approx([1 / 3.5] * rows)
        assert Joint(SequenceMean("weighted")).coefficients(mine, source).tolist() == pytest.approx([1 / (3 * n) for n in sums])


def test_pulling_scales_the_gradient_and_nothing_else():
    rows = torch.tensor([[1.5, -2.0], [0.25, 4.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([0.0, 3.0], dtype=torch.float64)
    out = pulling(rows, weight)
    assert torch.equal(out, rows)
    out.square().sum().backward()
    assert rows.grad.tolist() == [[0.0, 0.0], [3 * 2 * 0.25, 3 * 2 * 4.0]]
    assert pulling(rows, torch.ones(2)) is rows
