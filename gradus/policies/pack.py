"""Packs contexts as rows without padding. The prefix of several contexts is computed once, forward and backward.

Contexts with the same prefix form a block. The rows of a block are its prefix, then the suffix of each context. Linear layers process rows only.
For attention, blocks with prefixes of similar length form a tile, and the suffixes of a tile run in batches of similar length. A suffix attends
to the keys of its prefix and to its own keys. Windows count positions of the sequence, so the order of the rows has no effect. If a row does not predict an
action and no later row attends to it, the pass leaves this row out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gradus.policies.attention import attention, causal, seen
from gradus.policies.config import Rule
from gradus.policies.decoder import Decoder, Layer, Rotation
from gradus.policies.fused import compiled
from gradus.policies.inputs import Inputs, replaced
from gradus.policies.packed_attention import Spans, packed_attention
from gradus.policies.prefix_sharing import families
from gradus.policies.rows import join_prefix, pad_rows, unpad_rows
from gradus.policies.streamed import Order, ordered, streamed
from gradus.types import Context, UserError

_WASTE, _FREE = 1.2, 128  # sequences are padded to one length if the padded rows are at most _WASTE times the rows, or at most _FREE more


@dataclass(frozen=True)
class Ragged:
    """Sequences of rows in a padded rectangle [count, length]. `slots` and `fill` are None if there is no padding."""

    lengths: tuple[int, ...]
    length: int
    slots: Tensor | None = None  # int64 [rows]: place of every row in the rectangle
    fill: Tensor | None = None  # int64 [count * length]: row of every place; an empty place has any row

    @property
    def rows(self) -> int:
        return sum(self.lengths)

    def spread(self, rows: Tensor) -> Tensor:
        """Maps rows [rows, ...] to the rectangle [count, length, ...]."""
        flat = rows if self.slots is None or self.fill is None else pad_rows(rows, self.slots, self.fill)
        return flat.view(len(self.lengths), self.length, *rows.shape[1:])

    def gather(self, rectangle: Tensor) -> Tensor:
        """Maps the rectangle [count, length, ...] to rows [rows, ...]."""
        flat = rectangle.flatten(0, 1)
        return flat if self.slots is None else unpad_rows(flat, self.slots)


@dataclass(frozen=True)
class Suffixes:
    """Suffixes of similar length [R, S], and the prefix of each suffix."""

    rows: Ragged
    owner: Tensor  # int64 [R]: index into the prefixes of the tile
    shared: Tensor  # int64 [R]: length of the prefix of each suffix
    prefix: int  # P
    window: int | None  # window of windowed layers
    dtype: torch.dtype  # dtype of the masks

    @cached_property
    def mask(self) -> Tensor:
        """Returns the attention mask: 0 or -inf, [S, P + S] or [R, 1, S, P + S]."""
        return _mask(self.shared, self.prefix, self.rows.length, None).to(self.owner.device, self.dtype)

    @cached_property
    def near(self) -> Tensor:
        """Returns the attention mask of layers with a window, in the same form."""
        if self.window is None or self.prefix + self.rows.length <= self.window:
            return self.mask
        return _mask(self.shared, self.prefix, self.rows.length, self.window).to(self.owner.device, self.dtype)


@dataclass(frozen=True)
class Tile:
    """Prefixes of similar length [B, P] and their suffixes. P = 0: the suffixes have no prefix."""

    prefix: Ragged
    suffixes: tuple[Suffixes, ...]


@dataclass(frozen=True)
class Packed:
    """The rows of some contexts, and the row that predicts each action."""

    tokens: Tensor  # int64 [N]
    positions: Tensor  # int64 [N]
    tiles: tuple[Tile, ...]  # in row order: prefixes, then suffixes
    spans: Spans  # the same layout without padding
    read: Tensor  # int64 [U]: rows whose hidden state predicts an action, in rising order
    source: Tensor  # int64 [A]: index into `read` for every action, in order of the contexts
    targets: Tensor  # int64 [A]: the chosen token of every action
    counts: tuple[int, ...]  # number of actions of each context
    window: int | None  # the masks are made for a decoder with this window
    starts: np.ndarray  # int64 [contexts, 4]: first row of the prefix, first row of the suffix, length of the prefix, number of packed tokens

    def rows(self, context: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns (rows, index into `positions`) of a context's tokens at these positions of its sequence.

        Tokens that were left out are not included. Contexts with the same prefix have the same rows for the tokens of the prefix.
        """
        prefix_row, suffix_row, prefix, count = self.starts[context]
        kept = np.flatnonzero(positions < count)
        at = positions[kept]
        return np.where(at < prefix, prefix_row + at, suffix_row + at - prefix), kept


@dataclass(frozen=True)
class _Block:
    """A prefix and its suffixes. A suffix is a pair: the index of the context, and the tokens."""

    prefix: np.ndarray
    suffixes: tuple[tuple[int, np.ndarray], ...]


def pack(
    contexts: Sequence[Context], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, window: int | None = None
) -> Packed:
    """Returns the rows and their layout for one forward pass over the actions of these contexts.

    `dtype` is the dtype of the attention masks, and `window` is the window of the decoder. Raises: UserError if an action has no token before it.
    """
    tiles, tokens, positions = [], [], []
    blocks_at: list[tuple[int, int, int, int]] = []
    suffixes_at: list[tuple[int, int]] = []
    start: dict[int, tuple[int, int, int]] = {}  # context -> (first row of its prefix, first row of its suffix, length of its prefix)
    row = 0
    for blocks in _tiled(_blocks(contexts)):
        prefixes = [b.prefix for b in blocks]
        first = np.cumsum([row, *map(len, prefixes)])
        row = int(first[-1])
        tokens += prefixes
        positions += [np.arange(len(p)) for p in prefixes]
        members = sorted(((i, owner, s) for owner, b in enumerate(blocks) for i, s in b.suffixes), key=lambda m: len(m[2]))
        for i, owner, suffix in members:
            shared = len(prefixes[owner])
            start[i] = (int(first[owner]), row, shared)
            tokens.append(suffix)
            positions.append(np.arange(shared, shared + len(suffix)))
            row += len(suffix)
        for owner, block in enumerate(blocks):
            own = [(start[i][1], len(suffix)) for i, suffix in block.suffixes]
            blocks_at.append((int(first[owner]), len(block.prefix), len(suffixes_at), len(own)))
            suffixes_at += own
        tiles.append(_tile(prefixes, [(owner, len(s)) for _, owner, s in members], device, dtype, window))
    starts = np.zeros((len(contexts), 4), np.int64)
    for i, (prefix_row, suffix_row, shared) in start.items():
        starts[i] = prefix_row, suffix_row, shared, contexts[i].action_positions[-1]
    rows = [_prediction_rows(c, *start[i]) for i, c in enumerate(contexts) if c.actions]
    read, source = np.unique(_joined(rows), return_inverse=True)
    return Packed(
        tokens=_on(_joined(tokens), device),
        positions=_on(_joined(positions), device),
        tiles=tuple(tiles),
        spans=Spans(np.array(blocks_at, np.int64).reshape(-1, 4), np.array(suffixes_at, np.int64).reshape(-1, 2)),
        read=_on(read, device),
        source=_on(source, device),
        targets=_on(_joined([c.tokens[c.chosen] for c in contexts if c.actions]), device),
        counts=tuple(c.actions for c in contexts),
        window=window,
        starts=starts,
    )


def embedded(decoder: Decoder, packed: Packed, given: Sequence[Inputs | None]) -> Tensor:
    """Returns the input vectors of all rows, [N, hidden]: the vectors in `given` (one entry per context), and the embeddings of all other tokens."""
    pairs = [(*packed.rows(i, inputs.at), inputs.rows) for i, inputs in enumerate(given) if inputs is not None and len(inputs.at)]
    return replaced(decoder.embed(packed.tokens), pairs)


def forward(decoder: Decoder, packed: Packed, *, recompute: int = 0, begun: tuple[int, Tensor] | None = None) -> Tensor:
    """Returns the normed hidden states of the rows that predict actions, [U, hidden], in the order of `packed.read`.

    `begun`: None, or a pair (i, x): the pass begins after layer i. The array x is the output of the first i layers at all rows [N, hidden], and i is less
    than the number of layers. With (0, `embedded(...)`), other input vectors replace the token embeddings. `recompute`: with 0, all values are kept for the
    backward pass. With 1, only the input of each layer is kept, and the backward pass computes all other values again. Above 1, the backward pass computes
    these values again in `recompute` chunks of rows (`streamed`).

    Raises: ValueError if the rows were packed for another window than the decoder's window.
    """
    rotations, order = _rotations(decoder, packed), _order(packed, recompute)
    *inner, last = decoder.layers
    start, x = begun if begun is not None else (0, decoder.embed(packed.tokens))
    for layer in inner[start:]:
        x = _run(layer, x, rotations, packed, None, recompute, order)
    return decoder.model.norm(_run(last, x, rotations, packed, packed.read, recompute, order))


def residual(
    decoder: Decoder, packed: Packed, layers: int, *, recompute: int = 0, begun: tuple[int, Tensor] | None = None
) -> Tensor:
    """Returns the output of the first `layers` layers at all rows [N, hidden], without norm. If `layers` is 0, this output is the embeddings.

    `begun` and `recompute`: as in `forward`.
    """
    rotations, order = _rotations(decoder, packed), _order(packed, recompute)
    start, x = begun if begun is not None else (0, decoder.embed(packed.tokens))
    for layer in decoder.layers[start:layers]:
        x = _run(layer, x, rotations, packed, None, recompute, order)
    return x


def _order(packed: Packed, recompute: int) -> Order | None:
    return ordered(packed.spans, packed.positions, packed.read, recompute) if recompute > 1 else None


def _rotations(decoder: Decoder, packed: Packed) -> list[Rotation]:
    if packed.window != decoder.config.window:
        raise ValueError(
            f"the contexts are packed for an attention window of {packed.window}, but the window of the decoder is {decoder.config.window}; "
            "pack them again for this decoder"
        )
    return decoder.rotation(packed.positions)


def _run(
    layer: Layer, x: Tensor, rotations: Sequence[Rotation], packed: Packed, read: Tensor | None, recompute: int, order: Order | None
) -> Tensor:
    if order is not None:
        return cast("Tensor", layer(_chunked, x, rotations, packed, read, order))
    again = recompute and torch.is_grad_enabled()
    return cast("Tensor", layer(_recomputed if again else _layer, x, rotations, packed, read))


def _recomputed(layer: Layer, x: Tensor, *given: Any) -> Tensor:
    return cast("Tensor", checkpoint(_layer, layer, x, *given, use_reentrant=False, preserve_rng_state=False))


def _chunked(layer: Layer, x: Tensor, rotations: Sequence[Rotation], packed: Packed, read: Tensor | None, order: Order) -> Tensor:
    return streamed(layer, x, rotations, order, read is not None, lambda: _attended(layer, x, rotations, packed))


def _layer(layer: Layer, x: Tensor, rotations: Sequence[Rotation], packed: Packed, read: Tensor | None) -> Tensor:
    """Returns the layer's output at all rows, or only at the rows `read`.

    The second half of the last layer does not need other rows.
    """
    attended = _attended(layer, x, rotations, packed)
    if read is not None:
        x, attended = unpad_rows(x, read), unpad_rows(attended, read)
    return layer.finish(x, attended)


def _attended(layer: Layer, x: Tensor, rotations: Sequence[Rotation], packed: Packed) -> Tensor:
    if compiled(x):
        return packed_attention(*layer.unrotated(x), rotations[layer.rope], packed.spans, layer.rule)
    return attend(layer.attn_inputs(x, rotations), packed.tiles, layer.rule)


def attend(qkv: tuple[Tensor, Tensor, Tensor], tiles: Sequence[Tile], rule: Rule) -> Tensor:
    """Computes the attention of every row [N, heads, head_dim] to the rows of its prefix and of its suffix, up to the row itself."""
    pieces = [ragged for tile in tiles for ragged in (tile.prefix, *(s.rows for s in tile.suffixes))]
    parts = iter(zip(*(t.split([ragged.rows for ragged in pieces]) for t in qkv), strict=True))
    out: list[Tensor] = []
    for tile in tiles:
        q, k, v = (tile.prefix.spread(t) for t in next(parts))
        if tile.prefix.rows:
            out.append(tile.prefix.gather(causal(q, k, v, rule)))
        for suffixes in tile.suffixes:
            own_q, own_k, own_v = (suffixes.rows.spread(t) for t in next(parts))
            if not tile.prefix.rows:
                out.append(suffixes.rows.gather(causal(own_q, own_k, own_v, rule)))
                continue
            own_k, own_v = join_prefix(k, suffixes.owner, own_k), join_prefix(v, suffixes.owner, own_v)
            mask = suffixes.mask if rule.window is None else suffixes.near
            out.append(suffixes.rows.gather(attention(own_q, own_k, own_v, rule, mask)))
    return torch.cat(out)


def _blocks(contexts: Sequence[Context]) -> list[_Block]:
    found = []
    for family in families(contexts):
        shared = family.shared if len(family.members) > 1 else 0
        if any(int(contexts[i].action_positions[0]) == 0 for i in family.members):
            raise UserError("the first token of a context is an action, so nothing predicts it; give the prompt at least one token")
        # The last action is predicted, but no row reads it or the tokens after it.
        suffixes = tuple((i, contexts[i].sequence[shared : contexts[i].action_positions[-1]]) for i in family.members)
        found.append(_Block(contexts[family.members[0]].sequence[:shared], suffixes))
    return found


def _tiled(blocks: Sequence[_Block]) -> list[list[_Block]]:
    """Groups blocks by similar length of prefix. Blocks without prefix form their own group."""
    blocks = sorted(blocks, key=lambda b: len(b.prefix))
    bounds = _similar([len(b.prefix) for b in blocks])
    return [list(blocks[start:end]) for start, end in bounds]


def _similar(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Cuts ascending lengths into ranges [start, end). The padding to the longest length of a range is small. Lengths of 0 form their own range.
    """
    cuts = [0]
    for end in range(1, len(lengths)):
        start = cuts[-1]
        used = sum(lengths[start : end + 1])
        padded = lengths[end] * (end + 1 - start)
        if padded > max(_WASTE * used, used + _FREE) or (lengths[start] == 0) != (lengths[end] == 0):
            cuts.append(end)
    return list(zip(cuts, [*cuts[1:], len(lengths)], strict=True)) if lengths else []


def _tile(
    prefixes: Sequence[np.ndarray],
    members: Sequence[tuple[int, int]],
    device: torch.device | str,
    dtype: torch.dtype,
    window: int | None,
) -> Tile:
    prefix = _ragged([len(p) for p in prefixes], device)
    suffixes = []
    for start, end in _similar([length for _, length in members]):
        rows = _ragged([length for _, length in members[start:end]], device)
        owner = torch.tensor([owner for owner, _ in members[start:end]])
        if rows.rows:
            suffixes.append(Suffixes(rows, owner.to(device), torch.tensor(prefix.lengths)[owner], prefix.length, window, dtype))
    return Tile(prefix, tuple(suffixes))


def _mask(shared: Tensor, prefix: int, suffix: int, window: int | None) -> Tensor:
    """Returns the mask of suffixes.

    A row attends to the first `shared` keys of its prefix, and to the keys of its suffix up to itself. All these keys must be within the window.
    """
    keys, own = torch.arange(prefix), torch.arange(suffix)
    after = seen(own, own, window)
    if bool((shared == prefix).all()):
        return torch.cat([seen(prefix + own, keys, window), after], 1)
    before = seen(shared.unsqueeze(1) + own, keys, window).masked_fill_(keys >= shared.view(-1, 1, 1), -torch.inf)
    return torch.cat([before, after.expand(len(shared), -1, -1)], -1).unsqueeze(1)


def _ragged(lengths: Sequence[int], device: torch.device | str) -> Ragged:
    length = max(lengths)
    if min(lengths) == length:
        return Ragged(tuple(lengths), length)
    inside = np.arange(length) < np.array(lengths)[:, None]
    slots = np.flatnonzero(inside)
    fill = np.zeros(inside.size, dtype=np.int64)
    fill[slots] = np.arange(len(slots))
    return Ragged(tuple(lengths), length, _on(slots, device), _on(fill, device))


def _prediction_rows(context: Context, prefix_row: int, suffix_row: int, prefix: int) -> np.ndarray:
    """Returns, for every action, the row at the position before the action.

    The row is in the prefix if the position is below the length of the prefix, else in the suffix.
    """
    before = context.action_positions - 1
    return np.where(before < prefix, prefix_row + before, suffix_row + before - prefix)


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)


def _on(array: np.ndarray, device: torch.device | str) -> Tensor:
    return torch.from_numpy(array.astype(np.int64)).to(device)
