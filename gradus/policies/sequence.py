"""A pass of the built-in decoder whose packed rows are divided among processes (sequence parallelism by all-to-all over heads, as in DeepSpeed Ulysses).

Process r has the r-th range of the rows, and computes embeddings, projections, norms, MLPs and log-probabilities only for these rows. Attention needs all rows.
So before the attention, the processes exchange queries, keys and values. After this exchange, each process has all rows for its own heads. After the
attention, the processes exchange the results back. In the backward pass the exchanges run in the other direction.

An action belongs to the process with the row that predicts the action. The last row of one process predicts the first token of the next process. So each
action is assigned to its predicting row before the rows are divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from gradus.policies.decoder import Decoder, Layer, Rotation
from gradus.policies.fused import compiled, rotate
from gradus.policies.inputs import replaced
from gradus.policies.opened import OpenedDecoder
from gradus.policies.pack import Packed, attend, pack
from gradus.policies.packed_attention import packed_attention
from gradus.policies.rows import unpad_rows
from gradus.policies.sighted import Sighted
from gradus.types import Context, Key
from gradus.types.signals import Want


@dataclass(frozen=True, eq=False)
class Team:
    """The processes that divide the rows of a pass, and the number of this process among them."""

    rank: int
    size: int
    group: Any = None  # a process group of torch.distributed; None: the default group

    def bounds(self, count: int) -> list[int]:
        """Divides `count` things into ranges, one per process. Returns the start of each range and the end of the last. The sizes differ by at most 1."""
        return [count * rank // self.size for rank in range(self.size + 1)]


def to_heads(x: Tensor, rows: Sequence[int], heads: Sequence[int], team: Team) -> Tensor:
    """Exchanges rows for heads: from [rows of this process, heads, d] to [rows, heads of this process, d].

    `rows` and `heads` are the bounds of the processes' ranges (`Team.bounds`).
    """
    return cast("Tensor", _Exchange.apply(x, rows, heads, team, True))


def to_rows(x: Tensor, rows: Sequence[int], heads: Sequence[int], team: Team) -> Tensor:
    """Exchanges heads for rows: from [rows, heads of this process, d] to [rows of this process, heads, d]."""
    return cast("Tensor", _Exchange.apply(x, rows, heads, team, False))


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Sequence[int], heads: Sequence[int], team: Team, by_heads: bool) -> Tensor:
        ctx.given = rows, heads, team, by_heads
        return _exchanged(x, rows, heads, team, by_heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, heads, team, by_heads = ctx.given
        return _exchanged(grad, rows, heads, team, not by_heads), None, None, None, None


def _exchanged(x: Tensor, rows: Sequence[int], heads: Sequence[int], team: Team, by_heads: bool) -> Tensor:
    row_counts, head_counts, width = np.diff(rows).tolist(), np.diff(heads).tolist(), x.shape[-1]
    own_rows, own_heads = row_counts[team.rank], head_counts[team.rank]
    of_rows, of_heads = [own_rows * n * width for n in head_counts], [n * own_heads * width for n in row_counts]  # sent to or received from each process
    if by_heads:
        out = x.new_empty(rows[-1], own_heads, width)
        dist.all_to_all_single(out.view(-1), torch.cat([part.flatten() for part in x.split(head_counts, 1)]), of_heads, of_rows, group=team.group)
        return out
    flat = x.new_empty(own_rows * heads[-1] * width)
    dist.all_to_all_single(flat, x.reshape(-1), of_rows, of_heads, group=team.group)
    return torch.cat([part.view(own_rows, n, width) for part, n in zip(flat.split(of_rows), head_counts, strict=True)], 1)


class OpenedShare(OpenedDecoder):
    """The part of a pass that one process computes. The part has values only for the actions `index`."""

    def __init__(self, trunk: Decoder, contexts: Sequence[Context], *given: Any, team: Team, **options: Any) -> None:
        super().__init__(trunk, contexts, *given, **options)
        self.team = team

    @cached_property
    def layout(self) -> Packed:
        """Returns the rows and actions of all processes."""
        return pack(self.contexts, self.trunk.device, self.trunk.dtype, self.trunk.config.window)

    @cached_property
    def bounds(self) -> list[int]:
        return self.team.bounds(len(self.layout.tokens))

    @cached_property
    def _read(self) -> tuple[int, int]:
        """Returns the range of `layout.read` that this process has."""
        low, high = torch.searchsorted(self.layout.read, torch.tensor(self.bounds[self.team.rank :][:2], device=self.trunk.device)).tolist()
        return low, high

    @cached_property
    def index(self) -> Tensor:
        """Returns the actions that this process predicts, as indices into all actions of the contexts, int64 [a]."""
        low, high = self._read
        return torch.nonzero((self.layout.source >= low) & (self.layout.source < high)).squeeze(1)

    @cached_property
    def packed(self) -> Packed:
        source, targets = (t.index_select(0, self.index) for t in (self.layout.source, self.layout.targets))
        return replace(self.layout, source=source - self._read[0], targets=targets)

    @cached_property
    def temperature(self) -> Tensor:
        whole = OpenedDecoder.temperature.func(self)  # type: ignore[attr-defined]
        return cast("Tensor", whole.index_select(0, self.index))

    @cached_property
    def _last(self) -> Tensor:
        with self._trunk():
            first, end = self.bounds[self.team.rank :][:2]
            x, rotations = self._embedded(first, end), self.trunk.rotation(self.layout.positions)
            low, high = self._read
            *inner, last = self.trunk.layers
            for layer in inner:
                x = self._through(layer, x, rotations, None)
            return cast("Tensor", self.trunk.model.norm(self._through(last, x, rotations, self.layout.read[low:high] - first)))

    def _embedded(self, first: int, end: int) -> Tensor:
        """Returns the input vectors of the rows from `first` to `end`. Only the pictures in these rows are encoded."""
        x = self.trunk.embed(self.layout.tokens[first:end])
        if not any(context.things for context in self.contexts):
            return x
        assert isinstance(self.trunk, Sighted)
        pairs = []
        for i, inputs in enumerate(self.trunk.inputs(self.contexts, lambda i, at: self._mine(i, at, first, end))):
            if inputs is not None:
                rows, index = self.layout.rows(i, inputs.at)
                mine = (rows >= first) & (rows < end)
                pairs.append((rows[mine] - first, index[mine], inputs.rows))
        return replaced(x, pairs)

    def _mine(self, context: int, at: np.ndarray, first: int, end: int) -> bool:
        """Whether one of the positions `at` of a context is in the rows of this process."""
        rows, _ = self.layout.rows(context, at)
        return bool(((rows >= first) & (rows < end)).any())

    def _through(self, layer: Layer, x: Tensor, rotations: Sequence[Rotation], read: Tensor | None) -> Tensor:
        if self.recompute and torch.is_grad_enabled():
            return cast("Tensor", checkpoint(self._layer, layer, x, rotations, read, use_reentrant=False, preserve_rng_state=False))
        return self._layer(layer, x, rotations, read)

    def _layer(self, layer: Layer, x: Tensor, rotations: Sequence[Rotation], read: Tensor | None) -> Tensor:
        rotation, (q, k, v) = rotations[layer.rope], layer.unrotated(x)
        if k.shape[1] < self.team.size:  # fewer heads of keys than processes: each head of queries gets its own copy of its keys
            k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        shared = self.team.bounds(k.shape[1])  # heads of keys and values, with the heads of queries that read them
        heads = [start * q.shape[1] // k.shape[1] for start in shared]
        q, k, v = (to_heads(t, self.bounds, of, self.team) for t, of in ((q, heads), (k, shared), (v, shared)))
        if compiled(q):
            attended = packed_attention(q, k, v, rotation, self.layout.spans, layer.rule)
        else:
            attended = attend((rotate(q, rotation), rotate(k, rotation), v), self.layout.tiles, layer.rule)
        attended = to_rows(attended, self.bounds, heads, self.team)
        if read is not None:
            x, attended = unpad_rows(x, read), unpad_rows(attended, read)
        return layer.finish(x, attended)


def share_of_rows(model: Any, contexts: Sequence[Context], wants: Sequence[Want], key: Key, team: Team) -> tuple[Tensor, dict[Want, Tensor]]:
    """Returns the actions that this process predicts, int64 [a], and for each `Want` their rows [a, ...].

    All processes of the team call this function at the same time, with the same contexts. The contexts have at least one action. `model`: a language model
    with the
    built-in decoder and without a gate.
    """
    opens = frozenset().union(*(want.needed for want in wants))
    opened = OpenedShare(model.trunk, contexts, model.head, opens=opens, trains=not model.shared, recompute=model.recompute, team=team)
    return opened.index, {want: want.rows(cast("Any", opened), key) for want in wants}
