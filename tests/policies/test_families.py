"""Every family against transformers: logits, gradients, and twenty altered fields, of which none may be passed over in silence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gradus.policies.compiled import CompiledCache, fits
from gradus.policies.config import Unsupported, decoder_config
from gradus.policies.decoding import Fused
from gradus.policies.families import FAMILIES
from gradus.policies.kernels import kernels
from tests.policies.shapes import LONG, SHAPES, VOCAB, YARN, fields, ours, theirs

TOKENS = torch.randint(3, VOCAB, (2, 100), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_of_update_and_engine_are_those_of_transformers(shape: str):
    network = ours(shape)
    with torch.no_grad():
        expected, found = theirs(fields(shape))(TOKENS).logits, network(TOKENS)
    assert expected.std() > 0.5
    assert (found - expected).abs().max() < 1e-4
    with torch.inference_mode():
        fused = Fused(network, 128)
        slots = fused.slots(8, 128)
        prefixes = [TOKENS[0, :n].numpy().astype(np.int32) for n in (70, 90)]  # past every window
        for slot, prompt in enumerate(fused.read(prefixes)):
            assert (prompt.logits - expected[0, len(prefixes[slot]) - 1]).abs().max() < 1e-4
            slots.fill(slot, prompt.kv)
        for at in range(5):
            positions = torch.tensor([70 + at, 90 + at, *[0] * 6])
            logits = fused.step(slots, TOKENS[0, positions], positions, [(0, 8, 128)])
            assert (logits[:2] - expected[0, positions[:2]]).abs().max() < 1e-4


@pytest.mark.parametrize("shape", SHAPES)
def test_the_compiled_step_gives_the_logits_of_transformers(shape: str):
    """Two prefixes, the first of them with two sequences, past every window; a mixture of experts and a mixed activation go without it."""
    if kernels() is None:
        pytest.skip("the kernels were not built; a C compiler was missing")
    network = ours(shape)
    with torch.no_grad():
        expected = theirs(fields(shape))(TOKENS).logits
    with torch.inference_mode():
        fused = Fused(network, 128)
        if any(layer.mixture for layer in fused.layers):
            assert not fits(fused)
            return
        assert fits(fused)
        cache = CompiledCache(fused, 8, prefix=90, own=10)
        a, b = cache.read([TOKENS[0, :n].numpy().astype(np.int32) for n in (70, 90)])
        for slot, prompt in enumerate((a, b, a)):
            cache.fill(slot, prompt)
        for at in range(9):
            positions = np.array([70 + at, 90 + at, 70 + at, *[0] * 5])
            logits = cache.step(TOKENS[0].numpy()[positions], positions, 3)
            assert (logits[:3] - expected[0, positions[:3]]).abs().max() < 1e-4
            assert torch.equal(logits[0], logits[2])
        cache.clear(2)
        assert cache.prefixes[:3].any(1).tolist() == [True, True, False]  # no address of what is not held any more


@pytest.mark.parametrize("shape", SHAPES)
def test_long_prompts_are_read_in_chunks(shape: str, monkeypatch: pytest.MonkeyPatch):
    """As in one piece, and with the bits that each prompt has alone."""
    prefixes = [TOKENS[i, :n].numpy().astype(np.int32) for i, n in enumerate((70, 90))]  # padded to 96: chunks of 64 and 32
    with torch.inference_mode():
        fused = Fused(ours(shape), 128)
        whole = fused.read(prefixes)
        monkeypatch.setattr("gradus.policies.decoding._CHUNK", 64)
        cut = fused.read(prefixes)
        for prefix, one, other in zip(prefixes, whole, cut, strict=True):
            assert_close(other.logits, one.logits, atol=1e-4, rtol=0)
            assert_close(other.kv, one.kv, atol=1e-4, rtol=0)
            [alone] = fused.read([prefix])
            assert torch.equal(alone.logits, other.logits)
            assert torch.equal(alone.kv, other.kv)


@pytest.mark.parametrize("shape", ["gemma2", "mixtral", "phi3_long"])
def test_gradients_are_those_of_transformers(shape: str):
    """Of the router too, through the shares of the experts that it chose."""
    mine, other = ours(shape, torch.float64), theirs(fields(shape)).double()
    weights = torch.cos(torch.arange(VOCAB, dtype=torch.float64))
    for logits in (mine(TOKENS), other(TOKENS).logits):
        (logits.log_softmax(-1) * weights).mean().backward()
    expected = {name: p.grad for name, p in other.named_parameters()}
    for name, parameter in mine.named_parameters():
        assert_close(parameter.grad, expected[name], atol=1e-6, rtol=1e-4, msg=name)  # their norms and shares are float32
    assert all(float(g.abs().max()) > 1e-7 for g in expected.values())


# Altered in every family. Some values are not implemented anywhere: those are to be sent to the adapter.
ALTERED: dict[str, Any] = {
    **{"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4},
    **{"vocab_size": 99, "head_dim": 4, "max_position_embeddings": 128, "rms_norm_eps": 0.3, "rope_theta": 100.0},
    **{"rope_scaling": {"rope_type": "linear", "factor": 3.0}, "attention_bias": True, "mlp_bias": True, "attention_dropout": 0.4},
    **{"quantization_config": {"quant_method": "gptq", "bits": 4}, "attention_multiplier": 3.0, "layer_types": ["full_attention"] * 3},
    **{"partial_rotary_factor": 0.5, "sliding_window": 5},
}
NOT_PHI: dict[str, Any] = {
    "rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 1e4}
    | {"original_max_position_embeddings": 32}
}
GEMMA: dict[str, Any] = {
    **{"hidden_activation": "gelu", "hidden_act": "relu", "query_pre_attn_scalar": 10, "final_logit_softcapping": 2.0},
    **{"tie_word_embeddings": False, "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    **{"sliding_window_size": 3, "attn_logit_softcapping": 1.0, "use_bidirectional_attention": True},
}
MIXTURE: dict[str, Any] = {
    **{"num_experts_per_tok": 1, "num_local_experts": 3, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    **{"router_aux_loss_coef": 0.5, "output_router_logits": True},
}
PLAIN: dict[str, Any] = {"hidden_act": "gelu", "tie_word_embeddings": True}
QWEN: dict[str, Any] = {**PLAIN, "use_sliding_window": True, "max_window_layers": 0, "layer_types": ["sliding_attention"] * 3}
OWN: dict[str, dict[str, Any]] = {
    "llama": {**PLAIN, "pretraining_tp": 2, **NOT_PHI, "attention_bias": False, "mlp_bias": False},
    "qwen2": {**QWEN, "use_sliding_window": False, **NOT_PHI},
    "qwen3": {**QWEN, "rope_parameters": {**YARN, "truncate": False, "mscale": 2.0, "mscale_all_dim": 0.5, "beta_fast": 8}},
    "mistral": {**PLAIN, **NOT_PHI},
    "mixtral": {**MIXTURE, "router_jitter_noise": 0.1, "num_experts": 3, **NOT_PHI},
    "qwen3_moe": {
        **{**MIXTURE, "norm_topk_prob": True, "decoder_sparse_step": 3, "mlp_only_layers": [0, 2], "moe_intermediate_size": 16},
        **{"use_sliding_window": True, **NOT_PHI},
    },
    "gemma2": {**GEMMA, **NOT_PHI},
    "gemma3": {
        **{**GEMMA, "rope_local_base_freq": 30.0, "sliding_window_pattern": 3},
        "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}, "sliding_attention": {"rope_theta": 77.0}},
    },
    "phi3": {
        **{**PLAIN, "resid_pdrop": 0.1, "original_max_position_embeddings": 120, "embd_pdrop": 0.1},
        "rope_parameters": {**LONG, "partial_rotary_factor": 0.75, "factor": 9.0},
    },
}
# Implemented, and right to change nothing: what else the shape says decides, or 100 tokens are too few.
UNFELT = {
    *((shape, "max_position_embeddings") for shape in OWN),
    *((shape, "layer_types") for shape in ("llama", "qwen3_moe", "phi3")),
    *((shape, "router_aux_loss_coef") for shape in ("mixtral", "qwen3_moe")),
    *((shape, name) for shape in ("qwen3", "qwen3_moe") for name in ("sliding_window", "use_sliding_window")),
    *(("qwen3", "max_window_layers"), ("phi3", "original_max_position_embeddings")),
}
CASES = [(shape, field, value) for shape, own in OWN.items() for field, value in {**ALTERED, **own}.items()]


def test_twenty_fields_of_every_family_are_altered():
    assert {SHAPES[shape][0] for shape in OWN} == FAMILIES.keys()
    assert all(len({**ALTERED, **own}) >= 20 for own in OWN.values())


@pytest.fixture(scope="module")
def before() -> dict[str, Tensor]:
    with torch.no_grad():
        return {shape: ours(shape)(TOKENS) for shape in OWN}


def refused(given: dict[str, Any]) -> str | None:
    """The field that sends these to the adapter."""
    try:
        decoder_config(given)
    except Unsupported as reason:
        return reason.field
    return None


@pytest.mark.parametrize(("shape", "field", "value"), CASES, ids=[f"{s}-{f}" for s, f, _ in CASES])
def test_an_altered_field_does_what_it_does_in_transformers_or_is_named(shape: str, field: str, value: Any, before: dict[str, Tensor]):
    given = json.loads(json.dumps(fields(shape, **{field: value})))
    if refused(given) is not None:
        assert refused(given) == field
        return
    with torch.no_grad():
        expected, found = theirs(given)(TOKENS).logits, ours(shape, **{field: value})(TOKENS)
    assert (found - expected).abs().max() < 1e-4
    if (shape, field) not in UNFELT:
        assert found.shape != before[shape].shape or (found - before[shape]).abs().max() > 1e-3
