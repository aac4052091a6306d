"""Keys and values of the running sequences, and attention over them. No bit of a sequence's result depends on the other sequences or on padding.

A slot contains one sequence. Position p of the sequence is at place p of the slot. A decoding step reads the first T places of all slots of a segment. T is a
multiple of a step size, and is at least the length of the segment's longest sequence. Places beyond a sequence's end are masked. So these places add exact
zeros.
The result has the same bits for every T only if T does not change the order of the additions in a sum over places. Two methods ensure this:

- float32 and float64: the scores are one matrix product per head with inner dimension head_dim, so T changes only the number of scores. The sum over values is
  cut into pieces of PIECE places, which are added in order. Each piece is within one inner block of the library. In measurements, one product over all places
  gave other bits. The reason is that above a few hundred places, T determines the library's inner blocks. Products in pieces are 2 to 2.5 times as fast as
  scaled_dot_product_attention with one query.

- types narrower than float32: scaled_dot_product_attention is used. This function processes the places in fixed blocks, beginning with the first place. In
measurements this
  function gave the same bits with one query row per head, and was 3 times as fast as the matrix products. But if the scores are capped, the matrix products
  are used, because this function cannot cap scores.

Layers with a window read the same places, but the places before the window are masked.

`stable_step` finds the smallest step size of STEPS with bitwise equal results on this machine. If the step size is too small,
the last vector of the T places can be incomplete. The library's kernels process an incomplete vector in another way, so the results change. If every step
size of STEPS changes the results, whole slots are read, so shapes never change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.blocks import noise
from gradus.policies.config import Rule
from gradus.policies.elementwise import tanh

STEPS = (16, 32, 64)
PIECE = 256
ROWS = 16  # rows of a segment: so few that their lengths are similar, but enough to use all cores

Segment: TypeAlias = tuple[int, int, int]
"""(first slot, end slot, places to read)."""


class Slots:
    """The cache of all layers, [layers, 2, slots, kv_heads, capacity, head_dim], and the masks of its visible places."""

    def __init__(
        self, layers: int, slots: int, kv_heads: int, capacity: int, head_dim: int, like: Tensor, window: int | None = None
    ) -> None:
        # Zeros instead of empty memory: a masked place has weight 0, and 0 times a leftover NaN is NaN.
        self.kv = torch.zeros(layers, 2, slots, kv_heads, capacity, head_dim, dtype=like.dtype, device=like.device)
        self.mask = torch.full((slots, kv_heads, capacity), float("-inf"), dtype=like.dtype, device=like.device)
        self.window = None if window is None or window >= capacity else window
        self.near = self.mask.clone() if self.window else self.mask  # visible places of layers with a window
        self.first = torch.arange(slots * kv_heads, device=like.device) * capacity  # place 0 of every slot and head, flat
        self.kv_heads, self.capacity = kv_heads, capacity

    def fill(self, slot: int, kv: Tensor) -> None:
        """Starts a sequence in the slot with its keys and values [layers, 2, kv_heads, length, head_dim]."""
        length = kv.shape[-2]
        self.kv[:, :, slot, :, :length] = kv
        self.clear(slot)
        self.mask[slot, :, :length] = 0
        if self.window is not None:
            self.near[slot, :, max(0, length - self.window) : length] = 0

    def clear(self, slot: int) -> None:
        """Hides all places of the slot."""
        self.mask[slot] = float("-inf")
        self.near[slot] = float("-inf")

    def move(self, source: int, target: int, length: int) -> None:
        """Copies a sequence of `length` tokens to another slot."""
        self.kv[:, :, target, :, :length] = self.kv[:, :, source, :, :length]
        self.mask[target] = self.mask[source]
        self.near[target] = self.near[source]

    def take_over(self, other: Slots, used: int) -> None:
        """Copies the sequences in the first `used` slots of another cache, whose capacity is not larger."""
        had = other.capacity
        self.kv[:, :, :used, :, :had] = other.kv[:, :, :used]
        self.mask[:used, :, :had] = other.mask[:used]
        if self.window is not None:  # the other cache may be shorter than the window: then all of its places are visible in layers with a window
            self.near[:used, :, :had] = other.near[:used]

    def places(self, positions: Tensor) -> Tensor:
        """Makes one position per slot visible and returns the places of these positions in the flat cache, int64 [rows * kv_heads].

        In layers with a window, also hides the place that is now outside the window.
        """
        places = self.first[: len(positions) * self.kv_heads] + positions.repeat_interleave(self.kv_heads)
        self.mask.view(-1).index_fill_(0, places, 0)
        if self.window is not None:
            # If a sequence is shorter than the window, the hidden place is after its end and was not visible.
            gone = (positions - self.window).remainder_(self.capacity).repeat_interleave(self.kv_heads)
            self.near.view(-1).index_fill_(0, self.first[: len(gone)] + gone, float("-inf"))
            self.near.view(-1).index_fill_(0, places, 0)
        return places

    def write(self, layer: int, places: Tensor, k: Tensor, v: Tensor) -> None:
        """Writes the keys and values [rows, kv_heads, head_dim] of one new token per slot."""
        for side, new in enumerate((k, v)):
            flat = self.kv[layer, side].view(-1, new.shape[-1])
            flat.index_copy_(0, places, new.reshape(-1, new.shape[-1]))

    def attend(self, layer: int, q: Tensor, segments: Sequence[Segment], rule: Rule) -> Tensor:
        """Computes the attention of every slot's query over the slot's visible places. Query and result are [rows, heads, head_dim].

        The rows of slots that are in no segment are 0.
        """
        keys, values = self.kv[layer, 0], self.kv[layer, 1]
        mask = self.mask if rule.window is None else self.near
        read = [
            attend(q[start:stop], keys[start:stop, :, :length], values[start:stop, :, :length], mask[start:stop, :, :length], rule)
            for start, stop, length in segments
        ]
        rest = q.shape[0] - segments[-1][1]
        return torch.cat([*read, q.new_zeros(rest, *q.shape[1:])]) if rest or len(read) > 1 else read[0]


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, rule: Rule) -> Tensor:
    """Computes the attention of one query per row.

    q is [rows, heads, d], keys and values are [rows, kv_heads, T, d], the additive mask is [rows, kv_heads, T].
    """
    rows, heads, d = q.shape
    kv_heads, length = mask.shape[1:]
    exact = q.dtype in (torch.float32, torch.float64)
    if not exact and rule.cap is None:
        grouped = kv_heads < heads
        out = F.scaled_dot_product_attention(
            q.unsqueeze(2), keys, values, attn_mask=mask[:, :1].unsqueeze(1), enable_gqa=grouped, scale=rule.scale
        )
        return out.squeeze(2)
    k, v = keys.flatten(0, 1), values.flatten(0, 1)
    grouped_q = q.reshape(rows * kv_heads, heads // kv_heads, d)
    if rule.cap is None:
        p = torch.baddbmm(mask.flatten(0, 1).unsqueeze(1), grouped_q, k.transpose(1, 2), alpha=rule.scale).softmax(-1)
    else:
        scores = torch.bmm(grouped_q, k.transpose(1, 2))
        soft = tanh((scores if exact else scores.float()).mul_(rule.scale / rule.cap)).mul_(rule.cap)
        p = soft.add_(mask.flatten(0, 1).unsqueeze(1)).softmax(-1).to(q.dtype)
    piece = PIECE // max(q.element_size() // 4, 1)  # the library's blocks have a fixed size in bytes
    out = torch.bmm(p[:, :, :piece], v[:, :piece])
    for start in range(piece, length, piece):
        out.baddbmm_(p[:, :, start : start + piece], v[:, start : start + piece])
    return out.view(rows, heads, d)


def segments(lengths: Sequence[int], step: int) -> tuple[Segment, ...]:
    """Returns the segments for rows with these numbers of visible places.

    Neighbouring rows form a segment. For every row, a segment reads as many places as its longest row has. This number is rounded up to a
    multiple of `step`.
    """
    found: list[Segment] = []
    for start in range(0, len(lengths), ROWS):
        stop = min(start + ROWS, len(lengths))
        length = -(-max(lengths[start:stop]) // step) * step
        if found and found[-1][2] == length:
            found[-1] = (found[-1][0], stop, length)
        else:
            found.append((start, stop, length))
    return tuple(found)


@lru_cache
def stable_step(
    heads: int, kv_heads: int, head_dim: int, least: int, dtype: torch.dtype, device: torch.device, threads: int, rule: Rule
) -> int | None:
    """Returns the smallest step size (in places) with bitwise equal results; None if there is no such step size.

    With this step size, a row gets the same bits for any number of places, and for any number (at least `least`) of rows that are read together.
    """
    rows, capacity = 2 * least, 2 * PIECE + 2 * STEPS[-1]
    like = torch.empty(0, dtype=dtype, device=device)
    q = noise(rows * heads, head_dim, like).view(rows, heads, head_dim)
    kv = noise(2 * rows * kv_heads * capacity, head_dim, like).view(2, rows, kv_heads, capacity, head_dim)
    places, back = torch.arange(capacity, device=device), torch.arange(rows, device=device).view(-1, 1, 1)

    def read(count: int, length: int, mask: Tensor) -> Tensor:
        return attend(q[:count], kv[0, :count, :, :length], kv[1, :count, :, :length], mask[:count, :, :length], rule)[:least]

    def agrees(length: int, step: int) -> bool:
        """Tests whether sequences that end within the last step before `length` get the same bits in three kinds of reads. The first read is up to
        `length`, the second read is one step longer. The third read is up to the end, together with more rows.
        """
        visible = places < length - back.remainder(step)
        mask = torch.zeros(rows, kv_heads, capacity, dtype=dtype, device=device).masked_fill_(~visible, float("-inf"))
        exact = read(least, length, mask)
        return torch.equal(exact, read(least, length + step, mask)) and torch.equal(exact, read(rows, capacity, mask))

    def steps(step: int) -> list[int]:
        """Returns the lengths to try: the smallest lengths, and lengths near the ends of pieces."""
        return [*range(step, 8 * step + 1, step), *(end + turn for end in (PIECE, 2 * PIECE) for turn in (-step, 0, step))]

    return next((step for step in STEPS if all(agrees(length, step) for length in steps(step))), None)
