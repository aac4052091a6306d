"""The columns of readiness, by hand."""

from __future__ import annotations

import pytest

from gradus.runtime.transfer_queue import TransferQueue
from gradus.types import UserError

NEEDS = {"reward": ("answer",), "advantage": ("reward",), "update": ("advantage", "old_logprobs")}


def test_a_task_gets_the_rows_whose_columns_are_written_and_each_once():
    queue = TransferQueue(NEEDS)
    queue.put([0, 1, 2], "answer")
    queue.put([0, 2], "reward")
    assert queue.get("advantage", 2) == [0, 2]
    assert queue.get("advantage", 2) == []
    queue.put([1], "reward")
    assert queue.get("advantage", 2) == [1]
    assert [queue.get("reward", 2), queue.get("reward", 2), queue.get("reward", 2)] == [[0, 1], [2], []]  # every task gets every row


def test_a_task_waits_for_all_its_columns():
    queue = TransferQueue(NEEDS)
    queue.put([5, 3], "advantage")
    queue.put([3], "old_logprobs")
    assert queue.get("update", 9) == [3]
    queue.put([5], "old_logprobs")
    assert queue.get("update", 9) == [5]


def test_rows_without_columns_and_an_unknown_task():
    queue = TransferQueue({"sample": ()})
    queue.add(range(3))
    assert [queue.get("sample", 2), queue.get("sample", 2)] == [[0, 1], [2]]
    with pytest.raises(UserError, match=r'"smple" \(did you mean sample\?\)'):
        queue.get("smple", 1)
