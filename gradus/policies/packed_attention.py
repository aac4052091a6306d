"""Attention of packed rows by the compiled kernels, with its backward pass, for float32 on a CPU.

The kernel first rotates a row. Then the row attends to the rows of its prefix and of its suffix, up to itself, without padding, copies or masks. For each
block, the kernel reads the keys of the shared prefix once, and sums the gradients of these keys once. `pack.attend` does the same in PyTorch's operations.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gradus.policies.config import Rule
from gradus.policies.kernels import FOUR, AttentionOf, BackOf, kernels, whole


@dataclass(frozen=True, eq=False)
class Spans:
    """The positions of blocks among the rows. The rows of a block's suffixes attend to the rows of the block's prefix."""

    blocks: np.ndarray  # int64 [blocks, 4]: first row and length of the prefix, index of its first suffix, number of its suffixes
    suffixes: np.ndarray  # int64 [suffixes, 2]: first row and length of each suffix

    @cached_property
    def places(self) -> int:
        """Returns the length of the longest prefix plus the length of the longest suffix, each rounded up to whole blocks of keys."""
        return whole(int(self.blocks[:, 1].max(initial=0))) + whole(int(self.suffixes[:, 1].max(initial=0)))


def packed_attention(q: Tensor, k: Tensor, v: Tensor, rotation: tuple[Tensor, Tensor], spans: Spans, rule: Rule) -> Tensor:
    """Computes the attention [N, heads, dim] of rows q [N, heads, dim], k and v [N, kv_heads, dim].

    The kernel rotates q and k by cos and sin [N, pairs].
    """
    return _Attention.apply(q, k, v, *rotation, spans, rule)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, spans: Spans, rule: Rule) -> Tensor:
        q, k, v = (_by_rows(t) for t in (q, k, v))
        out, logs = q.new_empty(q.shape), q.new_empty(q.shape[:2])
        _run(q, k, v, cos, sin, spans, rule, out, logs, None)
        ctx.save_for_backward(q, k, v, cos, sin, out, logs)
        ctx.spans, ctx.rule = spans, rule
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, cos, sin, out, logs = ctx.saved_tensors
        grad = grad.contiguous()
        to = q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)
        back = BackOf(*(t.data_ptr() for t in (out, logs, grad, *to)))
        _run(q, k, v, cos, sin, ctx.spans, ctx.rule, out, logs, back)
        return *to, None, None, None, None


def _run(
    q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, spans: Spans, rule: Rule, out: Tensor, logs: Tensor, back: BackOf | None
) -> None:
    library, threads = kernels(), torch.get_num_threads()
    assert library is not None
    (_, heads, dim), padded, places = q.shape, whole(q.shape[2]), spans.places
    spec = AttentionOf(
        heads=heads, kv_heads=k.shape[1], dim=dim, padded=padded, turned=cos.shape[1], window=rule.window or 0,
        q_stride=q.stride(0), k_stride=k.stride(0), v_stride=v.stride(0), scale=rule.scale, cap=rule.cap or 0.0,
        **{name: t.data_ptr() for name, t in (("q", q), ("k", k), ("v", v), ("cosines", cos), ("sines", sin))},
    )  # fmt: skip
    wide, narrow = (3, 2) if back is None else (6, 4)
    size = wide * places * padded + narrow * FOUR * padded + (1 if back is None else 2) * FOUR * places
    memory = q.new_empty(threads * size)
    library.gradus_packed_attention(
        ctypes.byref(spec), spans.blocks.ctypes.data, len(spans.blocks), spans.suffixes.ctypes.data, memory.data_ptr(), size, places,
        out.data_ptr(), logs.data_ptr(), back and ctypes.byref(back), threads,
    )  # fmt: skip


def _by_rows(x: Tensor) -> Tensor:
    """Returns rows whose heads are contiguous. In memory, there may be gaps between the rows."""
    return x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous()
