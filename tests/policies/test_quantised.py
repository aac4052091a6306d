"""Frozen weights in 8 and 4 bits: what they stand for, gradients through them, and adapters on them."""

from __future__ import annotations

import builtins
import copy

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import gradus
from gradus import load_recipe
from gradus.players.build import build_players, follow
from gradus.policies.lm import LanguageModel
from gradus.policies.lora import LoRA, adapt, adapters, merged
from gradus.policies.quantised import BLOCK, Quantised
from gradus.testing.methods import TOY
from gradus.types import Key, UserError
from gradus.types.players import Adapter, MovingAverage, Player
from tests.policies.shapes import ours
from tests.small_model import save_small_model

pytest.importorskip("bitsandbytes", reason="the extra `quantised` is not installed")

# The sixteen values of NF4: quantiles of a normal distribution, 0 exact, ends at -1 and 1 (QLoRA, appendix E).
NF4 = [
    *(
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
    ),
    *(0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
]
SHAPES = [(3, 64), (16, 128), (5, 50), (12, 160), (7, 33), (1, 1)]  # rows of whole blocks, of broken ones, and a matrix below one block


def drawn(*shape, dtype=torch.float32):
    return torch.from_numpy(Key(7).normal(*shape)).to(dtype) / 8


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_four_bits_are_the_nearest_value_of_a_block(shape, dtype):
    weight = drawn(*shape, dtype=dtype)
    flat = F.pad(weight.reshape(-1).float(), (0, -weight.numel() % BLOCK)).view(-1, BLOCK)
    scales = flat.abs().amax(1, keepdim=True)
    values = torch.tensor(NF4)
    nearest = values[(flat[..., None] / scales[..., None] - values).abs().argmin(-1)] * scales
    expected = nearest.view(-1)[: weight.numel()].view(shape)
    # bfloat16 has 8 bits, so what is made again may be off by 2^-9 of itself
    assert_close(Quantised(weight, 4).dense.float(), expected, rtol=1e-6 if dtype == torch.float32 else 2**-8, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_eight_bits_are_within_a_hundredth_of_a_blocks_largest(shape):
    weight = drawn(*shape)
    flat = F.pad(weight.reshape(-1), (0, -weight.numel() % BLOCK)).view(-1, BLOCK)
    error = F.pad((Quantised(weight, 8).dense - weight).reshape(-1), (0, -weight.numel() % BLOCK)).view(-1, BLOCK)
    assert (error.abs().amax(1) / flat.abs().amax(1)).max() < 0.01


def test_memory():
    weight = drawn(64, 256)
    # 16,384 weights: half a byte or one each, and 4 bytes for every 64
    sizes = {bits: sum(b.numel() * b.element_size() for b in Quantised(weight, bits).buffers()) for bits in (4, 8)}
    assert sizes == {4: 8192 + 1024, 8: 16384 + 1024}


@pytest.mark.parametrize("bits", [4, 8])
def test_products_and_gradients_are_those_of_the_matrix_that_the_codes_stand_for(bits):
    matrix = Quantised(drawn(6, 20), bits)
    x = torch.from_numpy(Key(1).normal(2, 3, 20)).float().requires_grad_()
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = matrix(x)
    assert kept == []  # no copy of the matrix waits for backward
    assert_close(y, F.linear(x, matrix.dense))
    (found,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    plain = x.detach().requires_grad_()
    (expected,) = torch.autograd.grad(F.linear(plain, matrix.dense).square().sum(), plain, create_graph=True)
    assert_close(found, expected)
    # and once more: what a trust region asks for
    assert_close(torch.autograd.grad(found.square().sum(), x)[0], torch.autograd.grad(expected.square().sum(), plain)[0])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("family", ["qwen2", "llama", "phi3"])
def test_an_adapter_on_few_bits_is_an_adapter_on_what_they_stand_for(family, bits):
    few, full = adapt(ours(family), LoRA(2), Key(1), bits), adapt(ours(family), LoRA(2), Key(1))
    plain = dict(adapters(full))
    for name, layer in adapters(few):
        plain[name].base.data.copy_(layer.base.dense)
        for module in (layer, plain[name]):
            module.lora_B.data = torch.from_numpy(Key(2).fold(name).normal(*module.lora_B.shape)).float() * 0.1
    tokens = torch.arange(3, 30).unsqueeze(0)
    losses = [network(tokens).square().mean() for network in (few, full)]
    assert_close(*losses)
    for loss in losses:
        loss.backward()
    for (name, a), (_, b) in zip(adapters(few), adapters(full), strict=True):
        assert_close(a.lora_A.grad, b.lora_A.grad, msg=name)
        assert_close(a.lora_B.grad, b.lora_B.grad, msg=name)
    assert {n.rpartition(".")[2] for n, p in few.named_parameters() if p.requires_grad} == {"lora_A", "lora_B"}
    assert_close(merged(few)(tokens), few(tokens), atol=1e-5, rtol=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("small") / "model")


def players_of(folder, bits, **more):
    recipe = load_recipe("grpo").but(players__policy=Player(Adapter(rank=2, bits=bits)), **more)
    return build_players(recipe, folder, TOY, Key(3))


def test_a_player_learns_its_adapter_alone_saves_whole_weights_and_comes_back(folder, tmp_path):
    players = players_of(folder, 4)
    learner, reference = players["policy"], players["reference"]
    codes = {n: b.clone() for n, b in learner.policy.network.named_buffers()}
    assert codes
    assert all(torch.equal(b, codes[n]) for n, b in reference.policy.network.named_buffers())  # the copy stands on the same bits
    for i, p in enumerate(learner.parameters):
        p.grad = torch.full_like(p, (-1.0) ** i)
    learner.move(10)
    assert all(torch.equal(b, codes[n]) for n, b in learner.policy.network.named_buffers())
    learner.policy.save(tmp_path / "saved")
    tokens = torch.tensor([[5, 9, 40, 41]])
    with torch.no_grad():
        found = learner.policy.trunk(tokens)
        assert_close(LanguageModel.load(tmp_path / "saved").trunk(tokens), found, atol=1e-5, rtol=1e-4)
    again = players_of(folder, 4)["policy"]
    again.load(learner.tensors(), 1)
    with torch.no_grad():
        assert torch.equal(again.policy.trunk(tokens), found)


def test_the_engine_samples_from_what_the_bits_stand_for(folder):
    from gradus.policies.engine import Job, generate
    from gradus.types import Sampling

    policy = players_of(folder, 8)["policy"].policy
    prompt = policy.opening("2+2=").tokens
    jobs = [Job(prompt, Sampling(max_tokens=12), Key(4).fold(i).value) for i in range(3)]
    few, whole = (
        generate(t, jobs, end_tokens=policy.end_tokens, decode_text=policy.text, max_context=64) for t in (policy.trunk, merged(policy.trunk))
    )
    assert [s.tokens.tolist() for s in few] == [s.tokens.tolist() for s in whole]
    assert all((a.logprobs == b.logprobs).all() for a, b in zip(few, whole, strict=True))


def test_an_average_of_an_adapter_leaves_the_codes_alone(folder):
    players = players_of(folder, 8, players__slow=Player(MovingAverage("policy", decay=0.5)))
    codes = {n: b.clone() for n, b in players["slow"].policy.network.named_buffers()}
    mine = dict(players["policy"].policy.network.named_parameters())
    name = next(n for n in mine if n.endswith("lora_B"))
    mine[name].data.fill_(1.0)
    moved = {n: p.updates for n, p in players.items()}
    players["policy"].updates += 1
    follow(players, moved, {})
    slow = players["slow"].policy.network
    assert (slow.get_parameter(name) == 0.5).all()
    assert all(torch.equal(b, codes[n]) for n, b in slow.named_buffers())


def test_what_cannot_be(folder, monkeypatch):
    with pytest.raises(UserError, match=r'Adapter.bits is 3; it must be 8, 4, "nvfp4" or None'):
        Adapter(bits=3)
    with pytest.raises(UserError, match=r"bits is 4, but the weights belong to the player policy"):
        Adapter(of="policy", bits=4)
    with pytest.raises(UserError, match=r"setting.precision is float64; for weights of 8 bits, set the precision to float32 or bfloat16"):
        players_of(folder, 8, setting__precision="float64")

    real = builtins.__import__

    def absent(name, *rest, **more):
        if name.startswith("bitsandbytes"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UserError, match=r'pip install "gradus\[quantised\]"'):
        Quantised(torch.ones(2, 2), 4)


def test_a_copy_of_few_bits_is_its_own():
    matrix = Quantised(drawn(4, 16), 4)
    other = copy.deepcopy(matrix)
    other.scales.mul_(2)
    assert_close(other.dense, 2 * matrix.dense)


def test_a_run_on_few_bits_goes_on_to_the_same_bytes(tmp_path):
    model = save_small_model(tmp_path / "model")
    small = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 6, "setting__eval_every": 0, "study": None}
    words = {"model": str(model), "players__policy": Player(Adapter(rank=2, bits=4)), **small}
    gradus.train("grpo", "arithmetic", steps=2, run=tmp_path / "whole", **words)
    gradus.train("grpo", "arithmetic", steps=1, run=tmp_path / "cut", **words)
    gradus.resume(tmp_path / "cut", more=2)
    for name in ("player-policy.safetensors", "player-reference.safetensors", "model/model.safetensors"):
        whole, cut = ((tmp_path / run / "checkpoints" / "step-000002" / name).read_bytes() for run in ("whole", "cut"))
        assert whole == cut, name
    assert (tmp_path / "whole" / "metrics.jsonl").read_bytes() == (tmp_path / "cut" / "metrics.jsonl").read_bytes()
