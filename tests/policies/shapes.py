"""A tiny random model of every family, shaped so that each of its switches shows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gradus.policies.config import decoder_config
from gradus.policies.decoder import Decoder

VOCAB = 97
COMMON = {
    **{"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.2},
    **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
}
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 3.0, 4.0]}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_MOE = {"num_local_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 16}
SHAPES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"attention_bias": True, "mlp_bias": True, "rope_parameters": YARN}),
    "qwen2": ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_dim": 16, "rope_parameters": {"rope_type": "dynamic", "factor": 4.0}}),
    "mistral": ("mistral", {"sliding_window": 9}),
    "mixtral": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 20}),
    "qwen3_moe": ("qwen3_moe", {**_MOE, "mlp_only_layers": [1]}),
    "qwen3_moe_normalised": ("qwen3_moe", {**_MOE, "num_experts_per_tok": 3, "norm_topk_prob": True, "decoder_sparse_step": 2}),
    "gemma2": (
        "gemma2",
        {
            **{"head_dim": 16, "sliding_window": 10, "query_pre_attn_scalar": 30},
            **{"attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0},
        },
    ),
    "gemma3": ("gemma3_text", {"head_dim": 16, "sliding_window": 10, "sliding_window_pattern": 2, "final_logit_softcapping": 5.0}),
    "phi3": ("phi3", {}),
    "phi3_long": (
        "phi3",
        {"sliding_window": 11, "original_max_position_embeddings": 128, "partial_rotary_factor": 0.75, "rope_parameters": LONG},
    ),
}


def fields(shape: str, **changes: Any) -> dict[str, Any]:
    """What a config.json of the shape holds."""
    family, own = SHAPES[shape]
    return {"model_type": family, **COMMON, **own, **changes}


def randomise(network: nn.Module, family: str) -> nn.Module:
    """Weights that follow from their names, norms and biases among them: a forgotten one would show."""
    for name, parameter in network.named_parameters():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        mean = 1.0 if parameter.ndim == 1 and not name.endswith("bias") and "gemma" not in family else 0.0
        parameter.data = (torch.randn(parameter.shape, generator=generator) * 0.2 + mean).to(parameter)
    return network


def ours(shape: str, dtype: torch.dtype = torch.float32, **changes: Any) -> Decoder:
    """The built-in decoder of a shape."""
    given = fields(shape, **changes)
    network = Decoder(decoder_config(given)).to(dtype)
    randomise(network, given["model_type"])
    return network


def theirs(given: Mapping[str, Any]) -> Any:
    """The model that transformers makes of the same fields, with the same weights."""
    import copy

    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**copy.deepcopy(dict(given)))
    config._experts_implementation = "eager"  # the other one knows no float64
    return randomise(AutoModelForCausalLM.from_config(config), str(given["model_type"])).eval()
