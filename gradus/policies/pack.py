"""Contexts to rows without padding, a prefix that several share computed once, forward and backward.

Contexts with the same prefix form a block. The rows of a block are its prefix, then the suffix of each context; linear layers see rows
only. For attention, blocks of similar shape make a tile: their prefixes padded to one length, their suffixes to another. Each suffix
attends to the keys of its prefix and to its own. Rows that neither predict an action nor are seen by a later one are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.decoder import Decoder, Layer
from gradus.policies.rows import pad_rows, take_rows, unpad_rows
from gradus.types import Context, UserError

_WASTE = 1.25  # a block joins a tile while the padded tile holds at most this many times its rows


@dataclass(frozen=True)
class Ragged:
    """Sequences of rows in a padded rectangle [count, length]. `slots` and `fill` are None where nothing is padded."""

    lengths: tuple[int, ...]
    length: int
    slots: Tensor | None = None  # int64 [rows] place of every row in the rectangle
    fill: Tensor | None = None  # int64 [count * length] row of every place; any row at places that hold none

    @property
    def rows(self) -> int:
        return sum(self.lengths)

    def spread(self, rows: Tensor) -> Tensor:
        """[rows, ...] to [count, length, ...]."""
        flat = rows if self.slots is None or self.fill is None else pad_rows(rows, self.slots, self.fill)
        return flat.view(len(self.lengths), self.length, *rows.shape[1:])

    def gather(self, rectangle: Tensor) -> Tensor:
        """[count, length, ...] to [rows, ...]."""
        flat = rectangle.flatten(0, 1)
        return flat if self.slots is None else unpad_rows(flat, self.slots)


@dataclass(frozen=True)
class Tile:
    """Blocks whose attention runs together: prefixes [B, P], suffixes [R, S], and the prefix of each suffix."""

    prefix: Ragged
    suffix: Ragged
    owner: Tensor  # int64 [R]
    even: int  # suffixes of every prefix where all have as many, consecutive; else 0
    mask: Tensor | None  # 0 or -inf, [S, P + S] or [R, 1, S, P + S]; None: no prefix, plainly causal


@dataclass(frozen=True)
class Packed:
    """The rows of some contexts, and where the prediction of each action is read."""

    tokens: Tensor  # int64 [N]
    positions: Tensor  # int64 [N]
    tiles: tuple[Tile, ...]  # their rows follow each other: prefixes, then suffixes
    read: Tensor  # int64 [U] rows whose hidden state predicts an action, ascending
    source: Tensor  # int64 [A] index into `read` for every action, in order of the contexts
    targets: Tensor  # int64 [A] the token chosen
    counts: tuple[int, ...]  # actions of each context


@dataclass(frozen=True)
class _Block:
    prefix: np.ndarray
    members: tuple[int, ...]  # indices of contexts, longest suffix first
    suffixes: tuple[np.ndarray, ...]

    @property
    def rows(self) -> int:
        return len(self.prefix) + sum(len(s) for s in self.suffixes)

    @property
    def longest(self) -> int:
        return max(len(s) for s in self.suffixes)


def shared_prefix(context: Context) -> int:
    """How many tokens of the sequence this context may share: what it inherited, else what stands before its first action."""
    if context.parent is not None:
        return len(context.prefix)
    return int(context.action_positions[0]) if context.actions else 0


def prefix_key(context: Context) -> bytes:
    """Equal for contexts that can share a prefix."""
    return context.sequence[: shared_prefix(context)].tobytes()


def pack(contexts: Sequence[Context], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Packed:
    """Rows and layout for one forward pass over the actions of these contexts; `dtype` is that of the attention masks.

    Raises: UserError where an action has no token before it.
    """
    blocks = sorted(_blocks(contexts), key=lambda b: (len(b.prefix), b.longest))
    tokens, positions, tiles = [], [], []
    start = {}  # context -> (first row of its prefix, first row of its suffix, length of its prefix)
    row = 0
    for group in _tiled(blocks):
        tiles.append(_tile(group, device, dtype))
        prefixes = [b.prefix for b in group]
        suffixes = [s for b in group for s in b.suffixes]
        tokens += prefixes + suffixes
        positions += [np.arange(len(p)) for p in prefixes]
        positions += [np.arange(len(b.prefix), len(b.prefix) + len(s)) for b in group for s in b.suffixes]
        suffix_row = row + sum(map(len, prefixes))
        for b in group:
            for member, suffix in zip(b.members, b.suffixes, strict=True):
                start[member] = (row, suffix_row, len(b.prefix))
                suffix_row += len(suffix)
            row += len(b.prefix)
        row = suffix_row
    rows = [_prediction_rows(c, *start[i]) for i, c in enumerate(contexts) if c.actions]
    targets = [c.tokens[c.chosen] for c in contexts if c.actions]
    read, source = np.unique(_joined(rows), return_inverse=True)
    on = lambda array: torch.from_numpy(array.astype(np.int64)).to(device)  # noqa: E731
    return Packed(
        tokens=on(_joined(tokens)),
        positions=on(_joined(positions)),
        tiles=tuple(tiles),
        read=on(read),
        source=on(source),
        targets=on(_joined(targets)),
        counts=tuple(c.actions for c in contexts),
    )


def forward(decoder: Decoder, packed: Packed) -> Tensor:
    """Normed hidden states of the rows that predict actions, [U, hidden], in the order of `packed.read`."""
    x = decoder.embed(packed.tokens)
    rotation = decoder.rotation(packed.positions)
    *inner, last = decoder.layers
    for layer in inner:
        x = layer.finish(x, attend(layer.attn_inputs(x, rotation), packed.tiles))
    # Only the rows that are read go through the second half of the last layer.
    attended = attend(last.attn_inputs(x, rotation), packed.tiles)
    x = last.finish(unpad_rows(x, packed.read), unpad_rows(attended, packed.read))
    return decoder.model.norm(x)


def attend(qkv: tuple[Tensor, Tensor, Tensor], tiles: Sequence[Tile]) -> Tensor:
    """Attention of every row [N, heads, head_dim] to its prefix and to its own earlier rows."""
    sizes = [n for tile in tiles for n in (tile.prefix.rows, tile.suffix.rows)]
    parts = [t.split(sizes) for t in qkv]
    out: list[Tensor] = []
    for i, tile in enumerate(tiles):
        prefix = [tile.prefix.spread(part[2 * i]) for part in parts] if tile.prefix.rows else None
        suffix = [tile.suffix.spread(part[2 * i + 1]) for part in parts] if tile.suffix.rows else None
        if prefix is not None:
            out.append(tile.prefix.gather(_attention(*prefix, mask=None)))
        if suffix is not None:
            q, k, v = suffix
            if prefix is not None:
                k, v = (torch.cat([_for_owners(p, tile), s], 1) for p, s in ((prefix[1], k), (prefix[2], v)))
            out.append(tile.suffix.gather(_attention(q, k, v, mask=tile.mask)))
    return torch.cat(out)


def _attention(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None) -> Tensor:
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True).transpose(1, 2)


def _for_owners(prefix: Tensor, tile: Tile) -> Tensor:
    """[B, ...] repeated to [R, ...]: the prefix of every suffix."""
    if tile.even:
        return prefix.unsqueeze(1).expand(-1, tile.even, *prefix.shape[1:]).flatten(0, 1)
    return take_rows(prefix, tile.owner)


def _blocks(contexts: Sequence[Context]) -> list[_Block]:
    groups: dict[bytes, list[int]] = {}
    for i, context in enumerate(contexts):
        if context.actions:
            groups.setdefault(prefix_key(context), []).append(i)
    found = []
    for members in groups.values():
        # The last action is predicted, never read; what follows it is not seen by anything.
        ends = {i: int(contexts[i].action_positions[-1]) for i in members}
        first = contexts[members[0]]
        shared = shared_prefix(first) if len(members) > 1 else 0
        if any(int(contexts[i].action_positions[0]) == 0 for i in members):
            raise UserError("the first token of a context is an action, so nothing predicts it; give the prompt at least one token")
        members.sort(key=lambda i: -ends[i])
        suffixes = tuple(contexts[i].sequence[shared : ends[i]] for i in members)
        found.append(_Block(first.sequence[:shared], tuple(members), suffixes))
    return found


def _tiled(blocks: Sequence[_Block]) -> list[list[_Block]]:
    """Consecutive blocks, joined while padding stays small. Blocks without prefix never join those with one."""
    tiles: list[list[_Block]] = []
    for block in blocks:
        if tiles:
            joined = [*tiles[-1], block]
            longest, wide = max(b.longest for b in joined), len(block.prefix)
            padded = sum(wide + len(b.members) * longest for b in joined)
            if padded <= _WASTE * sum(b.rows for b in joined) and bool(wide) == bool(len(joined[0].prefix)):
                tiles[-1] = joined
                continue
        tiles.append([block])
    return tiles


def _tile(blocks: Sequence[_Block], device: torch.device | str, dtype: torch.dtype) -> Tile:
    prefix = _ragged([len(b.prefix) for b in blocks], device)
    suffix = _ragged([len(s) for b in blocks for s in b.suffixes], device)
    counts = [len(b.members) for b in blocks]
    owner = torch.arange(len(blocks)).repeat_interleave(torch.tensor(counts))
    mask = None
    if prefix.rows and suffix.rows:
        mask = _mask(torch.tensor(prefix.lengths)[owner], prefix.length, suffix.length).to(device, dtype)
    return Tile(prefix, suffix, owner.to(device), counts[0] if len(set(counts)) == 1 else 0, mask)


def _mask(seen: Tensor, prefix: int, suffix: int) -> Tensor:
    """What a suffix may see: the first `seen` keys of its prefix, and its own up to itself."""
    future = torch.full((suffix, suffix), -torch.inf).triu(1)
    if bool((seen == prefix).all()):
        return torch.cat([torch.zeros(suffix, prefix), future], 1)
    padding = torch.zeros(len(seen), 1, 1, prefix).masked_fill(torch.arange(prefix) >= seen.view(-1, 1, 1, 1), -torch.inf)
    return torch.cat([padding.expand(-1, -1, suffix, -1), future.expand(len(seen), 1, -1, -1)], -1)


def _ragged(lengths: Sequence[int], device: torch.device | str) -> Ragged:
    length = max(lengths)
    if min(lengths) == length:
        return Ragged(tuple(lengths), length)
    sizes = np.array(lengths)
    inside = np.arange(length) < sizes[:, None]
    slots = np.flatnonzero(inside)
    fill = np.zeros(inside.size, dtype=np.int64)
    fill[slots] = np.arange(len(slots))
    return Ragged(tuple(lengths), length, torch.from_numpy(slots).to(device), torch.from_numpy(fill).to(device))


def _prediction_rows(context: Context, prefix_row: int, suffix_row: int, prefix: int) -> np.ndarray:
    """The row at the position before every action: in the suffix, or the last one of the prefix."""
    before = context.action_positions - 1
    return np.where(before < prefix, prefix_row + before, suffix_row + before - prefix)


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)


__all__ = ["Layer", "Packed", "Ragged", "Tile", "attend", "forward", "pack", "prefix_key", "shared_prefix"]
