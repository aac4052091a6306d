"""Runs a layer in chunks of rows, forward and backward. Only the layer's input is kept for the backward pass. During the backward pass, the activations of
only one chunk are in memory.

A prefix comes first, and its suffixes follow. In this order, a row sees only earlier rows. The backward pass begins with the last chunk. The
backward pass computes the activations of a chunk again, and adds up the gradients of the weights and of all earlier keys and values. When the pass reaches a
chunk, all later chunks are done. So the gradients of the chunk's own keys and values are already complete. One backward pass through the chunk then gives the
exact gradient.
The queries of a chunk read only the keys up to the end of the chunk.

Source: Luo et al., StreamBP, arXiv:2506.03077. In this paper, the keys and values of a layer have their own backward pass after the last chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gradus.policies.attention import attention
from gradus.policies.decoder import Layer, Rotation
from gradus.policies.packed_attention import Spans
from gradus.policies.rows import unpad_rows


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of the order."""

    start: int  # first place
    stop: int  # place after the last
    past: tuple[tuple[int, int], ...]  # ranges of earlier places that rows of the chunk may see
    single: bool  # whether all rows belong to one prefix or suffix
    rows: Tensor  # int64 [C]: the packed row at every place
    reading: Tensor  # int64 [c]: rows of the chunk, counted from 0, that predict an action
    read: Tensor  # int64 [c]: index of each of these rows among all rows that predict an action


@dataclass(frozen=True, eq=False)
class Order:
    """The order of N packed rows, and its chunks."""

    chunks: tuple[Chunk, ...]
    piece: Tensor  # int64 [N]: the prefix or suffix of every place
    parent: Tensor  # int64 [N]: for a place in a suffix, the prefix of this suffix; for any other place, its own piece
    positions: Tensor  # int64 [N]: position in the sequence

    def mask(self, chunk: Chunk, queries: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
        """Returns the additive mask [queries, past and own rows]: 0 or -inf. `queries` are rows of the chunk, counted from 0."""
        device, past = self.piece.device, sum(b - a for a, b in chunk.past)
        if chunk.single and window is None:  # then every row sees all earlier rows of the past, and the rows of its chunk up to itself
            after = torch.arange(chunk.stop - chunk.start, device=device) > queries.unsqueeze(1)
            mask = torch.zeros(len(queries), past + after.shape[1], dtype=dtype, device=device)
            mask[:, past:].masked_fill_(after, -torch.inf)
            return mask
        keys = torch.cat([torch.arange(a, b, device=device) for a, b in (*chunk.past, (chunk.start, chunk.stop))])
        own = (queries + chunk.start).unsqueeze(1)
        piece = self.piece[keys]
        seen = ((piece == self.piece[own]) | (piece == self.parent[own])) & (keys <= own)
        if window is not None:
            seen &= self.positions[own] - self.positions[keys] < window
        return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, -torch.inf)


def ordered(spans: Spans, positions: Tensor, read: Tensor, chunks: int) -> Order:
    """Cuts the rows into chunks of ceil(N / chunks) rows, so there are at most `chunks` chunks. `read`: rows that predict an action, in rising order."""
    pieces: list[tuple[int, int, int]] = []  # first row, length, parent
    for prefix, length, first, count in spans.blocks.tolist():
        parent = len(pieces) if length else None
        if length:
            pieces.append((prefix, length, len(pieces)))
        for start, own in spans.suffixes[first : first + count].tolist():
            pieces.append((start, own, len(pieces) if parent is None else parent))
    firsts, lengths, parents = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    begin = np.concatenate([[0], np.cumsum(lengths)])
    piece = np.repeat(np.arange(len(pieces)), lengths)
    places = np.arange(begin[-1])
    rows = firsts[piece] + places - begin[piece]
    among = np.full(len(rows), -1)
    among[read.cpu().numpy()] = np.arange(len(read))

    def chunk(start: int, stop: int) -> Chunk:
        own = int(piece[start])
        ranges = [(begin[k], min(begin[k + 1], start)) for k in dict.fromkeys([int(parents[own]), own])]
        reading = np.flatnonzero(among[rows[start:stop]] >= 0)
        inside = rows[start:stop]
        past = tuple((int(a), int(b)) for a, b in ranges if a < b)
        return Chunk(start, stop, past, bool(piece[stop - 1] == own), *(torch.from_numpy(i).to(read.device) for i in (inside, reading, among[inside][reading])))

    size = -(-len(rows) // chunks)
    cuts = tuple(chunk(start, min(start + size, len(rows))) for start in range(0, len(rows), size))
    on = [torch.from_numpy(i).to(read.device) for i in (rows, piece, parents[piece])]
    return Order(cuts, on[1], on[2], positions.index_select(0, on[0]))


def streamed(layer: Layer, x: Tensor, rotations: Sequence[Rotation], order: Order, last: bool, attend: Callable[[], Tensor]) -> Tensor:
    """Computes the layer's output at all rows [N, hidden]. With `last`: only at the rows that predict actions, in their order.

    `attend` computes the attention of all rows [N, heads, head_dim] in the forward pass. The result has gradient to x and to the layer's weights.
    """
    weights = [p for p in layer.parameters() if p.requires_grad]
    return _Streamed.apply(x, layer, rotations, order, last, attend, *weights)


class _Streamed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, layer: Layer, rotations: Sequence[Rotation], order: Order, last: bool, attend: Callable[[], Tensor], *weights: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, *weights)
        ctx.told = layer, rotations, order, last
        attended = attend()
        out = x.new_empty(sum(len(c.read) for c in order.chunks) if last else len(x), x.shape[1])
        for chunk in order.chunks:
            rows = chunk.rows.index_select(0, chunk.reading) if last else chunk.rows
            if len(rows):
                y = layer.finish(x.index_select(0, rows), attended.index_select(0, rows))
                out.index_copy_(0, chunk.read if last else rows, y)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        layer, rotations, order, last = ctx.told
        keys, values = _buffers(layer, x)
        with torch.no_grad():
            for chunk in order.chunks[:-1]:  # no other chunk sees the keys of the last one
                at = slice(chunk.start, chunk.stop)
                keys[at], values[at] = layer.keys(x.index_select(0, chunk.rows), _rotations(rotations, chunk))
        to_keys, to_values = (torch.zeros_like(t, dtype=_wide(t)) for t in (keys, values))
        to_x = torch.empty_like(x)
        sums = [torch.zeros_like(w, dtype=_wide(w)) for w in weights]
        for chunk in reversed(order.chunks):
            to_inside, parts = _chunk_back(layer, x, rotations, order, chunk, last, grad, (keys, values), (to_keys, to_values), weights)
            to_x.index_copy_(0, chunk.rows, to_inside)
            for total, part in zip(sums, parts, strict=True):
                if part is not None:
                    total.add_(part)
        return to_x, None, None, None, None, None, *(s.to(w.dtype) for s, w in zip(sums, weights, strict=True))


def _chunk_back(
    layer: Layer, x: Tensor, rotations: Sequence[Rotation], order: Order, chunk: Chunk, last: bool, grad: Tensor,
    cached: tuple[Tensor, Tensor], to_cached: tuple[Tensor, Tensor], weights: Sequence[Tensor],
) -> tuple[Tensor, Sequence[Tensor | None]]:  # fmt: skip
    """Returns the gradients of the chunk's inputs and of the weights. Adds to `to_cached` the gradients of the earlier keys and values."""
    with torch.enable_grad():
        inside = x.detach().index_select(0, chunk.rows).requires_grad_()
        q, *own = layer.attn_inputs(inside, _rotations(rotations, chunk))
        past = [torch.cat([t[:0], *(t[a:b] for a, b in chunk.past)]).requires_grad_() for t in cached]
        outputs, slopes = list(own), [t[chunk.start : chunk.stop].to(x.dtype) for t in to_cached]
        at = chunk.reading if last else torch.arange(len(inside), device=x.device)
        if len(at):
            k, v = (torch.cat(pair) for pair in zip(past, own, strict=True))
            outputs.append(_output(layer, inside, q, k, v, order, chunk, at))
            slopes.append(grad.index_select(0, chunk.read if last else chunk.rows))
        to_inside, *rest = torch.autograd.grad(outputs, [inside, *past, *weights], slopes, allow_unused=True)
    for total, part in zip(to_cached, rest[:2], strict=True):
        done = 0
        for a, b in chunk.past if part is not None else ():
            total[a:b] += part[done : done + b - a]
            done += b - a
    return to_inside, rest[2:]


def _output(layer: Layer, x: Tensor, q: Tensor, k: Tensor, v: Tensor, order: Order, chunk: Chunk, at: Tensor) -> Tensor:
    """Returns the layer's output at the rows `at` of a chunk. Inputs are the chunk's input and queries, and all keys and values that the chunk sees."""
    if len(at) < len(x):
        x, q = unpad_rows(x, at), unpad_rows(q, at)
    mask = order.mask(chunk, at, layer.rule.window, q.dtype)
    return layer.finish(x, attention(q[None], k[None], v[None], layer.rule, mask)[0])


def _buffers(layer: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
    shape = len(x), layer.self_attn.kv_heads, layer.self_attn.head_dim
    return x.new_empty(shape), x.new_empty(shape)


def _rotations(rotations: Sequence[Rotation], chunk: Chunk) -> list[Rotation]:
    return [(cos.index_select(0, chunk.rows), sin.index_select(0, chunk.rows)) for cos, sin in rotations]


def _wide(t: Tensor) -> torch.dtype:
    """Returns the type of sums: float32 for narrower types."""
    return t.dtype if t.dtype in (torch.float32, torch.float64) else torch.float32
