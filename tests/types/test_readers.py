"""Readers of a table of logits; tests/policies/test_opened.py compares them with transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.types import Context, Key, UserError
from gradus.types.readers import (
    AttentionStat,
    EntropyShare,
    HeadGradient,
    Hidden,
    LastLayer,
    LogProbRow,
    LogProbsOf,
    LogSumExp,
    LookBack,
    MaxProb,
    MeanOverVocabulary,
    SelfCertainty,
)

HALF, TENTH = float(np.log(0.5)), float(np.log(0.1))


class Table:
    """Two actions: p = (1/2, 1/4, 1/4) and a uniform one, both with logits raised by 3."""

    contexts = (Context(np.array([0, 1, 2], np.int32), np.array([False, True, True]), streams={"candidates": np.array([[0, 2], [1, 1]])}),)
    table = torch.log(torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)) + 3

    def reduced(self, reduce):
        return torch.cat([reduce(slice(i, i + 1), self.table[i : i + 1]) for i in range(2)])

    def hidden(self, layer=-1):
        return torch.tensor([[1.0, 2.0], [3.0, 6.0]]) * layer

    def attention(self, layers):
        chain = torch.zeros(1, 1, 3, 3)  # position t attends to t - 1
        chain[0, 0, [0, 1, 2], [0, 0, 1]] = 1
        yield chain.expand(len(layers), 1, 3, 3)


@pytest.mark.parametrize(
    ("want", "due"),
    [
        (MaxProb(), [0.5, 1 / 3]),
        (EntropyShare(), [-1.5 * HALF / np.log(3), 1.0]),  # p = 1/2, 1/4, 1/4: 1.5 log 2;  the uniform one has the largest
        (LogProbRow(), [[HALF, 2 * HALF, 2 * HALF], [np.log(1 / 3)] * 3]),
        (LogSumExp(), [3.0, 3.0]),
        (MeanOverVocabulary(), [5 / 3 * HALF, np.log(1 / 3)]),  # (log 1/2 + 2 log 1/4) / 3
        (SelfCertainty(), [-np.log(3) - 5 / 3 * HALF, 0.0]),  # KL(uniform || p) is 0 for the uniform one
        (LogProbsOf(), [[HALF, 2 * HALF], [np.log(1 / 3)] * 2]),
        (Hidden(2), [[2.0, 4.0], [6.0, 12.0]]),
        (Hidden(1, "mean"), [[2.0, 4.0]] * 2),
        (Hidden(1, "last"), [[3.0, 6.0]] * 2),
        (AttentionStat((0, 1)), [1.0, 1.0]),
    ],
)
def test_by_hand(want, due):
    assert_close(want.rows(Table(), Key()).double(), torch.tensor(due, dtype=torch.float64), atol=1e-9, rtol=0)


def test_a_head_on_the_first_token_looks_back_by_t_up_to_the_window():
    first = torch.zeros(2, 3, 20, 20)
    first[..., 0] = 1
    context = Context(np.arange(20, dtype=np.int32), np.arange(20) >= 5)
    assert LookBack(10).of(first, context).tolist() == [5.0, 6.0, 7.0, 8.0, 9.0] + [10.0] * 10


def test_numbers_out_of_range():
    with pytest.raises(UserError, match="window"):
        LookBack(0)


def test_the_last_layer_begins_with_the_action_and_is_padded():
    # the actions are 1 and 2; the others follow, the likeliest first
    rows = LastLayer(5, action=True).rows(Table(), Key())
    assert rows[:, :2].tolist() == [[-1, -2], [-3, -6]]
    assert_close(rows[0, 2:], torch.tensor([0.25, 0.5, 0.25, 0, 0, 1, 0, 2, -1, -1], dtype=torch.float64))
    assert_close(rows[1, 2:7], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0, 0], dtype=torch.float64))
    assert rows[1, 7].item() == 2
    assert_close(LastLayer(2).rows(Table(), Key())[0, 2:4], torch.tensor([0.5, 0.25], dtype=torch.float64))


def test_fewer_entries_keep_the_sampled_token_and_the_most_likely_others():
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]]))
    (row,) = HeadGradient(top=2).of(torch.from_numpy(logits), torch.tensor([3])).numpy()
    assert row == pytest.approx([2, 0.95, -0.5, 3, 0])
    (row,) = HeadGradient(top=9).of(torch.from_numpy(logits), torch.tensor([0])).numpy()
    assert row == pytest.approx([4, 0.5, -0.3, -0.15, -0.05, 0, 1, 2, 3])
    with pytest.raises(UserError, match="top"):
        HeadGradient(top=0)
