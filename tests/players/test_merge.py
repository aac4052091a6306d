"""The weighted sum of networks."""

from __future__ import annotations

import pytest
import torch

from gradus.players.merge import merged
from gradus.types import UserError


def test_a_merge_by_hand() -> None:
    states = {"a": {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)}, "b": {"w": torch.tensor([5.0, -2.0]), "n": torch.tensor(4)}}
    found = merged(states, {"a": 0.25, "b": 0.75})
    assert found["w"].tolist() == [4.0, -1.0]  # 0.25 + 3.75, 0.5 - 1.5
    assert found["n"].item() == 3  # a counter is the first's
    assert merged(states, {"b": 2.0, "a": -1.0})["w"].tolist() == [9.0, -6.0]


def test_it_is_rounded_once() -> None:
    one, other = torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([1.0078125], dtype=torch.bfloat16)
    # thirds in bfloat16 would be rounded three times; in float64 the sum is 1.0026, nearest bfloat16 1.0
    found = merged({"a": {"w": one}, "b": {"w": other}}, {"a": 2 / 3, "b": 1 / 3})["w"]
    assert (found.dtype, found.item()) == (torch.bfloat16, 1.0)


def test_a_model_with_itself_is_the_model() -> None:
    w = torch.randn(50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(merged({"a": {"w": w}, "b": {"w": w}}, {"a": 0.3, "b": 0.7})["w"], w)


def test_other_networks_are_told() -> None:
    with pytest.raises(UserError, match="a and b cannot be merged: their networks differ in the tensor v and 1 more; merge stages that train the same model"):
        merged({"a": {"w": torch.zeros(2)}, "b": {"w": torch.zeros(3), "v": torch.zeros(1)}}, {"a": 0.5, "b": 0.5})
