"""NVFP4: the grid and its ties, scales of blocks by hand, bounds of the error, and adapters on such weights."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import gradus
from gradus.policies.lora import LoRA, adapt, adapters, merged
from gradus.policies.nvfp4 import BLOCK, GRID, decode, encode, nearest_codes, numbers_of
from gradus.policies.quantised import Quantised
from gradus.types import Key, UserError
from gradus.types.players import Adapter, Player
from tests.policies.shapes import ours
from tests.small_model import save_small_model


def drawn(*shape, dtype=torch.float32):
    return torch.from_numpy(Key(7).normal(*shape)).to(dtype) / 8


def rounded(*values):
    return numbers_of(nearest_codes(torch.tensor(values))).tolist()


def test_the_nearest_number_of_the_grid():
    assert rounded(0.24, 0.26, 2.4, 2.6, 5.1) == [0, 0.5, 2, 3, 6]
    assert rounded(-0.24, -0.26, -2.6, -7.0, 100.0) == [0, -0.5, -3, -6, 6]
    assert rounded(*GRID) == list(GRID)


def test_a_value_in_the_middle_gets_the_even_code():
    assert rounded(0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0) == [0, 1, 1, 2, 2, 4, 4]
    assert rounded(-0.25, -0.75, -5.0) == [0, -1, -4]


def test_scales_by_hand():
    weight = torch.zeros(1, 20)
    weight[0, 0], weight[0, 1], weight[0, 16], weight[0, 17] = 2688.0, -700.0, 3.0, 1.0
    codes, scales, tensor_scale = encode(weight)
    assert (codes.shape, scales.shape, codes.dtype, scales.dtype) == ((1, 2, 8), (1, 2), torch.uint8, torch.uint8)
    assert float(tensor_scale) == 1.0  # 2688 / (6 * 448)
    assert scales.view(torch.float8_e4m3fn).float().tolist() == [[448.0, 0.5]]  # 2688 / 6 and 3 / 6
    assert codes[0, :, 0].tolist() == [7 | (8 + 3) << 4, 7 | 4 << 4]  # 6 and -1.5625, the nearest is -1.5; 6 and 2
    assert decode(codes, scales, tensor_scale, 20)[0, [0, 1, 16, 17, 19]].tolist() == [2688.0, -672.0, 3.0, 1.0, 0.0]


def test_a_block_scale_has_three_bits_of_mantissa():
    weight = torch.zeros(1, 32)
    weight[0, 0], weight[0, 16] = 2688.0, 6 * 1.05  # 1.05 lies between 1 and 1.125, nearer to 1
    assert decode(*encode(weight), 32)[0, 16] == 6.0
    weight[0, 16] = 6 * 1.07
    assert decode(*encode(weight), 32)[0, 16] == 6.75


@pytest.mark.parametrize("shape", [(3, 64), (5, 50), (1, 1), (7, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_weight_is_off_by_more_than_its_block_allows(shape, dtype):
    weight = drawn(*shape, dtype=dtype)
    found = Quantised(weight, "nvfp4").dense
    assert (found.shape, found.dtype) == (weight.shape, dtype)
    errors, weights = (F.pad(t.float(), (0, -shape[1] % BLOCK)).unflatten(1, (-1, BLOCK)).abs() for t in (found - weight, weight))
    # a sixth with an exact scale; the scale itself is rounded by at most 1/16
    assert (errors <= weights.amax(2, keepdim=True) * (1 + 1 / 16) / 6 * (1 + 2**-7) + 1e-6).all()
    assert float(errors.max()) > 0 or shape == (1, 1)


def test_with_exact_scales_no_weight_is_off_by_more_than_a_sixth_of_its_blocks_largest():
    blocks = torch.from_numpy(Key(3).uniform(200, BLOCK)).float() * 12 - 6
    blocks[:, 0] = 6.0  # so the block scale is 1
    assert float((numbers_of(nearest_codes(blocks)) - blocks).abs().max()) <= 1.0  # 6 / 6
    assert float((numbers_of(nearest_codes(torch.tensor([4.999, 5.001]))) - torch.tensor([4.999, 5.001])).abs().min()) > 0.99  # and it may be so much


def test_zeros_and_tiny_blocks():
    assert Quantised(torch.zeros(2, 16), "nvfp4").dense.tolist() == [[0.0] * 16] * 2
    weight = torch.full((1, 32), 1e-9)
    weight[0, 0] = 1.0
    assert decode(*encode(weight), 32)[0, 16:].tolist() == [0.0] * 16  # the scale of the block rounds to 0


def test_what_the_codes_stand_for_is_encoded_without_an_error():
    once = Quantised(drawn(6, 48), "nvfp4").dense
    assert_close(Quantised(once, "nvfp4").dense, once, rtol=1e-6, atol=1e-8)


def test_a_weight_takes_four_and_a_half_bits():
    buffers = list(Quantised(drawn(64, 256), "nvfp4").buffers())
    assert sum(b.numel() * b.element_size() for b in buffers) == 64 * 256 // 2 + 64 * 256 // 16 + 4


def test_products_gradients_and_copies():
    matrix = Quantised(drawn(6, 20), "nvfp4")
    x = torch.from_numpy(Key(1).normal(3, 20)).float().requires_grad_()
    assert_close(matrix(x), F.linear(x, matrix.dense))
    (found,) = torch.autograd.grad(matrix(x).square().sum(), x)
    (expected,) = torch.autograd.grad(F.linear(x, matrix.dense).square().sum(), x)
    assert_close(found, expected)
    other = copy.deepcopy(matrix)
    other.scale.mul_(2)
    assert_close(other.dense, 2 * matrix.dense)


def test_an_adapter_on_such_weights_is_an_adapter_on_what_they_stand_for():
    few = adapt(ours("qwen2"), LoRA(2), Key(1), "nvfp4")
    for name, layer in adapters(few):
        layer.lora_B.data = torch.from_numpy(Key(2).fold(name).normal(*layer.lora_B.shape)).float() * 0.1
    tokens = torch.arange(3, 30).unsqueeze(0)
    assert_close(merged(few)(tokens), few(tokens), atol=1e-5, rtol=1e-4)
    whole = adapt(ours("qwen2"), LoRA(2), Key(1))
    assert float((whole(tokens) - few(tokens)).detach().abs().max()) > 1e-3


def test_what_cannot_be():
    with pytest.raises(UserError, match=r"Adapter.bits is 'nvfp3'; it must be 8, 4, \"nvfp4\" or None"):
        Adapter(bits="nvfp3")
    with pytest.raises(UserError, match=r"precision is float64; for NVFP4, set the precision to float32 or bfloat16"):
        Quantised(drawn(2, 2, dtype=torch.float64), "nvfp4")


def test_a_run_on_such_weights_goes_on_to_the_same_bytes(tmp_path):
    model = save_small_model(tmp_path / "model")
    small = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 6, "setting__eval_every": 0, "study": None}
    words = {"model": str(model), "players__policy": Player(Adapter(rank=2, bits="nvfp4")), **small}
    gradus.train("grpo", "arithmetic", steps=2, run=tmp_path / "whole", **words)
    gradus.train("grpo", "arithmetic", steps=1, run=tmp_path / "cut", **words)
    gradus.resume(tmp_path / "cut", more=2)
    for name in ("player-policy.safetensors", "player-reference.safetensors", "model/model.safetensors"):
        whole, cut = ((tmp_path / run / "checkpoints" / "step-000002" / name).read_bytes() for run in ("whole", "cut"))
        assert whole == cut, name
