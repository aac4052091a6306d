from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.policies.heads import FILE, Critic, ValueHead, load_head, save_head
from gradus.types import Key, UserError


def test_value_by_hand():
    head = ValueHead(2, Key())
    head.weight.data, head.bias.data = torch.tensor([[2.0, -1.0]]), torch.tensor([0.5])
    assert_close(head(torch.tensor([[3.0, 1.0], [0.0, 0.0]])), torch.tensor([5.5, 0.5]))  # 2 * 3 - 1 + 0.5


def test_it_starts_small_and_by_key():
    one, same, other = (ValueHead(256, Key(k)) for k in (1, 1, 2))
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.weight, other.weight)
    values = one(torch.randn(500, 256, generator=torch.Generator().manual_seed(0))).detach()
    assert float(values.std()) == pytest.approx(0.01, rel=0.2)


def test_round_trip(tmp_path):
    head = ValueHead(4, Key(3))
    save_head(head, tmp_path)
    read = load_head(tmp_path, 4, dtype=torch.float32, device="cpu")
    assert torch.equal(read.weight, head.weight)
    with pytest.raises(UserError, match=f"{FILE} does not fit a model of width 5"):
        load_head(tmp_path, 5, dtype=torch.float32, device="cpu")
    (tmp_path / FILE).write_bytes(b"x")
    with pytest.raises(UserError, match="does not fit"):
        load_head(tmp_path, 4, dtype=torch.float32, device="cpu")


def test_a_critic_holds_trunk_and_head():
    critic = Critic(torch.nn.Linear(2, 2), ValueHead(2, Key()))
    assert set(critic.state_dict()) == {"trunk.weight", "trunk.bias", "head.weight", "head.bias"}


def test_no_head(tmp_path):
    assert load_head(tmp_path, 4, dtype=torch.float32, device="cpu") is None
