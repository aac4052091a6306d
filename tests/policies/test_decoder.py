from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder, RMSNorm, soften
from gradus.policies.loading import load_decoder
from gradus.types import Key

CONFIG = DecoderConfig("llama", 50, 16, 24, 2, 4, 2, 4, 128)
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True}),
        ("llama", {"rope_parameters": LLAMA3, "head_dim": 12}),
        ("qwen2", {}),
        ("qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 4, "rms_norm_eps": 1e-3}),
        ("qwen3", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
        ("qwen3", {"tie_word_embeddings": True, "num_key_value_heads": 1, "attention_bias": True}),
    ],
)
def test_logits_are_those_of_transformers(saved, family, changes):
    from transformers import AutoModelForCausalLM

    folder = saved(family, **changes)
    theirs = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = torch.randint(0, 97, (3, 120), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected, ours = theirs(tokens).logits, load_decoder(folder)(tokens)
    assert expected.std() > 0.5
    assert (ours - expected).abs().max() < 1e-4


def test_bfloat16_stays_near_float32(saved):
    folder = saved("qwen3")
    tokens = torch.arange(3, 43).unsqueeze(0)
    with torch.no_grad():
        exact, rough = load_decoder(folder)(tokens), load_decoder(folder, dtype=torch.bfloat16)(tokens)
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).abs().mean() < 0.03 * exact.abs().mean()


def test_positions_are_relative(saved):
    """Rotary attention sees differences only: the same tokens at positions 50 later give the same hidden states."""
    decoder = load_decoder(saved("llama"), dtype=torch.float64)
    layer, x = decoder.layers[0], torch.randn(6, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = []
    for start in (0, 50):
        q, k, _ = layer.attn_inputs(x, decoder.rotation(torch.arange(start, start + 6)))
        scores.append(torch.einsum("qhd,khd->hqk", q[:, :2], k))
    assert_close(scores[0], scores[1], atol=1e-5, rtol=0)  # angles are float32
    assert (scores[0][:, 0] - scores[0][:, 1]).abs().max() > 0.1


def test_rms_norm_by_hand():
    norm = RMSNorm(2, 0.0)
    norm.weight.data = torch.tensor([1.0, 10.0])
    # mean of squares of (3, 4) is 12.5: 3 / sqrt(12.5) = 0.848528, 10 * 4 / sqrt(12.5) = 11.31371
    assert_close(norm(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.848528, 11.31371]]))
    offset = RMSNorm(2, 0.0, offset=True)
    offset.weight.data = torch.tensor([1.0, 10.0])
    # by 1 + weight: twice 0.848528, eleven times 1.131371
    assert_close(offset(torch.tensor([[3.0, 4.0]])), torch.tensor([[1.697056, 12.445081]]))
    assert_close(offset.factor, torch.tensor([2.0, 11.0]))


@pytest.mark.parametrize("usual", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("weights", "scale"), [(torch.float32, 4.898979663848877), (torch.bfloat16, 4.90625), (torch.float64, 4.898979663848877)]
)
def test_the_scale_of_embeddings_hangs_on_the_weights_alone(usual, weights, scale):
    """sqrt(24) = 4.898979485566356, to 24 bits 4.898979663848877, to 8 bits 4.90625; not on what torch makes by default."""
    decoder = Decoder(DecoderConfig("gemma2", 50, 24, 24, 1, 4, 2, 4, 128, scaled_embeddings=True)).to(weights)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(usual)
        assert decoder.embedding_scale == scale
    finally:
        torch.set_default_dtype(before)


def test_softened_logits_by_hand():
    # 2 tanh(1 / 2) = 0.924234; 2 tanh(50) = 2
    assert_close(soften(torch.tensor([1.0, 100.0, 0.0]), 2.0), torch.tensor([0.924234, 2.0, 0.0]))
    logits = torch.tensor([3.0])
    assert soften(logits, None) is logits


def test_weights_follow_from_the_key():
    one, same, other = (Decoder(CONFIG).initialise(Key(k)) for k in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.head_weight, other.head_weight)
    assert float(one.head_weight.detach().std()) == pytest.approx(0.02, rel=0.1)
