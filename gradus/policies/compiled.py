"""Decoding by compiled kernels, for float32 and bfloat16 on a CPU.

If several sequences share a prefix, the prefix is stored only once, and one read from memory is enough for several of these sequences.

A step has four matrix products per layer, in blocks of allowed sizes (see `blocks`). A kernel follows each product. `decoding.PlainCache` does the same with
PyTorch's operations, for every other type, device and network. For narrow models, PyTorch's separate operations between the products take three times as long
as the products. The compiled kernels take only about the time of the products.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.blocks import cut
from gradus.policies.decoding import Fused, Prompt
from gradus.policies.fused import GATES
from gradus.policies.inputs import Inputs
from gradus.policies.kernels import FOUR, WIDE, LayerOf, kernels, whole
from gradus.policies.products import Matrix

_GRAIN = 16384  # each thread gets at least this many numbers


def fits(fused: Fused) -> bool:
    """Whether the kernels are installed and support this network."""
    plain = all(w.mixture is None and w.steer is None and w.activation in GATES for w in fused.layers)
    dtype = fused.embedding.dtype
    alike = dtype in (torch.float32, torch.bfloat16) and fused.norm.dtype == dtype  # a norm with an offset has a factor in float32
    return plain and alike and fused.embedding.device.type == "cpu" and kernels() is not None


@dataclass(frozen=True, eq=False)
class Shared:
    """A prefix in the layout of the kernels, [layers, 2, kv_heads, places * dim].

    For each layer, the keys come first, in blocks of positions. The values follow.
    """

    kv: Tensor
    length: int
    places: int
    logits: Tensor  # [vocab] of the next token


class CompiledCache:
    """Slots for `count` sequences, and their decoding step.

    A slot has room for a prefix of up to `prefix` tokens and up to `own` tokens after it.
    """

    def __init__(self, fused: Fused, count: int, *, prefix: int, own: int) -> None:
        library = kernels()
        assert library is not None
        self.fused, self.library, self.threads = fused, library, torch.get_num_threads()
        f, width, dtype = fused, fused.heads * fused.head_dim, fused.embedding.dtype
        self.narrow = int(dtype == torch.bfloat16)
        self.padded, self.capacity, self.stride = whole(f.head_dim), whole(own), whole(prefix) + whole(own)
        self.own = torch.zeros(len(f.layers), 2, count, f.kv_heads, self.capacity * self.padded, dtype=dtype)
        self.prompts: list[Shared | None] = [None] * count
        self.prefixes = np.zeros((count, 3), np.int64)  # `prefix_t`: address, length, places
        self.arranged: tuple[int, np.ndarray, np.ndarray] | None = None  # number of slots, their order, starts of blocks with equal prefixes
        hidden, inner, joint = f.embedding.shape[1], f.layers[0].down[0].shape[0], width + 2 * f.kv_heads * f.head_dim
        self.joint, self.attended = torch.zeros(count, joint, dtype=dtype), torch.zeros(count, width, dtype=dtype)
        self.normed, self.added = torch.zeros(count, hidden, dtype=dtype), torch.zeros(count, hidden, dtype=dtype)
        self.gate_up, self.gated = torch.zeros(count, 2 * inner, dtype=dtype), torch.zeros(count, inner, dtype=dtype)
        self.queries = torch.zeros(count, joint) if self.narrow else None
        self.scratch = torch.zeros(self.threads * FOUR * (self.stride + 2 * self.padded))
        self.floats: dict[int, Tensor] = {}  # norms, biases and rotations in float32, by the address of the original
        self.specs = [self._spec(index) for index in range(len(f.layers))]

    @staticmethod
    def slot_bytes(fused: Fused, own: int) -> int:
        """Returns the memory of one slot in bytes."""
        return 2 * fused.embedding.element_size() * len(fused.layers) * fused.kv_heads * whole(own) * whole(fused.head_dim)

    def __len__(self) -> int:
        return len(self.prompts)

    def read(self, prefixes: Sequence[np.ndarray], given: Sequence[Inputs | None] = ()) -> list[Shared]:
        """Reads prefixes that have the same padded length together."""
        return [_shared(prompt) for prompt in self.fused.read(prefixes, given)]

    def fill(self, slot: int, prompt: Shared) -> None:
        """Starts a sequence in the slot. The sequence continues the prefix `prompt`."""
        self.prompts[slot] = prompt
        self.prefixes[slot] = prompt.kv.data_ptr(), prompt.length, prompt.places
        self.arranged = None

    def clear(self, slot: int) -> None:
        """Empties the slot."""
        self.prompts[slot], self.prefixes[slot], self.arranged = None, 0, None  # the address is cleared because its memory may be freed

    def move(self, source: int, target: int, length: int) -> None:
        """Copies a sequence of `length` tokens, including its prefix, to another slot."""
        filled = whole(length - int(self.prefixes[source, 1])) * self.padded  # the layouts of keys and of values are both ordered by place
        self.own[:, :, target, :, :filled] = self.own[:, :, source, :, :filled]
        self.prompts[target], self.prefixes[target], self.arranged = self.prompts[source], self.prefixes[source], None

    def take_over(self, other: CompiledCache, used: int) -> None:
        """Copies the sequences in the first `used` slots of another cache with less room."""
        filled = other.own.shape[-1]
        self.own[:, :, :used, :, :filled] = other.own[:, :, :used]
        self.prompts[:used], self.prefixes[:used], self.arranged = other.prompts[:used], other.prefixes[:used], None

    def step(self, tokens: np.ndarray, positions: np.ndarray, used: int, inputs: Tensor | None = None) -> Tensor:
        """Returns the logits [rows, vocab] after one more token in each of the first `used` slots.

        `tokens` and `positions` have length `rows`, which is an allowed block size. `inputs`: as in `Fused.step`.
        """
        f, rows, call = self.fused, len(tokens), self.library
        order, starts = self._arrange(used)
        x = f.embed(torch.from_numpy(tokens)) if inputs is None else f.given(torch.from_numpy(tokens), inputs).contiguous()
        hidden, blocks = x.shape[1], cut(rows, f.sizes)
        threads = max(1, min(self.threads, rows * hidden // _GRAIN))
        attended, normed, gated = self.attended[:rows], self.normed[:rows], self.gated[:rows]
        to_x, to_normed = x.data_ptr(), normed.data_ptr()
        where = (positions.ctypes.data, self.prefixes.ctypes.data, order.ctypes.data, starts.ctypes.data, len(starts) - 1)
        size = (rows, hidden, f.eps, threads, self.narrow)
        call.gradus_add_norm(to_x, None, None, None, self._float(f.layers[0].norms[0]), to_normed, *size)
        for index, w in enumerate(f.layers):
            joint = _product(normed, w.qkv, self.joint[:rows], blocks)
            queries = joint if self.queries is None else self.queries
            given = (ctypes.byref(self.specs[index]), index, joint.data_ptr(), queries.data_ptr(), attended.data_ptr())
            call.gradus_attend(*given, *where, self.scratch.data_ptr(), self.stride, self.threads, self.narrow)
            added = _product(attended, w.output, self.added[:rows], blocks)
            _, after, before_mlp, after_mlp = map(self._float, w.norms)
            call.gradus_add_norm(to_x, added.data_ptr(), self._float(w.output_bias), after, before_mlp, to_normed, *size)
            gate_up = _product(normed, w.gate_up[0], self.gate_up[:rows], blocks)
            gate = (self._float(w.gate_up_bias), gated.data_ptr(), rows, gated.shape[1], GATES[w.activation], threads, self.narrow)
            call.gradus_gated(gate_up.data_ptr(), *gate)
            added = _product(gated, w.down[0], self.added[:rows], blocks)
            following = self._float(f.layers[index + 1].norms[0] if index + 1 < len(f.layers) else f.norm)
            call.gradus_add_norm(to_x, added.data_ptr(), self._float(w.down_bias), after_mlp, following, to_normed, *size)
        return f.head_logits(normed)

    def _spec(self, index: int) -> LayerOf:
        f, w = self.fused, self.fused.layers[index]
        q_norm, k_norm = w.qk_norms or (None, None)
        return LayerOf(
            heads=f.heads, kv_heads=f.kv_heads, dim=f.head_dim, padded=self.padded, turned=f.pairs, window=w.rule.window or 0,
            scale=w.rule.scale, cap=w.rule.cap or 0.0, eps=f.eps, bias=self._float(w.qkv_bias), q_norm=self._float(q_norm),
            k_norm=self._float(k_norm), turns=self._float(f.turns[w.rope]), keys=self.own[index, 0].data_ptr(),
            values=self.own[index, 1].data_ptr(), capacity=self.capacity,
        )  # fmt: skip

    def _float(self, tensor: Tensor | None) -> int | None:
        """Returns the address of the numbers of a small tensor in float32; None for None."""
        if tensor is None:
            return None
        if tensor.dtype == torch.float32:
            return tensor.data_ptr()
        if tensor.data_ptr() not in self.floats:
            self.floats[tensor.data_ptr()] = tensor.float().contiguous()
        return self.floats[tensor.data_ptr()].data_ptr()

    def _arrange(self, used: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the slots sorted by prefix, and the starts of blocks. A block has at most FOUR slots with the same prefix."""
        if self.arranged is None or self.arranged[0] != used:
            prefix = self.prefixes[:used, 0]
            order = np.argsort(prefix, kind="stable")
            ends = [*(np.flatnonzero(np.diff(prefix[order])) + 1), used]
            starts = [start for first, end in zip([0, *ends], ends) for start in range(first, end, FOUR)]
            self.arranged = used, order, np.array([*starts, used])
        return self.arranged[1:]


def _shared(prompt: Prompt) -> Shared:
    length, dim = prompt.kv.shape[-2:]
    places = whole(length)
    kv = F.pad(prompt.kv, (0, whole(dim) - dim, 0, places - length))
    keys = kv[:, 0].unflatten(2, (-1, WIDE)).transpose(3, 4).flatten(2)
    return Shared(torch.stack([keys, kv[:, 1].flatten(2)], 1), length, places, prompt.logits)


def _product(x: Tensor, weight: Matrix, out: Tensor, blocks: Sequence[int]) -> Tensor:
    """Returns x @ weight in blocks of allowed sizes, in the memory of `out` if the library allows it."""
    if len(blocks) == 1:
        return weight.into(x, out)
    return torch.cat([rows @ weight for rows in x.split(blocks)], out=out)
