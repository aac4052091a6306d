from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from gradus.policies.lm import LanguageModel
from gradus.policies.transformers_model import Foreign
from gradus.types import Key, UserError
from gradus.types.signals import EntropyOf, LogProb, Value
from tests.policies.contexts import VOCAB, mixed
from tests.policies.shapes import fields, theirs

GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "initializer_range": 0.2}
WANTS = (LogProb(), EntropyOf(), Value())


@pytest.fixture
def gpt2(saved):
    return LanguageModel.load(saved("gpt2", **GPT2), dtype=torch.float64)


def test_the_reason_is_named(gpt2, saved):
    assert isinstance(gpt2.trunk, Foreign)
    assert "model_type = 'gpt2'" in gpt2.note
    partly = LanguageModel.load(saved("llama", rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 1e4}))
    assert isinstance(partly.trunk, Foreign)
    assert "rope_parameters" in partly.note
    assert LanguageModel.load(saved("llama")).note is None


def test_rows_do_not_depend_on_company(gpt2):
    contexts = mixed(np.random.default_rng(0))
    model = gpt2.clone().with_value_head(Key(1), shared=False)
    together = model.evaluate(contexts, WANTS)
    for want in WANTS:
        one_by_one = torch.cat([model.evaluate([c], (want,))[want] for c in contexts])
        assert_close(together[want], one_by_one, atol=1e-10, rtol=0)
    assert gpt2.context_length == 128


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("shape", ["gemma2", "gemma3", "mistral"])
def test_rows_of_models_with_a_window_do_not_depend_on_company(shape, attention):
    """A sequence shorter than another one by more than the window."""
    contexts = [c for c in mixed(np.random.default_rng(0)) if c.actions]
    lengths = [len(c.sequence) for c in contexts]
    assert max(lengths) - min(lengths) > fields(shape)["sliding_window"]
    inner = theirs(fields(shape)).double()
    if shape == "gemma2" and attention == "sdpa":
        with pytest.raises(ValueError, match="does not support"):
            inner.set_attn_implementation(attention)
        return
    inner.set_attn_implementation(attention)
    model = LanguageModel(Foreign(inner), None, ())
    together = model.evaluate(contexts, WANTS[:2])
    for want in WANTS[:2]:
        alone = torch.cat([model.evaluate([c], (want,))[want] for c in contexts])
        assert_close(together[want], alone, atol=2e-6, rtol=0)  # eager attention has a softmax in float32
    hidden = torch.cat([model.trunk.hidden([c], 2) for c in contexts])
    assert_close(model.trunk.hidden(contexts, 2), hidden, atol=2e-6, rtol=0)
    weights = [p for p in model.network.parameters() if p.requires_grad]
    assert all(g.isfinite().all() for g in torch.autograd.grad(together[LogProb()].sum(), weights, allow_unused=True) if g is not None)


def test_it_agrees_with_the_decoder(saved):
    """The same Llama through both ways: the adapter's rows and gradients are those of the decoder."""
    from transformers import AutoModelForCausalLM

    folder = saved("llama")
    ours = LanguageModel.load(folder, dtype=torch.float64).with_value_head(Key(2), shared=False)
    theirs = LanguageModel(Foreign(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)), None, (), head=ours.head)
    contexts = mixed(np.random.default_rng(1))
    found, expected = ours.evaluate(contexts, WANTS), theirs.evaluate(contexts, WANTS)
    for want in WANTS:
        assert_close(found[want], expected[want], atol=1e-5, rtol=0)  # transformers computes angles and norms in float32
    weights = dict(ours.trunk.named_parameters())
    their_weights = dict(theirs.trunk.inner.named_parameters())
    for name in ("model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight", "lm_head.weight"):
        mine = torch.autograd.grad(sum(r.sum() for r in found.values()), weights[name], retain_graph=True)[0]
        other = torch.autograd.grad(sum(r.sum() for r in expected.values()), their_weights[name], retain_graph=True)[0]
        assert_close(mine, other, atol=1e-5 * float(other.abs().max()), rtol=0)


def test_steps_are_the_whole_sequence(gpt2):
    tokens = np.arange(5, 20, dtype=np.int32)
    with torch.no_grad():
        logits, state = gpt2.trunk.begin(tokens[:10])
        for token in tokens[10:]:
            logits, state = gpt2.trunk.advance(state, int(token))
        whole = gpt2.trunk.inner(torch.from_numpy(tokens.astype(np.int64)).unsqueeze(0)).logits[0, -1]
    assert_close(logits, whole, atol=1e-10, rtol=0)


def test_dropout_stays_off(gpt2):
    gpt2.trunk.train()
    contexts = mixed(np.random.default_rng(2))
    first, second = (gpt2.evaluate(contexts, (LogProb(),))[LogProb()] for _ in range(2))
    assert torch.equal(first, second)


def test_saved_and_loaded(gpt2, tmp_path, tokenizer_folder):
    gpt2.save(tmp_path)
    again = LanguageModel.load(tmp_path, dtype=torch.float64)
    contexts = mixed(np.random.default_rng(3))
    assert torch.equal(again.evaluate(contexts, (LogProb(),))[LogProb()], gpt2.evaluate(contexts, (LogProb(),))[LogProb()])


def test_what_cannot_be_loaded_is_refused(saved, tmp_path):
    shutil.copytree(saved("gpt2", **GPT2), tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop(next(name for name in weights if name.endswith("h.1.mlp.c_fc.weight")))
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"c_fc\.weight is missing"):
        LanguageModel.load(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "no_such_model"}))
    with pytest.raises(UserError, match="cannot be read by transformers"):
        LanguageModel.load(tmp_path)


def test_adapters_need_the_decoder(gpt2):
    with pytest.raises(UserError, match=r"model_type = 'gpt2'.*built-in decoder"):
        gpt2.with_adapter(4, 8.0, Key())
