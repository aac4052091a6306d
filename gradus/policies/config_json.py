"""Writes a decoder's configuration as config.json: the inverse of `config.decoder_config`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gradus.policies.config import DecoderConfig
from gradus.policies.families import FAMILIES
from gradus.policies.rope import DynamicScaling, LinearScaling, Llama3Scaling, LongScaling, Rope, YarnScaling

if TYPE_CHECKING:
    import torch

_SAME_NAME = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "initializer_range"),
)
# Fields that some families read -> fields of DecoderConfig.
_SOME = {
    "attention_bias": "output_bias",
    "mlp_bias": "mlp_bias",
    "query_pre_attn_scalar": "query_scalar",
    "attn_logit_softcapping": "attention_cap",
    "final_logit_softcapping": "logit_cap",
    "sliding_window": "window",
}
_KINDS = {LinearScaling: "linear", DynamicScaling: "dynamic", Llama3Scaling: "llama3", YarnScaling: "yarn", LongScaling: "longrope"}


def config_json(config: DecoderConfig, dtype: torch.dtype) -> str:
    """Returns a config.json in the form of transformers, for a decoder that was not read from a folder."""
    family = FAMILIES[config.family]
    fields: dict[str, Any] = {name: getattr(config, name) for name in _SAME_NAME}
    fields |= {name: getattr(config, mine) for name, mine in _SOME.items() if name in family.reads}
    fields |= {
        "architectures": [family.architecture],
        "model_type": config.family,
        family.activation: config.activation,
        "dtype": str(dtype).removeprefix("torch."),
        "eos_token_id": list(config.end_tokens) or None,
        "pad_token_id": None,  # a family's default for a missing field may be outside the vocabulary
    }
    scalar = fields.get("query_pre_attn_scalar")
    if scalar is not None and scalar == int(scalar):  # transformers takes a whole number
        fields["query_pre_attn_scalar"] = int(scalar)
    if "use_sliding_window" in family.reads:
        fields["use_sliding_window"] = config.window is not None
    if family.windows == "named":
        kinds = ("full_attention", "sliding_attention")
        fields["layer_types"] = [kinds[config.is_windowed(i)] for i in range(config.num_hidden_layers)]
    fields |= _experts(config) | _ropes(config)
    return json.dumps(dict(sorted(fields.items())), indent=2) + "\n"


def _experts(config: DecoderConfig) -> dict[str, Any]:
    experts = config.experts
    if experts is None:
        return {}
    fields: dict[str, Any] = {"num_local_experts": experts.count, "num_experts_per_tok": experts.chosen}
    if "moe_intermediate_size" in FAMILIES[config.family].reads:
        dense = [i for i, mixed in enumerate(experts.layers) if not mixed]
        fields |= {"moe_intermediate_size": experts.width, "norm_topk_prob": experts.normalise}
        fields |= {"mlp_only_layers": dense, "decoder_sparse_step": 1}
    return fields


def _ropes(config: DecoderConfig) -> dict[str, Any]:
    full, *local = [_rope(rope) for rope in config.ropes]
    if "original_max_position_embeddings" in FAMILIES[config.family].reads:
        original = full.pop("original_max_position_embeddings", config.max_position_embeddings)
        return {"rope_parameters": full, "original_max_position_embeddings": original}
    return {"rope_parameters": {"full_attention": full, "sliding_attention": local[0]} if local else full}


def _rope(rope: Rope) -> dict[str, Any]:
    fields: dict[str, Any] = {"rope_type": "default", "rope_theta": rope.theta}
    if rope.scaling is not None:
        fields |= {**vars(rope.scaling), "rope_type": _KINDS[type(rope.scaling)]}
    return fields if rope.share == 1 else {**fields, "partial_rotary_factor": rope.share}
