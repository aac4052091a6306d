"""The ways to compute what a compiled kernel computes: the kernel, PyTorch's operations, and a formula for torch.compile. For `benchmarks.kernels`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from gradus.policies import compiled, fused, kernels, pack
from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.decoding import Fused, normed
from gradus.policies.packed_attention import packed_attention
from gradus.types import Context, Key, prompt_context

EPS = 1e-6
TRAINING = ("norm", "gate", "packed_attention")
Result = Sequence[Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoding step and of an update."""

    width: int = 256
    vocabulary: int = 4096
    rows: int = 128  # of a decoding step
    shares: int = 16  # rows of a decoding step with the same prompt
    prompt: int = 64
    own: int = 64  # tokens after the prompt
    prompts: int = 8  # of an update
    answers: int = 8  # to each prompt
    length: int = 24  # of an answer

    @property
    def heads(self) -> int:
        return max(1, self.width // 64)


@dataclass(frozen=True)
class Kernel:
    """Three ways to compute the same numbers."""

    name: str
    functions: tuple[str, ...]  # of the library
    ours: Callable[[], Result]
    plain: Callable[[], Result]
    formula: Callable[..., Any]  # for torch.compile
    inputs: Callable[[], tuple[Tensor, ...]]  # of the formula
    backward: Tensor | None = None  # gradient of the result; None: no backward pass
    near: float = 2e-4

    def check(self) -> None:
        """Raises AssertionError if the kernel and PyTorch's operations differ."""
        _alike(self.plain(), self.ours(), self.near)

    def compiled(self) -> Callable[[], Result]:
        """Returns the compiled formula, after its compilation and a comparison with PyTorch's operations."""
        function, inputs = torch.compile(self.formula, dynamic=False), self.inputs()
        found = evaluated(self.formula, self.inputs(), self.backward)
        _alike(found, evaluated(function, self.inputs(), self.backward), self.near)
        return lambda: evaluated(function, inputs, self.backward)


def _alike(one: Result, other: Result, near: float) -> None:
    for a, b in zip(one, other, strict=True):
        assert_close(a, b, atol=near, rtol=near)


def evaluated(function: Callable[..., Any], inputs: Sequence[Tensor], backward: Tensor | None) -> Result:
    """Returns the results of a function, or with `backward` its result and the gradients by the inputs that need them."""
    if backward is None:
        with torch.no_grad():
            found = function(*inputs)
        return found if isinstance(found, tuple) else (found,)
    out = function(*inputs)
    return (out.detach(), *torch.autograd.grad(out, [x for x in inputs if x.requires_grad], backward))


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def decoder(shape: Shape, layers: int) -> Decoder:
    config = DecoderConfig(
        family="llama", vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=4 * shape.width, num_hidden_layers=layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.heads, head_dim=64, max_position_embeddings=1024, tie_word_embeddings=True,
    )  # fmt: skip
    return Decoder(config).initialise(Key(0))


def contexts(shape: Shape) -> list[Context]:
    """Returns the answers of an update."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(shape.prompts):
        prompt = prompt_context(rng.integers(0, shape.vocabulary, shape.prompt).astype(np.int32))
        for _ in range(shape.answers):
            tokens, chosen = rng.integers(0, shape.vocabulary, shape.length).astype(np.int32), np.ones(shape.length, bool)
            made.append(Context(tokens=tokens, chosen=chosen, logprobs=np.zeros(shape.length, np.float32), temperature=1.0, parent=(prompt, shape.prompt)))
    return made


def all_kernels(shape: Shape) -> list[Kernel]:
    return [add_norm(shape), gated(shape), attend(shape), norm(shape), gate(shape), attention(shape)]


# the decoding step


def add_norm(shape: Shape) -> Kernel:
    rows, width, library = shape.rows, shape.width, kernels.kernels()
    y, factor, out = numbers(rows, width), numbers(width), torch.empty(rows, width)
    x, same = numbers(rows + 1, width)[1:].clone(), numbers(rows + 1, width)[1:].clone()
    threads = max(1, min(torch.get_num_threads(), rows * width // compiled._GRAIN))

    def ours() -> Result:
        library.gradus_add_norm(x.data_ptr(), y.data_ptr(), None, None, factor.data_ptr(), out.data_ptr(), rows, width, EPS, threads, 0)  # type: ignore[union-attr]
        return (out,)

    def formula(x: Tensor, y: Tensor, factor: Tensor) -> Tensor:
        return normed(x.add_(y), factor, EPS)

    return Kernel("add_norm", ("gradus_add_norm",), ours, lambda: evaluated(formula, (same, y, factor), None), formula, lambda: (same.clone(), y, factor))


def gated(shape: Shape) -> Kernel:
    rows, width, library = shape.rows, 4 * shape.width, kernels.kernels()
    joint, out = numbers(rows, 2 * width), torch.empty(rows, width)
    threads = max(1, min(torch.get_num_threads(), rows * shape.width // compiled._GRAIN))

    def ours() -> Result:
        library.gradus_gated(joint.data_ptr(), None, out.data_ptr(), rows, width, 0, threads, 0)  # type: ignore[union-attr]
        return (out,)

    def formula(joint: Tensor) -> Tensor:
        gate, up = joint.chunk(2, -1)
        return F.silu(gate) * up

    return Kernel("gated", ("gradus_gated",), ours, lambda: evaluated(formula, (joint,), None), formula, lambda: (joint,))


def attend(shape: Shape) -> Kernel:
    made = Fused(decoder(shape, layers=1), shape.prompt + shape.own)
    cache = compiled.CompiledCache(made, shape.rows, prefix=shape.prompt, own=shape.own)
    rng = np.random.default_rng(2)
    prompts = made.read([rng.integers(0, shape.vocabulary, shape.prompt).astype(np.int32) for _ in range(shape.rows // shape.shares)])
    for i, shared in enumerate(map(compiled._shared, prompts)):
        for slot in range(i * shape.shares, (i + 1) * shape.shares):
            cache.fill(slot, shared)
    cache.own.normal_(generator=torch.Generator().manual_seed(3))
    last, heads, dim = shape.own - 1, shape.heads, made.head_dim
    keys, values = (_places(cache, prompts, shape, which).detach() for which in (0, 1))
    turns = made.turns[0][shape.prompt + last].detach()
    positions, (order, starts) = np.full(shape.rows, shape.prompt + last), cache._arrange(shape.rows)
    joint = numbers(shape.rows, 3 * heads * dim)
    given, out = joint.clone(), torch.empty(shape.rows, heads * dim)

    def ours() -> Result:
        where = (positions.ctypes.data, cache.prefixes.ctypes.data, order.ctypes.data, starts.ctypes.data, len(starts) - 1)
        memory = (cache.scratch.data_ptr(), cache.stride, cache.threads, 0)
        cache.library.gradus_attend(ctypes.byref(cache.specs[0]), 0, given.data_ptr(), given.data_ptr(), out.data_ptr(), *where, *memory)
        return (out,)

    def formula(joint: Tensor, keys: Tensor, values: Tensor, turns: Tensor) -> Tensor:
        q, k, v = joint.view(-1, 3, heads, dim).unbind(1)
        q, k = (x * turns[0] + x.roll(dim // 2, -1) * turns[1] for x in (q, k))
        keys[:, :, -1], values[:, :, -1] = k, v
        return F.scaled_dot_product_attention(q.unsqueeze(2), keys, values).flatten(1)

    return Kernel("attend", ("gradus_attend",), ours, lambda: evaluated(formula, (joint, keys, values, turns), None), formula, lambda: (joint, keys, values, turns))


def _places(cache: compiled.CompiledCache, prompts: Sequence[Any], shape: Shape, which: int) -> Tensor:
    """Returns the cached keys (0) or values (1) of every row in PyTorch's layout, [rows, heads, places, dim]."""
    dim, own = cache.fused.head_dim, cache.own[0, which].view(shape.rows, shape.heads, cache.capacity, cache.padded)
    if which == 0:
        blocks = own.reshape(shape.rows, shape.heads, -1, cache.padded, kernels.WIDE)
        own = blocks.transpose(3, 4).reshape(shape.rows, shape.heads, cache.capacity, cache.padded)
    prefix = torch.stack([p.kv[0, which] for p in prompts]).repeat_interleave(shape.shares, 0)
    return torch.cat([prefix, own[:, :, : shape.own, :dim]], 2).contiguous()


# the update, forward and backward


def norm(shape: Shape) -> Kernel:
    rows, width = shape.prompts * (shape.prompt + shape.answers * shape.length), shape.width
    x, weight, grad = numbers(rows, width).requires_grad_(), numbers(width).requires_grad_(), numbers(rows, width)

    def formula(x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (width,), weight, EPS)

    return Kernel(
        "norm", ("gradus_norm", "gradus_norm_back"), lambda: evaluated(lambda *t: fused.rms_norm(*t, EPS), (x, weight), grad),
        lambda: evaluated(lambda *t: fused._RMSNorm.apply(*t, EPS, False), (x, weight), grad), formula, lambda: (x, weight), grad, 2e-3,
    )  # fmt: skip


def gate(shape: Shape) -> Kernel:
    rows, width = shape.prompts * (shape.prompt + shape.answers * shape.length), 4 * shape.width
    joint, up, grad = numbers(rows, width).requires_grad_(), numbers(rows, width + 1)[:, 1:].clone().requires_grad_(), numbers(rows, width)

    def formula(gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(gate) * up

    def ours() -> Result:
        return evaluated(lambda *t: fused.gated(*t, F.silu), (joint, up), grad)

    functions = ("gradus_gate", "gradus_gate_back")
    return Kernel("gate", functions, ours, lambda: evaluated(formula, (joint, up), grad), formula, lambda: (joint, up), grad)


def attention(shape: Shape) -> Kernel:
    network = decoder(shape, layers=1)
    layer, packed = network.layers[0], pack.pack(contexts(shape))
    rotation, rows = network.rotation(packed.positions)[layer.rope], len(packed.tokens)
    q, k, v = (numbers(rows + i, shape.heads, 64)[i:].clone().requires_grad_() for i in range(3))
    grad, spans, rule = numbers(rows, shape.heads, 64), packed.spans, layer.rule
    lengths = {int(n) for n in spans.suffixes[:, 1]}
    assert len(lengths) == 1  # so a mask of one shape is enough
    before = torch.from_numpy(spans.blocks[:, :1] + np.arange(spans.blocks[0, 1]))
    after = torch.from_numpy(spans.suffixes[:, :1] + np.arange(lengths.pop())).view(len(before), shape.answers, -1)
    prompt, own = before.shape[1], after.shape[2]
    mask = torch.cat([torch.ones(own, prompt, dtype=torch.bool), torch.ones(own, own, dtype=torch.bool).tril()], 1)

    def formula(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        c, s = (torch.cat([t, t], -1).unsqueeze(1) for t in (cos, sin))
        q, k = (x * c + torch.cat([-x[..., 32:], x[..., :32]], -1) * s for x in (q, k))
        first = F.scaled_dot_product_attention(*(t[before].transpose(1, 2) for t in (q, k, v)), is_causal=True, scale=rule.scale).transpose(1, 2)
        # of four dimensions: with five, a rule of torch.compile for attention takes the shapes apart wrongly
        longer = (torch.cat([t[before].unsqueeze(1).expand(-1, shape.answers, -1, -1, -1), t[after]], 2).flatten(0, 1).transpose(1, 2) for t in (k, v))
        rest = F.scaled_dot_product_attention(q[after].flatten(0, 1).transpose(1, 2), *longer, attn_mask=mask, scale=rule.scale).transpose(1, 2)
        places = torch.cat([before.flatten(), after.flatten()])
        return torch.cat([first.flatten(0, 1), rest.flatten(0, 1)])[places.argsort()]

    def ours() -> Result:
        return evaluated(lambda *t: packed_attention(*t, rotation, spans, rule), (q, k, v), grad)

    def plain() -> Result:
        return evaluated(lambda q, k, v: pack.attend((fused.rotate(q, rotation), fused.rotate(k, rotation), v), packed.tiles, rule), (q, k, v), grad)

    return Kernel("packed_attention", ("gradus_packed_attention",), ours, plain, formula, lambda: (q, k, v, *rotation), grad)


# the same in PyTorch's operations within whole steps


class PlainNorm:
    @staticmethod
    def apply(x: Tensor, factor: Tensor, eps: float) -> Any:
        return fused._RMSNorm.apply(x, factor, eps, False)


class PlainGate:
    @staticmethod
    def apply(gate: Tensor, up: Tensor, kind: int) -> Tensor:
        return next(function for function, number in fused.GATES.items() if number == kind)(gate) * up


@lru_cache(4096)
def _at(address: int, *shape: int) -> Tensor:
    """Returns the float32 tensor at an address. The memory belongs to the caller."""
    return torch.frombuffer((ctypes.c_float * int(np.prod(shape))).from_address(address), dtype=torch.float32).view(shape)


def add_norm_at(
    x: int, y: int | None, bias: int | None, after: int | None, factor: int | None, out: int, rows: int, width: int, eps: float, threads: int, narrow: int
) -> None:
    """Does the same as the kernel `add_norm`, in float32."""
    into = _at(x, rows, width)
    if y is not None:
        more = _at(y, rows, width) if bias is None else _at(y, rows, width) + _at(bias, width)
        into += more if after is None else normed(more, _at(after, width), eps)
    if factor is not None:
        _at(out, rows, width).copy_(normed(into, _at(factor, width), eps))


def gated_at(joint: int, bias: int | None, out: int, rows: int, width: int, kind: int, threads: int, narrow: int) -> None:
    """Does the same as the kernel `gated`, in float32."""
    both = _at(joint, rows, 2 * width) if bias is None else _at(joint, rows, 2 * width) + _at(bias, 2 * width)
    _at(out, rows, width).copy_(PlainGate.apply(*both.chunk(2, -1), kind))
