"""Every reader against the plain formula over the full logits, states and attention weights of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies import logprobs
from gradus.policies.lm import LanguageModel
from gradus.policies.opened import layer_index
from gradus.policies.transformers_model import Foreign
from gradus.types import Context, Frozen, Key, UserError
from gradus.types.readers import (
    AttentionStat,
    Hidden,
    LastLayer,
    LogProbsOf,
    LogSumExp,
    LookBack,
    MaxProb,
    MeanOverVocabulary,
    SelfCertainty,
)
from gradus.types.signals import EntropyOf, LogProb
from tests.policies.contexts import VOCAB, mixed
from tests.policies.shapes import fields, ours, theirs

SHAPES = ("llama", "qwen3", "qwen2", "gemma2", "mixtral")
LAYERS = (0, 1, -2, -1)


def candidates(contexts: list[Context]) -> list[Context]:
    """The contexts with a stream of three candidate tokens an action."""
    rng = np.random.default_rng(9)
    given = [rng.integers(0, VOCAB, (c.actions, 3)).astype(np.int32) for c in contexts]
    return [
        Context(c.tokens.copy(), c.chosen.copy(), temperature=c.temperature, parent=c.parent, streams=Frozen({"candidates": rows}))
        for c, rows in zip(contexts, given, strict=True)
    ]


CONTEXTS = candidates(mixed(np.random.default_rng(0)))
ACTING = [c for c in CONTEXTS if c.actions]


def built(shape: str) -> LanguageModel:
    return LanguageModel(ours(shape, torch.float64), None, ())


def foreign(shape: str) -> LanguageModel:
    return LanguageModel(Foreign(theirs(fields(shape)).double()), None, ())


def full(shape: str):
    """Per context with actions: logits at its temperature [A, V], all hidden states [layers + 1, T, d], attention [layers, heads, T, T]."""
    model = theirs(fields(shape)).double()
    out = []
    for c in ACTING:
        tokens = torch.from_numpy(c.sequence.astype(np.int64))[None]
        found = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")  # it has weights, but takes its softmax in float32
        attention = model(input_ids=tokens, output_attentions=True, use_cache=False).attentions
        model.set_attn_implementation(before)
        at = torch.from_numpy(c.action_positions)
        logits = found.logits[0, at - 1] / c.temperature
        out.append((c, at, logits, torch.stack([h[0] for h in found.hidden_states]), torch.stack([a[0] for a in attention])))
    return out


def directly(shape: str) -> dict:
    """The rows of every reader by its formula."""
    parts: dict = {}

    def add(want, rows):
        parts.setdefault(want, []).append(rows)

    for c, at, logits, states, attention in full(shape):
        logp = logits.log_softmax(-1)
        count = len(at)
        add(MaxProb(), logp.exp().max(-1).values)
        add(LogSumExp(), logits.exp().sum(-1).log())
        add(MeanOverVocabulary(), logp.mean(-1))
        add(SelfCertainty(), -(VOCAB * logp.exp()).log().mean(-1))
        add(LogProbsOf(), logp.gather(1, torch.from_numpy(c.streams["candidates"].astype(np.int64))))
        for layer in LAYERS:
            add(Hidden(layer), states[layer][at - 1])
        add(Hidden(1, "mean"), states[1][at - 1].mean(0).expand(count, -1))
        add(Hidden(-1, "last"), states[-1][at[-1] - 1].expand(count, -1))
        top = logp.exp().topk(4)
        add(LastLayer(4), torch.cat([states[-1][at - 1], top.values, top.indices.double()], 1))
        taken = torch.from_numpy(c.sequence.astype(np.int64))[at]
        others = logp.exp().scatter(1, taken[:, None], -1.0).topk(3)
        chances = torch.cat([logp.exp().gather(1, taken[:, None]), others.values], 1)
        add(LastLayer(4, action=True), torch.cat([states[-1][at - 1], chances, taken[:, None].double(), others.indices.double()], 1))
        t = torch.arange(attention.shape[-1])
        back = (t[:, None] - t).clamp(0, 5)
        add(AttentionStat((0, -1), LookBack(5)), (attention[[0, -1]] * back).sum(-1).mean((0, 1))[at])
    return {want: torch.cat(rows) for want, rows in parts.items()}


WANTS = (
    MaxProb(),
    LogSumExp(),
    MeanOverVocabulary(),
    SelfCertainty(),
    LogProbsOf(),
    *(Hidden(layer) for layer in LAYERS),
    Hidden(1, "mean"),
    Hidden(-1, "last"),
    LastLayer(4),
    LastLayer(4, action=True),
    AttentionStat((0, -1), LookBack(5)),
)


@pytest.fixture(params=["whole", "chunks of 3"])
def chunks(request, monkeypatch):
    if request.param != "whole":
        monkeypatch.setattr(logprobs, "_CELLS", 3 * VOCAB)
        monkeypatch.setattr(logprobs, "_ROWS", 1)


def collected(model: LanguageModel, batches) -> dict:
    """The rows of all readers over micro-batches, in order of the contexts with actions."""
    pieces: dict = {}
    for batch in batches:
        found = model.evaluate([CONTEXTS[i] for i in batch], WANTS)
        for want, rows in found.items():
            for i, piece in zip([i for i in batch if CONTEXTS[i].actions], rows.split([n for i in batch if (n := CONTEXTS[i].actions)]), strict=True):
                pieces.setdefault(want, {})[i] = piece
    return {want: torch.cat([rows[i] for i in sorted(rows)]) for want, rows in pieces.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_reader_equals_its_formula_over_transformers(shape, chunks):
    with torch.no_grad():
        due, model = directly(shape), built(shape)
        for batches in ([range(len(CONTEXTS))], model.micro_batches(CONTEXTS, 40), [[i] for i in range(len(CONTEXTS))]):
            found = collected(model, batches)
            assert found.keys() == due.keys()
            for want, rows in found.items():
                # the angles of rotations are float32 on both sides, by different programs; the next test but one goes to 1e-10
                assert_close(rows, due[want], atol=4e-6, rtol=1e-6, msg=lambda text, want=want: f"{want}: {text}")


@pytest.mark.parametrize("shape", ["llama", "qwen3"])
def test_a_model_of_transformers_gives_the_same_rows(shape, chunks):
    with torch.no_grad():
        due, model = directly(shape), foreign(shape)
        found = collected(model, [range(len(CONTEXTS))])
        for want, rows in found.items():
            assert_close(rows, due[want], atol=1e-10, rtol=1e-10, msg=lambda text, want=want: f"{want}: {text}")
    assert model.trunk.inner.config._attn_implementation != "eager"  # put back


@pytest.mark.parametrize("recompute", [0, 1, 3])
def test_gradients_equal_those_of_the_formulas(chunks, recompute):
    """Through our decoder's own full forward, one context at a time."""
    model = LanguageModel(ours("gemma2", torch.float64), None, (), recompute=recompute)
    wants = (MaxProb(), LogSumExp(), MeanOverVocabulary(), SelfCertainty(), LogProbsOf(), Hidden(-1), Hidden(0), LogProb(), EntropyOf())
    found = model.evaluate(CONTEXTS, wants)
    plain: dict = {want: [] for want in wants}
    for c in ACTING:
        tokens, at = torch.from_numpy(c.sequence.astype(np.int64)), torch.from_numpy(c.action_positions)
        logits = model.trunk(tokens[None])[0, at - 1] / c.temperature
        logp = logits.log_softmax(-1)
        plain[MaxProb()].append(logp.exp().max(-1).values)
        plain[LogSumExp()].append(logits.logsumexp(-1))
        plain[MeanOverVocabulary()].append(logp.mean(-1))
        plain[SelfCertainty()].append(-logp.mean(-1) - np.log(VOCAB))
        plain[LogProbsOf()].append(logp.gather(1, torch.from_numpy(c.streams["candidates"].astype(np.int64))))
        plain[Hidden(-1)].append(model.trunk.hidden(tokens[None])[0, at - 1])
        plain[Hidden(0)].append(model.trunk.embed(tokens)[at - 1])
        plain[LogProb()].append(logp.gather(1, tokens[at, None])[:, 0])
        plain[EntropyOf()].append(-(logp.exp() * logp).sum(1))
    parameters = list(model.network.parameters())
    for want in wants:
        due = torch.cat(plain[want])
        assert_close(found[want], due, atol=1e-10, rtol=1e-10)
        factor = torch.cos(torch.arange(due.numel(), dtype=due.dtype)).view_as(due)
        mine = torch.autograd.grad((found[want] * factor).sum(), parameters, retain_graph=True, allow_unused=True)
        theirs_ = torch.autograd.grad((due * factor).sum(), parameters, retain_graph=True, allow_unused=True)
        assert any(g is not None and bool(g.any()) for g in theirs_)
        for a, b in zip(mine, theirs_, strict=True):
            a, b = (torch.zeros(()) if g is None else g for g in (a, b))
            assert_close(a.expand_as(b) if a.ndim == 0 else a, b.expand_as(a) if b.ndim == 0 else b, atol=1e-9, rtol=1e-9, check_dtype=False)


def test_the_states_of_every_token_with_their_contexts():
    for model in (built("llama"), foreign("llama")):
        prompt = CONTEXTS[1].parent[0]  # nothing in it was chosen
        with torch.no_grad():
            states, owner = model.opened([CONTEXTS[0], prompt, CONTEXTS[2]], frozenset({"states"})).states(1)
            each = [model.opened([c], frozenset()).states(1)[0] for c in (CONTEXTS[0], prompt, CONTEXTS[2])]
        assert torch.equal(owner, torch.repeat_interleave(torch.arange(3), torch.tensor([len(e) for e in each])))
        assert [len(e) for e in each] == [len(c.sequence) for c in (CONTEXTS[0], prompt, CONTEXTS[2])]
        assert_close(states, torch.cat(each), atol=1e-12, rtol=0)
        before = model.evaluate([CONTEXTS[0]], (Hidden(1),))[Hidden(1)]
        assert_close(states[owner == 0][torch.from_numpy(CONTEXTS[0].action_positions - 1)], before.detach(), atol=1e-12, rtol=0)


def test_logits_come_in_chunks_that_together_are_all(monkeypatch):
    monkeypatch.setattr(logprobs, "_CELLS", 5 * VOCAB)
    monkeypatch.setattr(logprobs, "_ROWS", 1)
    for model in (built("llama"), foreign("llama")):
        with torch.no_grad():
            opened = model.opened(ACTING, frozenset({"logits"}))
            pieces = list(opened.logits())
            due = torch.cat([logits for _, _, logits, _, _ in full("llama")])
        assert max(len(p) for _, p in pieces) == 5
        assert [part.start for part, _ in pieces] == list(range(0, len(due), 5))
        assert_close(torch.cat([p for _, p in pieces]), due, atol=1e-5, rtol=1e-6)


def test_attention_weights_sum_to_one_and_look_at_nothing_later():
    for shape in ("gemma2", "mistral"):
        with torch.no_grad():
            (found,) = built(shape).opened([CONTEXTS[1]], frozenset()).attention((0, 1, 2))
        length = len(CONTEXTS[1].sequence)
        assert found.shape == (3, 4, length, length)
        assert_close(found.sum(-1), torch.ones(3, 4, length, dtype=torch.float64))
        assert not found.triu(1).any()


def test_a_middle_layer_costs_no_second_pass_through_the_layers_below(monkeypatch):
    from gradus.policies import pack

    ran: list[int] = []
    plain = pack._layer
    monkeypatch.setattr(pack, "_layer", lambda layer, *rest: ran.append(1) or plain(layer, *rest))
    with torch.no_grad():
        built("llama").evaluate(CONTEXTS, (LogProb(), Hidden(2), Hidden(1), LastLayer(3)))
    assert len(ran) == 3 + 1  # Hidden(2) runs two layers, the pass to the end goes on from there; Hidden(1) runs the first layer again


def test_a_layer_that_is_not_there():
    assert [layer_index(i, 4) for i in (0, 3, -1, -4)] == [0, 3, 3, 0]
    for model in (built("llama"), foreign("llama")):
        with pytest.raises(UserError, match=r"`layer` is 9, but the model has the layers 0 to 3 \(or -4 to -1\)"):
            model.evaluate(CONTEXTS, (Hidden(9),))
        with pytest.raises(UserError, match=r"`layer` is 3, but the model has the layers 0 to 2"):
            model.evaluate(CONTEXTS, (AttentionStat((3,)),))


def test_a_missing_stream_is_named():
    with pytest.raises(UserError, match=r"LogProbsOf reads whole numbers of shape \[A, n\] from the stream rivals, but a context has none"):
        built("llama").evaluate(CONTEXTS, (LogProbsOf("rivals"),))


def test_a_shared_trunk_has_no_gradient_in_any_reader():
    model = built("llama").with_value_head(Key(3), shared=True)
    rows = model.evaluate(CONTEXTS, WANTS)
    assert not any(r.requires_grad for r in rows.values())
