"""The decoder's arithmetic as the engine runs it: fused projections, blocks of fixed rows, prompts in, one token a row out.

It is the maths of `Decoder` without gradient, with q, k, v and gate, up each in one product; weights are gathered once a call, because they
change with every training step. Why bits hold: matrix products run in blocks of agreed sizes (`blocks`), attention over cached places in
ways that padding cannot change (`cache`), a prompt's own attention has a shape that depends on its length alone, and all else is either
exact arithmetic element by element or a kernel that handles each row by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.blocks import MENU, cut, menu
from gradus.policies.cache import Segment, Slots, stable_step
from gradus.policies.decoder import Decoder, Layer

_PROMPT_STEP = 32  # a prompt's own attention is padded to a multiple of this
_GRAIN = 32768  # PyTorch gives an elementwise operation one more thread for every so many elements


@dataclass(frozen=True)
class _Weights:
    """One layer, its matrices [in, out] and contiguous: so stored, products of few rows are up to 1.7 times as fast as with [out, in]."""

    layer: Layer
    qkv: Tensor
    qkv_bias: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True)
class Prompt:
    """A prefix that has been read: keys and values [layers, 2, kv_heads, length, head_dim], and the logits [vocab] of the next token."""

    kv: Tensor
    logits: Tensor


class Fused:
    """A decoder made ready for one call of the engine, for sequences of at most `context` tokens."""

    def __init__(self, decoder: Decoder, context: int) -> None:
        c = decoder.config
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.vocab, self.eps = c.vocab_size, c.rms_norm_eps
        self.embedding = decoder.model.embed_tokens.weight
        self.norm = decoder.model.norm.weight
        self.layers = [_fuse(layer) for layer in decoder.layers]
        self.head = decoder.head_weight.t().contiguous()
        cos, sin = decoder.rotation(torch.arange(context, device=decoder.device))
        self.turns = torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)], 1).unsqueeze(2)  # [context, 2, 1, head_dim]
        one = self.layers[0]
        self.sizes = menu([one.qkv, one.output, one.gate_up, one.down, self.head])
        self.blocks: dict[int, list[int]] = {}
        self.least = MENU[0]  # every size is a multiple of it; attention is given at least so many rows
        shape = (self.heads, self.kv_heads, self.head_dim, self.least)
        self.place_step = stable_step(*shape, self.embedding.dtype, self.embedding.device, torch.get_num_threads())

    def slots(self, count: int, capacity: int) -> Slots:
        """An empty cache."""
        return Slots(len(self.layers), count, self.kv_heads, capacity, self.head_dim, self.embedding)

    def step(self, slots: Slots, tokens: Tensor, positions: Tensor, segments: Sequence[Segment]) -> Tensor:
        """Logits [rows, vocab] after one more token a slot, int64 tokens [rows] at int64 positions [rows]; rows is an agreed block size."""
        x = F.embedding(tokens, self.embedding)
        turns = self.turns[positions].unbind(1)
        places = slots.places(positions)
        for index, w in enumerate(self.layers):
            q, k, v = self._inputs(w, x, turns)
            slots.write(index, places, k, v)
            self._finish(w, x, slots.attend(index, q, segments))
        return self._logits(x)

    def read(self, prefixes: Sequence[np.ndarray]) -> list[Prompt]:
        """Read prefixes of one padded length together (`padded`). A prefix gets the same bits whatever is read with it."""
        lengths = [len(p) for p in prefixes]
        count, length = len(prefixes), padded(lengths[0])
        rows = sum(cut(count * length, self.sizes))
        tokens = np.zeros(rows, dtype=np.int64)
        for i, prefix in enumerate(prefixes):
            tokens[i * length : i * length + len(prefix)] = prefix
        device = self.embedding.device
        turns = self.turns[torch.arange(rows, device=device).remainder_(length).clamp_(max=len(self.turns) - 1)].unbind(1)
        ends = torch.tensor([i * length + n - 1 for i, n in enumerate(lengths)], device=device)
        ends = F.pad(ends, (0, sum(cut(count, self.sizes)) - count))
        x = F.embedding(torch.from_numpy(tokens).to(device), self.embedding)
        kv = x.new_empty(len(self.layers), 2, count, self.kv_heads, length, self.head_dim)
        for index, w in enumerate(self.layers):
            q, k, v = self._inputs(w, x, turns)
            q, k, v = (t[: count * length].unflatten(0, (count, length)).transpose(1, 2) for t in (q, k, v))
            kv[index, 0], kv[index, 1] = k, v
            read = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads < self.heads)
            attended = x.new_zeros(rows, self.heads, self.head_dim)
            attended[: count * length] = read.transpose(1, 2).flatten(0, 1)
            if w is self.layers[-1]:  # of the last layer only the last tokens' outputs are wanted
                x, attended = x[ends], attended[ends]
            self._finish(w, x, attended)
        logits = self._logits(x)
        return [Prompt(kv[:, :, i, :, :n], logits[i]) for i, n in enumerate(lengths)]

    def _product(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        rows = x.shape[0]
        blocks = self.blocks.get(rows) or self.blocks.setdefault(rows, cut(rows, self.sizes))
        y = x @ weight if len(blocks) == 1 else torch.cat([piece @ weight for piece in x.split(blocks)])
        return y if bias is None else y.add_(bias)

    def _inputs(self, w: _Weights, x: Tensor, turns: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        joint = self._product(normed(x, w.layer.input_layernorm.weight, self.eps), w.qkv, w.qkv_bias).unflatten(-1, (-1, self.head_dim))
        both = self.heads + self.kv_heads
        qk, v = joint[:, :both], joint[:, both:]
        if w.layer.self_attn.qk_norm:
            a = w.layer.self_attn
            qk = torch.cat(
                [normed(qk[:, : self.heads], a.q_norm.weight, self.eps), normed(qk[:, self.heads :], a.k_norm.weight, self.eps)], 1
            )
        cos, sin = turns
        # Three operations of one rounding each: a fused multiply-add rounds differently in a kernel's vector part and in its tail.
        turned = (qk * cos).add_(torch.roll(qk, self.head_dim // 2, -1).mul_(sin))
        return turned[:, : self.heads], turned[:, self.heads :], v

    def _finish(self, w: _Weights, x: Tensor, attended: Tensor) -> None:
        """Adds the layer's output to x, in place."""
        x.add_(self._product(attended.flatten(1), w.output, w.output_bias))
        gate, up = self._product(normed(x, w.layer.post_attention_layernorm.weight, self.eps), w.gate_up, w.gate_up_bias).chunk(2, -1)
        x.add_(self._product(silu(gate).mul_(up), w.down, w.down_bias))

    def _logits(self, x: Tensor) -> Tensor:
        return self._product(normed(x, self.norm, self.eps), self.head)


def padded(length: int) -> int:
    """The length at which a prefix is read."""
    return -(-length // _PROMPT_STEP) * _PROMPT_STEP


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, the mean in float32 at least: as `decoder.RMSNorm`."""
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))).to(x.dtype).mul_(weight)


def silu(gate: Tensor) -> Tensor:
    """x sigmoid(x) of rows of a wider matrix [rows, width], each row by the same instructions.

    The kernel's vector part and its tail take exp from different functions. Row by row the tail falls on the same columns, unless a thread's
    share begins inside a row; then the rows are handed over in pieces small enough for one thread.
    """
    rows, width = gate.shape
    if gate.device.type != "cpu" or rows % min(torch.get_num_threads(), -(-rows * width // _GRAIN)) == 0:
        return F.silu(gate)
    return torch.cat([F.silu(piece) for piece in gate.split(max(1, (_GRAIN - 1) // width))])


def _fuse(layer: Layer) -> _Weights:
    a, m = layer.self_attn, layer.mlp
    qkv, gate_up = (a.q_proj, a.k_proj, a.v_proj), (m.gate_proj, m.up_proj)
    return _Weights(layer, *_join(*qkv), *_join(a.o_proj), *_join(*gate_up), *_join(m.down_proj))


def _join(*linears: torch.nn.Linear) -> tuple[Tensor, Tensor | None]:
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    weight = torch.cat([linear.weight for linear in linears])
    return weight.t().contiguous(), torch.cat(biases) if biases else None
