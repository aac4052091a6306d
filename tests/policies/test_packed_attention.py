"""The compiled attention of packed rows against PyTorch's operations in float64: forward, backward, every rule, any number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gradus.policies import pack
from gradus.policies.config import Rule
from gradus.policies.fused import rotate
from gradus.policies.kernels import kernels
from gradus.policies.packed_attention import Spans, packed_attention
from gradus.types import Context

GROUPS = ((20, (3, 17, 40)), (33, (5, 1, 9, 70)), (7, (12,)), (16, (16, 16)), (1, (2, 1)))  # prefixes, and the suffixes of each
RULES = {
    "every head its own keys": (2, 2, 64, 32, Rule(0.125)),
    "heads share keys": (4, 2, 16, 8, Rule(0.25)),
    "a width that fills no vector, a quarter turned": (4, 1, 24, 3, Rule(0.2)),
    "a window": (2, 1, 32, 16, Rule(0.2, window=11)),
    "a cap": (2, 2, 8, 4, Rule(0.3, cap=5.0)),
    "wide heads, window and cap": (4, 2, 128, 64, Rule(0.09, cap=3.0, window=30)),
}

pytestmark = pytest.mark.skipif(kernels() is None, reason="the kernels were not built; a C compiler was missing")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def contexts() -> list[Context]:
    rng, made = np.random.default_rng(0), []
    for length, news in GROUPS:
        prefix = rng.integers(1, 50, length).astype(np.int32)
        for new in news:
            tokens = np.concatenate([prefix, rng.integers(1, 50, new).astype(np.int32)])
            nothing = {"logprobs": np.zeros(new, np.float32), "versions": np.zeros(new, np.int32), "temperature": 1.0}
            made.append(Context(tokens=tokens, chosen=np.arange(length + new) >= length, **nothing))
    return made


def inputs(heads: int, kv_heads: int, dim: int, pairs: int, rows: int) -> tuple[list[Tensor], Tensor, tuple[Tensor, Tensor]]:
    """q, k and v; a gradient of the output; cos and sin."""
    draw = torch.Generator().manual_seed(heads * dim)
    q, k, v, grad = (torch.randn(rows, h, dim, generator=draw, dtype=torch.float64) for h in (heads, kv_heads, kv_heads, heads))
    angles = torch.randn(rows, pairs, generator=draw, dtype=torch.float64)
    return [q, k, v], grad, (angles.cos(), angles.sin())


@pytest.mark.parametrize("rule", RULES)
def test_output_and_gradients_are_those_of_plain_operations_at_any_number_of_threads(rule: str):
    *shape, how = RULES[rule]
    packed = pack.pack(contexts(), dtype=torch.float64, window=how.window)
    given, grad, rotation = inputs(*shape, rows=len(packed.tokens))
    plain = [t.clone().requires_grad_() for t in given]
    expected = pack.attend((rotate(plain[0], rotation), rotate(plain[1], rotation), plain[2]), packed.tiles, how)
    expected.backward(grad)
    found = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        own = [t.float().requires_grad_() for t in given]
        out = packed_attention(*own, tuple(t.float() for t in rotation), packed.spans, how)
        out.backward(grad.float())
        found[threads] = [out, *(t.grad for t in own)]
        for ours, theirs in zip(found[threads], [expected, *(t.grad for t in plain)], strict=True):
            assert_close(ours.double(), theirs, atol=1e-5, rtol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(found[1], found[2], strict=True))


def test_rows_may_lie_apart():
    """As q, k and v that come out of one product do."""
    packed = pack.pack(contexts())
    (q, k, v), _, rotation = inputs(2, 1, 16, 8, rows=len(packed.tokens))
    joint = torch.cat([q.flatten(1), k.flatten(1), v.flatten(1)], 1).float().unflatten(1, (4, 16))
    turns = tuple(t.float() for t in rotation)
    apart = packed_attention(*joint.split([2, 1, 1], 1), turns, packed.spans, Rule(0.25))
    assert torch.equal(apart, packed_attention(q.float(), k.float(), v.float(), turns, packed.spans, Rule(0.25)))


def test_where_rows_lie():
    packed = pack.pack(contexts())
    assert sorted(packed.spans.blocks[:, 1].tolist()) == [0, 1, 16, 20, 33]  # a prefix of one context is no prefix
    covered = [(row, n) for row, n in [*packed.spans.blocks[:, :2].tolist(), *packed.spans.suffixes.tolist()] if n]
    ends = sorted((row, row + n) for row, n in covered)
    assert [end for _, end in ends] == [*(start for start, _ in ends[1:]), len(packed.tokens)]
    assert Spans(np.array([[0, 17, 0, 2]]), np.array([[17, 3], [20, 40]])).places == 32 + 48
