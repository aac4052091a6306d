"""The decoder's arithmetic for the engine. The module reads prompts. Then each step computes the logits of the next token of every row.

The maths are as in `Decoder`, without gradient. One matrix product computes q, k and v. A second matrix product computes the MLP's gate and up.
Weights are collected once per call, because they change with every training step. Results are reproducible bit by bit for four reasons. Matrix
products run in blocks of allowed sizes (`blocks`). Attention over cached positions does not depend on padding (`cache`). The shape of a prompt's own
attention depends only on the prompt's length. In all other operations, the other rows have no effect on an element or a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.attention import attention, causal, seen
from gradus.policies.blocks import BASE, MENU, cut, even, menu
from gradus.policies.cache import Segment, Slots, segments, stable_step
from gradus.policies.config import Experts, Rule
from gradus.policies.decoder import Decoder, Layer, Rotation
from gradus.policies.elementwise import by_rows, tanh
from gradus.policies.experts import Mixture, assign, choose
from gradus.policies.graphs import Replayed, bucket
from gradus.policies.inputs import Inputs
from gradus.policies.products import Matrix

_PROMPT_STEP = 32  # a prompt's own attention is padded to a multiple of this
_CHUNK = 1024  # number of tokens of a prompt that are read at once, a multiple of the step


@dataclass(frozen=True)
class _Mixture:
    router: Matrix  # [in, experts], possibly padded with zero columns
    experts: Experts


@dataclass(frozen=True)
class _Weights:
    """The weights of one layer."""

    rule: Rule
    rope: int  # index of the layer's rotation
    norms: tuple[Tensor | None, ...]  # factors of the norms before and after the attention, and before and after the MLP; None: no norm
    qk_norms: tuple[Tensor, Tensor] | None
    qkv: Matrix
    qkv_bias: Tensor | None
    output: Matrix
    output_bias: Tensor | None
    gate_up: tuple[Matrix, ...]  # a single matrix; in a mixture, one matrix per expert
    gate_up_bias: Tensor | None
    down: tuple[Matrix, ...]
    down_bias: Tensor | None
    activation: Callable[[Tensor], Tensor]
    mixture: _Mixture | None = None
    steer: Callable[[Tensor], Tensor] | None = None  # applied to the layer's output, row by row

    @property
    def matrices(self) -> list[Matrix]:
        """Returns the matrices that multiply rows. In a mixture, the first expert stands for all experts, because they have equal shapes."""
        router = [] if self.mixture is None else [self.mixture.router]
        return [self.qkv, self.output, self.gate_up[0], self.down[0], *router]


@dataclass(frozen=True)
class Prompt:
    """A prefix that was read: its keys and values [layers, 2, kv_heads, length, head_dim], and the logits [vocab] of the next token."""

    kv: Tensor
    logits: Tensor


class Fused:
    """A decoder that is prepared for one call of the engine, for sequences of at most `context` tokens."""

    def __init__(self, decoder: Decoder, context: int) -> None:
        c = decoder.config
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.vocab, self.eps, self.window, self.logit_cap = c.vocab_size, c.rms_norm_eps, c.window, c.logit_cap
        self.embedding, self.embedding_scale = decoder.model.embed_tokens.weight, decoder.embedding_scale
        self.norm = decoder.model.norm.factor
        self.layers = [_fuse(layer) for layer in decoder.layers]
        self.head = Matrix(even(decoder.head_weight.t()))
        rotations = decoder.rotation(torch.arange(context, device=decoder.device))
        self.turns = [_turns(rotation, self.head_dim) for rotation in rotations]
        self.pairs = rotations[0][0].shape[-1]
        self.partner = _partner(self.pairs, self.head_dim, decoder.device)
        shaped = {w.shape: w for layer in self.layers for w in layer.matrices}  # block sizes depend on shapes only
        self.sizes = menu([*shaped.values(), self.head])
        self.blocks: dict[int, list[int]] = {}
        self.least = MENU[0]  # every size is a multiple of it; attention gets at least this many rows

    @cached_property
    def place_step(self) -> int | None:
        """Returns the step size (in positions) for reads from `Slots`; None if every step size changes the results."""
        shape = (self.heads, self.kv_heads, self.head_dim, self.least)
        return stable_step(*shape, self.embedding.dtype, self.embedding.device, torch.get_num_threads(), self.layers[0].rule)

    def slots(self, count: int, capacity: int) -> Slots:
        """Returns an empty cache."""
        return Slots(len(self.layers), count, self.kv_heads, capacity, self.head_dim, self.embedding, self.window)

    def step(
        self, slots: Slots, tokens: Tensor, positions: Tensor, segments: Sequence[Segment], inputs: Tensor | None = None
    ) -> Tensor:
        """Returns the logits [rows, vocab] after one more token per slot.

        `tokens` and `positions` are int64 [rows], where `rows` is an allowed block size. `inputs`: vectors [rows, hidden] in place of the embeddings; a
        row of NaN keeps the token's embedding.
        """
        x = self.embed(tokens) if inputs is None else self.given(tokens, inputs)
        turns = [table[positions].unbind(1) for table in self.turns]
        places = slots.places(positions)
        for index, w in enumerate(self.layers):
            q, k, v = self._inputs(w, x, turns[w.rope])
            slots.write(index, places, k, v)
            self._finish(w, x, slots.attend(index, q, segments, w.rule))
        return self._logits(x)

    def read(self, prefixes: Sequence[np.ndarray], given: Sequence[Inputs | None] = ()) -> list[Prompt]:
        """Reads prefixes together.

        The prefixes must have the same padded length (`padded`). The result of a prefix is the same, bit for bit, with any other prefixes.

        `given`: for each prefix the input vectors in place of the embeddings of some tokens. Long prefixes are read in chunks, so only the memory
        for keys and values grows with the length.
        """
        lengths = [len(p) for p in prefixes]
        tokens, kv = self._rows_of(prefixes)
        length = tokens.shape[1]
        hidden = None
        for start in range(0, length, _CHUNK):
            stop = min(start + _CHUNK, length)
            # The last chunk contains the ends of all prefixes, because chunks and padded lengths are multiples of the same step.
            ends = [i * (stop - start) + n - 1 - start for i, n in enumerate(lengths)] if stop == length else None
            hidden = self._read_chunk(tokens[:, start:stop], start, kv, ends, given)
        assert hidden is not None
        logits = self._logits(hidden)
        return [Prompt(kv[:, :, i, :, :n], logits[i]) for i, n in enumerate(lengths)]

    def every_logits(self, prefix: np.ndarray) -> Iterator[Tensor]:
        """Yields the logits after every token of a prefix except the last, in order, in blocks [n, vocab] of at most `BASE` rows."""
        tokens, kv = self._rows_of([prefix])
        for start in range(0, len(prefix) - 1, _CHUNK):
            stop = min(start + _CHUNK, tokens.shape[1])
            hidden = self._read_chunk(tokens[:, start:stop], start, kv, range(stop - start))
            assert hidden is not None
            wanted = min(stop, len(prefix) - 1) - start
            for first in range(0, wanted, BASE):
                rows = hidden[first : first + BASE]
                rows = F.pad(rows, (0, 0, 0, sum(cut(len(rows), self.sizes)) - len(rows)))
                yield self._logits(rows)[: min(BASE, wanted - first)]

    def _rows_of(self, prefixes: Sequence[np.ndarray]) -> tuple[np.ndarray, Tensor]:
        """Returns the padded prefixes int64 [count, length], and memory for their keys and values."""
        tokens = np.zeros((len(prefixes), padded(len(prefixes[0]))), dtype=np.int64)
        for i, prefix in enumerate(prefixes):
            tokens[i, : len(prefix)] = prefix
        return tokens, self.embedding.new_empty(len(self.layers), 2, len(prefixes), self.kv_heads, tokens.shape[1], self.head_dim)

    def _read_chunk(
        self, tokens: np.ndarray, start: int, kv: Tensor, ends: Sequence[int] | None, given: Sequence[Inputs | None] = ()
    ) -> Tensor | None:
        """Writes the keys and values of tokens [count, size], from position `start` on, into `kv`.

        Returns the last layer's output at the rows `ends`, with rows of padding up to an allowed block size. Returns None if `ends` is None.
        """
        count, size = tokens.shape
        rows, device = sum(cut(count * size, self.sizes)), self.embedding.device
        padding = np.zeros(rows - count * size, dtype=np.int64)
        positions = (torch.arange(rows, device=device).remainder_(size) + start).clamp_(max=len(self.turns[0]) - 1)
        turns = [table[positions].unbind(1) for table in self.turns]
        x = self.embed(torch.from_numpy(np.concatenate([tokens.ravel(), padding])).to(device))
        for i, inputs in enumerate(given):
            if inputs is not None:
                first, last = np.searchsorted(inputs.at, (start, start + size))
                rows_of = torch.from_numpy(i * size + inputs.at[first:last] - start).to(device)
                x[rows_of] = inputs.rows[first:last].to(x)
        for index, w in enumerate(self.layers):
            q, k, v = (t[: count * size].unflatten(0, (count, size)) for t in self._inputs(w, x, turns[w.rope]))
            kv[index, 0, :, :, start : start + size], kv[index, 1, :, :, start : start + size] = k.transpose(1, 2), v.transpose(1, 2)
            if w is self.layers[-1] and ends is None:
                return None
            attended = x.new_zeros(rows, self.heads, self.head_dim)
            read = _prompts(q, k, v, w.rule) if start == 0 else _later(q, kv[index, :, :, :, : start + size], w.rule)
            attended[: count * size] = read.flatten(0, 1)
            if w is self.layers[-1] and ends is not None:  # only these outputs of the last layer are needed
                chosen = F.pad(torch.tensor(ends, device=device), (0, sum(cut(len(ends), self.sizes)) - len(ends)))
                x, attended = x[chosen], attended[chosen]
            self._finish(w, x, attended)
        return x

    def given(self, tokens: Tensor, inputs: Tensor) -> Tensor:
        """Returns the vectors [rows, hidden] in `inputs`. A row of NaN is replaced by the token's embedding."""
        return torch.where(inputs.isnan().any(-1, keepdim=True), self.embed(tokens), inputs.to(self.embedding))

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns the embeddings [rows, hidden] of tokens [rows], in new memory."""
        x = F.embedding(tokens, self.embedding)
        return x if self.embedding_scale is None else x.mul_(self.embedding_scale)

    def product(self, x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
        """Computes x @ weight + bias in blocks of allowed sizes, so a row's bits do not depend on the other rows."""
        rows = x.shape[0]
        blocks = self.blocks.get(rows) or self.blocks.setdefault(rows, cut(rows, self.sizes))
        y = x @ weight if len(blocks) == 1 else torch.cat([piece @ weight for piece in x.split(blocks)])
        return y if bias is None else y.add_(bias)

    def _inputs(self, w: _Weights, x: Tensor, turns: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        joint = self.product(self._normed(x, w.norms[0]), w.qkv, w.qkv_bias).unflatten(-1, (-1, self.head_dim))
        both = self.heads + self.kv_heads
        qk, v = joint[:, :both], joint[:, both:]
        if w.qk_norms is not None:
            of_q, of_k = w.qk_norms
            qk = torch.cat([normed(qk[:, : self.heads], of_q, self.eps), normed(qk[:, self.heads :], of_k, self.eps)], 1)
        cos, sin = turns
        # Three operations with one rounding each, because a fused multiply-add rounds differently in a kernel's vector part and in its tail.
        partners = torch.roll(qk, self.head_dim // 2, -1) if self.partner is None else qk.index_select(-1, self.partner)
        turned = (qk * cos).add_(partners.mul_(sin))
        return turned[:, : self.heads], turned[:, self.heads :], v

    def _finish(self, w: _Weights, x: Tensor, attended: Tensor) -> None:
        """Adds the layer's output to x, in place."""
        x.add_(self._normed(self.product(attended.flatten(1), w.output, w.output_bias), w.norms[1]))
        x.add_(self._normed(self._mlp(w, self._normed(x, w.norms[2])), w.norms[3]))
        if w.steer is not None:
            x.copy_(w.steer(x))

    def _mlp(self, w: _Weights, x: Tensor) -> Tensor:
        if w.mixture is None:
            gate, up = self.product(x, w.gate_up[0], w.gate_up_bias).chunk(2, -1)
            return self.product(by_rows(w.activation, gate).mul_(up), w.down[0], w.down_bias)
        shares, indices = choose(self.product(x, w.mixture.router)[:, : w.mixture.experts.count], w.mixture.experts)
        rows, places, counts = assign(indices, w.mixture.experts.count)
        found = [self._expert(w, e, x.index_select(0, mine)) for e, mine in enumerate(rows.split(counts)) if len(mine)]
        each = torch.cat(found).index_select(0, places).unflatten(0, shares.shape).unbind(1)
        out = each[0] * shares[:, :1]
        for rank in range(1, len(each)):  # one rounding per operation, always in this order
            out = out.add_(each[rank] * shares[:, rank : rank + 1])
        return out.to(x.dtype)

    def _expert(self, w: _Weights, index: int, x: Tensor) -> Tensor:
        """Returns the output of one expert for rows [n, hidden].

        The output is computed in blocks of allowed sizes, so a row's bits do not depend on the expert's other rows.
        """
        count = len(x)
        padded_x = F.pad(x, (0, 0, 0, sum(cut(count, self.sizes)) - count))
        gate, up = self.product(padded_x, w.gate_up[index]).chunk(2, -1)
        return self.product(by_rows(w.activation, gate).mul_(up), w.down[index])[:count]

    def _normed(self, x: Tensor, factor: Tensor | None) -> Tensor:
        return x if factor is None else normed(x, factor, self.eps)

    def _logits(self, x: Tensor) -> Tensor:
        return self.head_logits(normed(x, self.norm, self.eps))

    def head_logits(self, x: Tensor) -> Tensor:
        """Maps normed vectors [rows, hidden] to logits [rows, vocab]."""
        logits = self.product(x, self.head)[:, : self.vocab].contiguous()
        if self.logit_cap is None:
            return logits
        wide = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
        return tanh(wide.div_(self.logit_cap)).mul_(self.logit_cap)


class PlainCache:
    """Slots for `count` sequences of up to `sequence` tokens, and their decoding step in PyTorch's operations."""

    def __init__(self, fused: Fused, count: int, *, sequence: int, context: int, graphs: bool = False) -> None:
        self.fused, self.capacity = fused, self._capacity(fused, sequence, context)
        self.slots = fused.slots(count, self.capacity)
        self.replayed = Replayed(partial(fused.step, self.slots), fused.embedding.device) if graphs else None

    @classmethod
    def slot_bytes(cls, fused: Fused, sequence: int, context: int) -> int:
        """Returns the memory of one slot in bytes."""
        capacity = cls._capacity(fused, sequence, context)
        return fused.embedding.element_size() * 2 * len(fused.layers) * fused.kv_heads * fused.head_dim * capacity

    @staticmethod
    def _capacity(fused: Fused, sequence: int, context: int) -> int:
        # If no step size gives equal bits, every read has the shape of the whole context. Then a read does not depend on the jobs.
        step = fused.place_step or -(-context // 64) * 64
        return -(-sequence // step) * step

    def __len__(self) -> int:
        return self.slots.kv.shape[2]

    def read(self, prefixes: Sequence[np.ndarray], given: Sequence[Inputs | None] = ()) -> list[Prompt]:
        """Reads prefixes that have the same padded length together."""
        return self.fused.read(prefixes, given)

    def fill(self, slot: int, prompt: Prompt) -> None:
        """Starts a sequence in the slot after the prefix `prompt`."""
        self.slots.fill(slot, prompt.kv)

    def clear(self, slot: int) -> None:
        """Empties the slot."""
        self.slots.clear(slot)

    def move(self, source: int, target: int, length: int) -> None:
        """Copies a sequence of `length` tokens to another slot."""
        self.slots.move(source, target, length)

    def take_over(self, other: PlainCache, used: int) -> None:
        """Copies the sequences in the first `used` slots of another cache with less room."""
        self.slots.take_over(other.slots, used)

    def step(self, tokens: np.ndarray, positions: np.ndarray, used: int, inputs: Tensor | None = None) -> Tensor:
        """Returns the logits [rows, vocab] after one more token in each of the first `used` slots.

        `tokens` and `positions` have length `rows`, which is an allowed block size. `inputs`: as in `Fused.step`.
        """
        attending = -(-used // self.fused.least) * self.fused.least
        step, device = self.fused.place_step or self.capacity, self.fused.embedding.device
        if self.replayed is not None and inputs is None:
            whole = (0, attending, bucket(int(positions[:attending].max()) + 1, step, self.capacity))
            return self.replayed(torch.from_numpy(tokens), torch.from_numpy(positions), (whole,))
        read = segments((positions[:attending] + 1).tolist(), step)
        return self.fused.step(self.slots, torch.from_numpy(tokens).to(device), torch.from_numpy(positions).to(device), read, inputs)


def padded(length: int) -> int:
    """Returns the padded length of a prefix of this length."""
    return -(-length // _PROMPT_STEP) * _PROMPT_STEP


def normed(x: Tensor, factor: Tensor, eps: float) -> Tensor:
    """Computes x / sqrt(mean(x^2) + eps) * factor over the last dimension, with the mean in float32 at least.

    `decoder.RMSNorm` computes the same with its own `factor`.
    """
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
    return scaled.mul_(factor).to(x.dtype) if factor.dtype == wide.dtype else scaled.to(x.dtype).mul_(factor)


def _prompts(q: Tensor, k: Tensor, v: Tensor, rule: Rule) -> Tensor:
    """Computes attention within prompts [count, length, heads, d]. The result of a prompt is the same, bit for bit, for any number of other prompts."""
    if rule.cap is None:
        return causal(q, k, v, rule)
    return torch.cat([causal(*one, rule) for one in zip(q.split(1), k.split(1), v.split(1), strict=True)])


def _later(q: Tensor, kv: Tensor, rule: Rule) -> Tensor:
    """Computes the attention of the last queries of some prompts [count, size, heads, d] to all keys of the same prompts.

    kv is [2, count, kv_heads, stop, d]. Each prompt is computed separately.
    """
    size, stop = q.shape[1], kv.shape[3]
    first = 0 if rule.window is None else max(0, stop - size - rule.window + 1)
    mask = seen(torch.arange(stop - size, stop), torch.arange(first, stop), rule.window).to(q.device, q.dtype)
    k, v = (t[:, :, first:].transpose(1, 2) for t in kv)
    return torch.cat([attention(*one, rule, mask) for one in zip(q.split(1), k.split(1), v.split(1), strict=True)])


def _turns(rotation: Rotation, head_dim: int) -> Tensor:
    """Returns two factors per dimension of a head: for the dimension itself and for its partner in the rotation. [context, 2, 1, head_dim]

    Dimensions without rotation have the factors 1 and 0.
    """
    cos, sin = rotation
    rest = head_dim - 2 * cos.shape[-1]
    return torch.stack([F.pad(torch.cat([cos, cos], -1), (0, rest), value=1.0), F.pad(torch.cat([-sin, sin], -1), (0, rest))], 1).unsqueeze(
        2
    )


def _partner(pairs: int, head_dim: int, device: torch.device) -> Tensor | None:
    """Returns, for each dimension, its partner in the rotation; None if the partner is always half a head away."""
    if 2 * pairs == head_dim:
        return None
    return torch.cat([torch.arange(2 * pairs).roll(pairs), torch.arange(2 * pairs, head_dim)]).to(device)


def _fuse(layer: Layer) -> _Weights:
    a, m = layer.self_attn, layer.mlp
    qkv, output = _join(*([a.qkv_proj] if a.fused else [a.q_proj, a.k_proj, a.v_proj])), _join(a.o_proj)
    after = layer.post_attention_layernorm
    inner = (after, layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm) if layer.post_norms else (None, after, None)
    norms = tuple(None if norm is None else norm.factor for norm in (layer.input_layernorm, *inner))
    qk_norms = (a.q_norm.factor, a.k_norm.factor) if a.qk_norm else None
    if isinstance(m, Mixture):
        gate_up, down = (tuple(Matrix(one.t()) for one in w) for w in (m.experts.gate_up_proj, m.experts.down_proj))
        mixture = _Mixture(Matrix(even(m.gate.weight.t())), m.gate.experts)
        return _Weights(layer.rule, layer.rope, norms, qk_norms, *qkv, *output, gate_up, None, down, None, m.activation, mixture, layer.steer)
    joint, joint_bias = _join(*([m.gate_up_proj] if m.fused else [m.gate_proj, m.up_proj]))
    down_one, down_bias = _join(m.down_proj)
    mlp = ((joint,), joint_bias, (down_one,), down_bias)
    return _Weights(layer.rule, layer.rope, norms, qk_norms, *qkv, *output, *mlp, m.activation, steer=layer.steer)


def _join(*linears: torch.nn.Linear) -> tuple[Matrix, Tensor | None]:
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    weight = torch.cat([linear.weight for linear in linears])
    return Matrix(weight.t()), torch.cat(biases) if biases else None
