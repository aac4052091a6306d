"""Prefix Grouper: one row of blocks against copies of the prompt and against a mask, unequal answers, and the counts of the docstring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.prefix_grouper import prefix_grouper
from gradus.policies import pack
from gradus.policies.decoder import MLP
from gradus.policies.lm import LanguageModel
from gradus.recipe.core import changes
from gradus.testing.methods import check_same_update
from gradus.types import Context
from gradus.types.signals import LogProb
from tests.policies.contexts import group, sample
from tests.policies.test_pack import decoder, gradient, packed_logprobs, plain_logprobs


def answers(*lengths, prompt=12, seed=0):
    rng = np.random.default_rng(seed)
    parent = group(rng, 1, prompt, 1, 1)[0].parent
    return [sample(rng, parent, n) for n in lengths]


def masked_logprobs(network, contexts):
    """One row [prompt | answer 1 | ... | answer G] under one block mask, with positions that go on from the prompt for every answer."""
    prompt = contexts[0].prefix
    pieces = [prompt, *(c.tokens for c in contexts)]
    tokens = torch.from_numpy(np.concatenate(pieces).astype(np.int64))
    owner = np.repeat(np.arange(len(pieces)), [len(p) for p in pieces])
    positions = np.concatenate([np.arange(len(prompt)), *(len(prompt) + np.arange(len(c.tokens)) for c in contexts)])
    seen = ((owner[None] == 0) | (owner[None] == owner[:, None])) & (np.arange(len(owner))[None] <= np.arange(len(owner))[:, None])
    hidden = torch.zeros(seen.shape, dtype=network.dtype).masked_fill(torch.from_numpy(~seen), -torch.inf)
    x, rotation = network.embed(tokens), network.rotation(torch.from_numpy(positions))
    for layer in network.layers:
        q, k, v = layer.attn_inputs(x, rotation)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * layer.rule.scale + hidden
        x = layer.finish(x, torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
    logp = torch.log_softmax(network.model.norm(x) @ network.head_weight.T, -1)
    starts = np.cumsum([len(p) for p in pieces])
    rows = [np.concatenate([[len(prompt) - 1], np.arange(a, a + len(c.tokens) - 1)]) for a, c in zip(starts, contexts, strict=False)]
    return torch.cat([logp[torch.from_numpy(r), torch.from_numpy(c.tokens.astype(np.int64))] for r, c in zip(rows, contexts, strict=True)])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_log_probs_and_gradients_are_those_of_copied_prompts_and_of_one_mask(dtype, tolerance):
    network, contexts = decoder(dtype), answers(3, 9, 1, 6)
    found = packed_logprobs(network, contexts)
    mine = gradient(network, found)
    for due in (plain_logprobs(network, contexts), masked_logprobs(network, contexts)):
        assert_close(found, due, atol=tolerance, rtol=0)
        expected = gradient(network, due)
        assert_close(mine, expected, atol=tolerance * max(1.0, float(expected.abs().max())), rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # with the compiled kernels, and with PyTorch's operations
def test_an_answer_does_not_see_the_others_and_sees_the_prompt(dtype):
    network, contexts = decoder(dtype), answers(6, 8, 6)

    def found(changed):
        return [row.detach() for row in packed_logprobs(network, changed).split([6, 8, 6])]

    def other(context, at):
        tokens = context.tokens.copy()
        tokens[at] = 3 if tokens[at] != 3 else 4
        return Context(tokens, context.chosen, parent=context.parent)

    before = found(contexts)
    after = found([other(contexts[0], 2), *contexts[1:]])
    assert not torch.equal(after[0], before[0])
    assert torch.equal(after[0][:2], before[0][:2])  # the tokens before the change
    assert torch.equal(after[1], before[1])
    assert torch.equal(after[2], before[2])
    prompt = other(contexts[0].parent[0], 0)
    moved = found([Context(c.tokens, c.chosen, parent=(prompt, 12)) for c in contexts])
    assert all(bool((a != b).all()) for a, b in zip(moved, before, strict=True))


def test_180_tokens_through_the_mlp_and_not_880(monkeypatch):
    rows = []
    monkeypatch.setattr(MLP, "forward", lambda self, x, plain=MLP.forward: rows.append(len(x)) or plain(self, x))
    contexts = answers(*[11] * 8, prompt=100)  # the last token of an answer is never an input, so 10 tokens of each are rows
    model = LanguageModel(decoder(), None, ())
    model.evaluate(contexts, (LogProb(),))
    assert rows == [180, 81]  # the last layer ends at the rows that predict: 1 of the prompt, and 10 of each answer
    rows.clear()
    for context in contexts:
        model.evaluate([context], (LogProb(),))
    assert sum(rows[::2]) == 880


def test_the_prompt_collects_the_gradients_of_all_answers():
    """The first token of every answer is predicted by the same row, the last of the prompt."""
    network, contexts = decoder(), answers(1, 1, 1, 1)
    packed = pack.pack(contexts, dtype=torch.float64)
    assert (len(packed.tokens), len(packed.read), packed.source.tolist()) == (12, 1, [0, 0, 0, 0])
    alone = sum(gradient_of_sum(network, [c]) for c in contexts)
    assert_close(gradient_of_sum(network, contexts), alone, atol=1e-12, rtol=0)


def gradient_of_sum(network, contexts):
    return torch.cat([g.flatten() for g in torch.autograd.grad(packed_logprobs(network, contexts).sum(), list(network.parameters()))])


def test_the_recipe_is_grpo_with_larger_micro_batches():
    assert changes(grpo, prefix_grouper) == {"setting.micro_tokens": 16384}
    check_same_update(prefix_grouper, grpo, steps=2)
