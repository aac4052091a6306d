"""A mixture by hand, its gradient to the router, and its tensors in files and in memory."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.policies.config import Experts, decoder_config
from gradus.policies.expert_files import from_files, to_files
from gradus.policies.experts import Mixture, assign, choose
from gradus.types import UserError
from tests.policies.shapes import fields, ours

THREE = Experts(count=3, chosen=2, width=1, normalise=True, layers=(True,))


def test_choices_by_hand():
    # softmax of (ln 1, ln 3, ln 4) is 1/8, 3/8, 4/8; of the two largest 3/7 and 4/7
    scores = torch.tensor([[1.0, 3.0, 4.0]]).log()
    shares, indices = choose(scores, THREE)
    assert indices.tolist() == [[2, 1]]
    assert_close(shares, torch.tensor([[4 / 7, 3 / 7]]))
    assert_close(choose(scores, Experts(3, 2, 1, False, (True,)))[0], torch.tensor([[4 / 8, 3 / 8]]))


def test_assignment_by_hand():
    # Rows 0, 1, 2 choose (2, 0), (0, 1), (0, 2). Expert 0 has rows 0, 1, 2; expert 1 row 1; expert 2 rows 0, 2; expert 3 none.
    rows, places, counts = assign(torch.tensor([[2, 0], [0, 1], [0, 2]]), 4)
    assert rows.tolist() == [0, 1, 2, 1, 0, 2]
    assert counts == [3, 1, 2, 0]
    assert places.tolist() == [4, 0, 1, 3, 2, 5]


def mixture() -> Mixture:
    made = Mixture(2, THREE, torch.nn.Identity())
    made.gate.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    made.experts.gate_up_proj.data = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]], [[5.0, 5.0], [5.0, 5.0]]])
    made.experts.down_proj.data = torch.tensor([[[1.0], [0.0]], [[0.0], [1.0]], [[7.0], [7.0]]])
    return made


def test_a_mixture_by_hand():
    # x = (2, 1): scores 2, 1, -3; of the first two the shares are e / (e + 1) = 0.731059 and 0.268941.
    # expert 0: gate 2, up 1, product 2, down (2, 0); expert 1: gate 4, up 1, product 4, down (0, 4)
    made = mixture()
    x = torch.tensor([[2.0, 1.0]])
    assert_close(made(x), torch.tensor([[1.462117, 1.075766]]))
    assert_close(made(torch.stack([x, -x])), torch.stack([made(x), made(-x)]))  # any shape, rows by themselves
    made(x)[0, 0].backward()
    # 2 s with s = sigmoid(score 0 - score 1): ds = s (1 - s) = 0.196612, times x: (0.786448, 0.393224), the other way for expert 1
    assert made.gate.weight.grad is not None
    assert_close(made.gate.weight.grad, torch.tensor([[0.786448, 0.393224], [-0.786448, -0.393224], [0.0, 0.0]]))
    assert made.experts.down_proj.grad is not None
    assert made.experts.down_proj.grad[2].tolist() == [[0.0], [0.0]]  # who is not chosen learns nothing


@pytest.mark.parametrize("shape", ["mixtral", "qwen3_moe", "gemma2"])
def test_files_and_memory(shape: str, tmp_path):
    network = ours(shape)
    memory = {name: p.detach() for name, p in network.named_parameters()}
    files = to_files(memory, network.config)
    if shape == "mixtral":  # w1 is the gate, w3 the other half, w2 leads back
        gate_up = memory["model.layers.1.mlp.experts.gate_up_proj"]
        assert torch.equal(files["model.layers.1.block_sparse_moe.experts.2.w1.weight"], gate_up[2, :48])
        assert torch.equal(files["model.layers.1.block_sparse_moe.experts.2.w3.weight"], gate_up[2, 48:])
    back = from_files(files, network.config, tmp_path)
    assert back.keys() == memory.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in memory.items())
    assert from_files(memory, network.config, tmp_path).keys() == memory.keys()  # what is fused already stays so


def test_an_expert_that_is_missing_or_odd_is_named(tmp_path):
    config = decoder_config(fields("qwen3_moe"))
    files = to_files(dict(ours("qwen3_moe").named_parameters()), config)
    name = "model.layers.2.mlp.experts.4.up_proj.weight"
    with pytest.raises(UserError, match=rf"tensor {name} is missing"):
        from_files({n: t for n, t in files.items() if n != name}, config, tmp_path)
    with pytest.raises(UserError, match=rf"tensor {name} is of shape \[1, 2\], not \[24, 32\]"):
        from_files({**files, name: torch.zeros(1, 2)}, config, tmp_path)
