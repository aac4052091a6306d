"""The backward pass in chunks of rows: equal to plain autograd for every family, layout and number of chunks, with small tensors only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from gradus.policies.lm import LanguageModel
from gradus.policies.pack import forward, pack
from gradus.policies.streamed import ordered
from gradus.types import Context, Key
from gradus.types.signals import EntropyOf, LogProb
from tests.policies.contexts import VOCAB, alone, group, mixed
from tests.policies.shapes import SHAPES, ours
from tests.policies.test_pack import decoder, gradient, packed_logprobs, plain_logprobs


def rows_of(contexts: list[Context], chunks: int) -> list[list[int]]:
    packed = pack(contexts)
    return [chunk.rows.tolist() for chunk in ordered(packed.spans, packed.positions, packed.read, chunks).chunks]


def one(length: int) -> Context:
    """A sequence of `length` packed tokens; the last token predicts nothing."""
    return alone(group(np.random.default_rng(length), 1, 2, length - 1, length - 1)[0])


def test_where_chunks_lie():
    assert rows_of([one(9)], 4) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]  # of ceil(9 / 4) rows
    assert rows_of([one(9)], 1) == [list(range(9))]
    assert rows_of([one(3)], 8) == [[0], [1], [2]]
    packed = pack(group(np.random.default_rng(0), 2, 4, 3, 3))  # a prefix of 4 rows and two suffixes of 2
    order = ordered(packed.spans, packed.positions, packed.read, 4)
    assert [chunk.past for chunk in order.chunks] == [(), ((0, 2),), ((0, 4),), ((0, 4),)]  # the second suffix does not see the first
    assert [chunk.reading.tolist() for chunk in order.chunks] == [[], [1], [0, 1], [0, 1]]
    assert [chunk.read.tolist() for chunk in order.chunks] == [[], [0], [1, 2], [3, 4]]


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("chunks", [1, 3, 5, 40])
def test_a_row_sees_the_rows_of_its_sequence_up_to_itself(chunks, window):
    contexts = mixed(np.random.default_rng(2))
    packed = pack(contexts)
    due = torch.zeros(len(packed.tokens), len(packed.tokens), dtype=torch.bool)
    for i in (i for i, c in enumerate(contexts) if c.actions):
        rows, _ = packed.rows(i, np.arange(len(contexts[i].sequence)))
        for at, row in enumerate(rows):
            due[row, rows[max(0, at + 1 - (window or at + 1)) : at + 1]] = True
    order = ordered(packed.spans, packed.positions, packed.read, chunks)
    places = torch.cat([chunk.rows for chunk in order.chunks])
    found = torch.zeros_like(due)
    for chunk in order.chunks:
        mask = order.mask(chunk, torch.arange(len(chunk.rows)), window, torch.float32)
        keys = torch.cat([places[a:b] for a, b in (*chunk.past, (chunk.start, chunk.stop))])
        assert set(mask.unique().tolist()) <= {0.0, -torch.inf}
        found[chunk.rows.unsqueeze(1), keys] = mask == 0
    assert torch.equal(found, due)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_plain_autograd_in_any_family(shape):
    """Experts, windows, capped scores and further norms included; prefixes are shared, ragged and absent."""
    rng = np.random.default_rng(8)
    network, contexts = ours(shape, torch.float64), [*mixed(rng), *group(rng, 3, 21, 2, 25)]
    plain = packed_logprobs(network, contexts)
    expected = gradient(network, plain)
    for chunks in (3, 7):
        found = packed_logprobs(network, contexts, chunks)
        assert_close(found, plain, atol=1e-12, rtol=0)
        assert_close(gradient(network, found), expected, atol=1e-12 * float(expected.abs().max()), rtol=0)


@pytest.mark.parametrize("chunks", [1, 2, 4, 37, 1000])
def test_float32_is_within_rounding_of_one_context_at_a_time(chunks):
    network, contexts = decoder(torch.float32), mixed(np.random.default_rng(1))
    found, plain = packed_logprobs(network, contexts, chunks), plain_logprobs(network, contexts)
    assert_close(found, plain, atol=1e-5, rtol=0)
    expected = gradient(network, plain)
    assert_close(gradient(network, found), expected, atol=1e-5 * float(expected.abs().max()), rtol=0)


def test_bfloat16_sums_gradients_in_float32():
    contexts = [one(300)]
    network = decoder(torch.float32)
    exact = gradient(network, packed_logprobs(network, contexts))
    half = decoder(torch.bfloat16)
    half.load_state_dict(network.state_dict())
    apart = [float((gradient(half, packed_logprobs(half, contexts, chunks)).float() - exact).norm() / exact.norm()) for chunks in (0, 300)]
    assert apart[1] < 1.1 * apart[0] < 0.05  # with sums in bfloat16 it would be 1.27


def test_losses_of_earlier_tokens_keep_their_gradient_if_later_tokens_have_weight_0():
    network, context = decoder(), one(30)
    rows = packed_logprobs(network, [context], 4)
    weights = torch.cos(torch.arange(len(rows), dtype=rows.dtype))
    weights[20:] = 0
    found = torch.autograd.grad((rows * weights).sum(), list(network.parameters()))
    end = int(context.action_positions[20])
    short = packed_logprobs(network, [Context(context.tokens[:end], context.chosen[:end])])  # without the later tokens
    due = torch.autograd.grad((short * weights[:20]).sum(), list(network.parameters()))
    for mine, theirs in zip(found, due, strict=True):
        assert_close(mine, theirs, atol=1e-12, rtol=0)


class Largest(TorchDispatchMode):
    """Notes the most rows of a tensor with as many columns as asked."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns, self.rows = columns, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in (t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, Tensor)):
            if tensor.ndim > 1 and tensor.shape[-1] == self.columns and tensor.shape[-2] != 32:  # 32 is the width: a transposed weight
                self.rows = max(self.rows, tensor.shape[:-1].numel())
        return out


@pytest.mark.parametrize(("length", "chunks"), [(64, 8), (61, 8), (61, 1), (10, 4)])
@pytest.mark.parametrize("columns", [VOCAB, 48])
def test_no_tensor_of_logits_or_inside_an_mlp_has_more_rows_than_a_chunk(length, chunks, columns):
    model = LanguageModel(decoder(), None, (), recompute=chunks)
    contexts = [Context((context := one(length)).tokens, np.arange(length + 1) > 0)]  # as many actions as rows
    with Largest(columns) as seen:
        rows = model.evaluate(contexts, (LogProb(), EntropyOf()))
        (rows[LogProb()].sum() + rows[EntropyOf()].sum()).backward()
    assert context.actions
    assert seen.rows == -(-length // chunks)


def test_only_weights_that_learn_get_gradients():
    model = LanguageModel(decoder(), None, ()).with_adapter(2, 4.0, Key(1))
    with torch.no_grad():
        for name, p in model.trunk.named_parameters():
            if p.requires_grad:
                p.add_(torch.from_numpy(Key(3).fold(name).normal(*p.shape)) * 0.1)
    contexts, found = mixed(np.random.default_rng(4)), []
    for chunks in (0, 5):
        model.trunk.zero_grad()
        hidden = forward(model.trunk, pack(contexts, dtype=torch.float64), recompute=chunks)
        (hidden * torch.cos(torch.arange(hidden.numel(), dtype=hidden.dtype)).view_as(hidden)).sum().backward()
        found.append({name: p.grad for name, p in model.trunk.named_parameters()})
    assert {name for name, grad in found[1].items() if grad is not None} == {n for n, p in model.trunk.named_parameters() if p.requires_grad}
    for name, grad in found[0].items():
        assert grad is None or torch.allclose(grad, found[1][name], atol=1e-12, rtol=1e-10), name


def test_rows_without_gradient_are_those_with_gradient():
    """Otherwise the ratio of the first update would not be exactly 1."""
    network, contexts = decoder(torch.float32), mixed(np.random.default_rng(6))
    moving = packed_logprobs(network, contexts, 3)
    with torch.no_grad():
        assert torch.equal(packed_logprobs(network, contexts, 3), moving)
