"""The weighted sum of networks."""

from __future__ import annotations

import pytest
import torch

from gradus.players.merge import fused, merged
from gradus.types import Key, UserError


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


def drawn(*path):
    return {"w": torch.from_numpy(Key(1).fold(*path).normal(40, 5)).float(), "b": torch.from_numpy(Key(2).fold(*path).normal(7)).float()}


def test_a_fusion_of_one_expert_is_the_expert():
    base, expert = drawn("base"), drawn("expert")
    found = fused(base, {"a": expert}, {"a": 1.0}, drop=0.0, key=Key())
    assert all(torch.equal(found[n], expert[n]) for n in base)
    twice = fused(base, {"a": expert}, {"a": 2.0}, drop=0.0, key=Key())
    assert torch.allclose(twice["w"], 2 * expert["w"] - base["w"], atol=1e-6)


def test_a_fusion_by_hand():
    base = {"w": torch.tensor([1.0, 1.0, 1.0]), "n": torch.tensor(3)}
    a = {"w": torch.tensor([4.0, 5.0, 1.0]), "n": torch.tensor(4)}  # tau 3 4 0, norm 5
    b = {"w": torch.tensor([-7.0, 7.0, 1.0]), "n": torch.tensor(5)}  # tau -8 6 0, norm 10
    found = fused(base, {"a": a, "b": b}, {"a": 0.5, "b": 0.5}, drop=0.0, key=Key())
    # norms become 7.5: tau 4.5 6 0 and -6 4.5 0; the sum -1.5 10.5 0 erases 4.5; 1 - 3, 1 + 3 + 2.25, 1
    assert found["w"].tolist() == pytest.approx([-2.0, 6.25, 1.0])
    assert found["n"].item() == 3  # a counter is that of the start


def test_a_fusion_drops_entries_at_random_and_keeps_their_mean():
    base = {"w": torch.zeros(20000)}
    experts = {"a": {"w": torch.ones(20000)}, "b": {"w": torch.ones(20000)}}
    alone = fused(base, {"a": experts["a"]}, {"a": 1.0}, drop=0.75, key=Key())["w"]
    assert set(alone.tolist()) == {0.0, 4.0}
    assert float(alone.mean()) == pytest.approx(1.0, abs=0.05)  # a deviation of 0.012
    both = fused(base, experts, {"a": 1.0, "b": 1.0}, drop=0.75, key=Key())["w"]
    assert float((both == 8).float().mean()) == pytest.approx(1 / 16, abs=0.01)  # the two masks are independent
    assert torch.equal(both, fused(base, experts, {"a": 1.0, "b": 1.0}, drop=0.75, key=Key())["w"])
    assert not torch.equal(both, fused(base, experts, {"a": 1.0, "b": 1.0}, drop=0.75, key=Key(1))["w"])


def test_an_expert_without_a_difference_and_other_networks():
    base, expert = drawn("base"), drawn("expert")
    found = fused(base, {"a": base, "b": expert}, {"a": 0.5, "b": 0.5}, drop=0.0, key=Key())
    assert torch.allclose(found["w"], base["w"] + 0.25 * (expert["w"] - base["w"]), atol=1e-6)  # the mean norm is half
    with pytest.raises(UserError, match="the start and a cannot be merged: their networks differ in the tensor b; merge stages"):
        fused(base, {"a": {"w": base["w"]}}, {"a": 1.0}, drop=0.0, key=Key())
