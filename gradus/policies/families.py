"""The families of models. A `Family` lists the fields of config.json that it reads, their defaults, and its fixed options.

A field of config.json is accepted in three cases: the field is read, its value means "not in use", or it does not affect the decoder's computation. With
any other field or value, the model runs through `transformers`, and a message names this field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
READ = frozenset(
    {
        "model_type",
        *SIZES,
        *("num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters"),
        *("tie_word_embeddings", "initializer_range", "eos_token_id", "architectures", "layer_types"),
    }
)
# Fields without an effect on the decoder's computation: names, token ids that only the tokenizer uses, storage, outputs, labels.
HARMLESS = frozenset(
    {
        *("_name_or_path", "_model_name_or_path", "transformers_version", "transformers.js_config", "torch_dtype", "dtype"),
        *("use_cache", "cache_implementation"),
        *("bos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id"),
        *("output_attentions", "output_hidden_states", "return_dict", "id2label", "label2id", "problem_type", "finetuning_task"),
        *("is_decoder", "torchscript", "keys_to_ignore_at_inference", "_attn_implementation_autoset"),
    }
)
_NO = (False, None)
# Fields whose listed values mean "not in use"; other values are not implemented.
OFF: Mapping[str, tuple[Any, ...]] = {
    "attention_dropout": (0, None),
    "rope_interleaved": _NO,
    "partial_rotary_factor": (1, None),
    "is_encoder_decoder": _NO,
    "add_cross_attention": _NO,
    "cross_attention_hidden_size": (None,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),
    "use_bidirectional_attention": _NO,
}

# Options of mixtures of experts. A router's balancing loss is not part of a policy's objective, so its coefficient is not read.
_MIXTURE_OFF = {"output_router_logits": _NO}
_MIXTURE_HARMLESS = frozenset({"router_aux_loss_coef"})


@dataclass(frozen=True)
class ExpertNames:
    """The parts of the names that the tensors of a mixture have in a model's files: `model.layers.0.<block>.experts.3.<gate>.weight`."""

    block: str
    gate: str
    up: str
    down: str


@dataclass(frozen=True)
class Family:
    """One family of models. The name of a family is the `model_type` in config.json."""

    architecture: str  # the class of transformers
    missing: Mapping[str, Any]  # the defaults of transformers for fields missing in config.json
    reads: frozenset[str] = frozenset()  # fields that the family reads, in addition to READ
    off: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # fields that must have one of these values, in addition to OFF
    harmless: frozenset[str] = frozenset()  # fields without an effect, in addition to HARMLESS
    fixed: Mapping[str, Any] = field(default_factory=dict)  # switches of DecoderConfig
    windows: Literal["none", "all", "named"] = "none"  # the layers with a window: none, all, or the layers that `layer_types` names
    activation: str = "hidden_act"  # the field with the name of the activation
    experts: ExpertNames | None = None


_QWEN = {"max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28}
_QWEN_READS = frozenset({"hidden_act", "sliding_window", "use_sliding_window"})
_GEMMA: Mapping[str, Any] = {
    **{"max_position_embeddings": 8192, "num_key_value_heads": 4, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh"},
    **{"tie_word_embeddings": True, "query_pre_attn_scalar": 256, "sliding_window": 4096, "eos_token_id": 1},
}
_GEMMA_READS = frozenset(
    {"hidden_act", "hidden_activation", "attention_bias", "query_pre_attn_scalar", "sliding_window", "sliding_window_size"}
    | {"final_logit_softcapping", "attn_logit_softcapping"}
)
_GEMMA_FIXED = {"post_norms": True, "norm_offset": True, "scaled_embeddings": True}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        "LlamaForCausalLM",
        {"max_position_embeddings": 2048, "eos_token_id": 2},
        reads=frozenset({"hidden_act", "attention_bias", "mlp_bias"}),
        off={"pretraining_tp": (1, None), "use_sliding_window": _NO, "sliding_window": (None,)},
        harmless=frozenset({"is_llama_config", "max_window_layers"}),
    ),
    "qwen2": Family(
        "Qwen2ForCausalLM",
        {**_QWEN, "num_key_value_heads": 32},
        reads=_QWEN_READS | {"max_window_layers"},
        off={"attention_bias": _NO, "mlp_bias": _NO},
        fixed={"qkv_bias": True},
        windows="named",
    ),
    "qwen3": Family(
        "Qwen3ForCausalLM",
        {**_QWEN, "num_key_value_heads": 32, "head_dim": 128},
        reads=_QWEN_READS | {"max_window_layers", "attention_bias"},
        off={"mlp_bias": _NO},
        fixed={"qk_norm": True},
        windows="named",
    ),
    "qwen3_moe": Family(
        "Qwen3MoeForCausalLM",
        {**_QWEN, "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
        reads=_QWEN_READS
        | {"attention_bias", "num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size"}
        | {"norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"},
        off={"mlp_bias": _NO, **_MIXTURE_OFF},
        harmless=_MIXTURE_HARMLESS | {"max_window_layers"},
        fixed={"qk_norm": True},
        windows="all",
        experts=ExpertNames("mlp", "gate_proj", "up_proj", "down_proj"),
    ),
    "mistral": Family(
        "MistralForCausalLM",
        {"max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": 4096, "eos_token_id": 2},
        reads=frozenset({"hidden_act", "sliding_window"}),
        off={"attention_bias": _NO, "mlp_bias": _NO},
        windows="all",
    ),
    "mixtral": Family(
        "MixtralForCausalLM",
        {
            **{"max_position_embeddings": 131072, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "eos_token_id": 2},
            **{"num_local_experts": 8, "num_experts_per_tok": 2, "rope_theta": 1e6},
        },
        reads=frozenset({"hidden_act", "sliding_window", "num_local_experts", "num_experts_per_tok"}),
        off={"attention_bias": _NO, "mlp_bias": _NO, "router_jitter_noise": (0, None), **_MIXTURE_OFF},
        harmless=_MIXTURE_HARMLESS,
        windows="all",
        experts=ExpertNames("block_sparse_moe", "w1", "w3", "w2"),
    ),
    "gemma2": Family(
        "Gemma2ForCausalLM",
        {**_GEMMA, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, "sliding_window_pattern": 2},
        reads=_GEMMA_READS,
        fixed=_GEMMA_FIXED,
        windows="named",
        activation="hidden_activation",
    ),
    "gemma3_text": Family(
        "Gemma3ForCausalLM",
        {**_GEMMA, "max_position_embeddings": 131072, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6},
        reads=(_GEMMA_READS | {"sliding_window_pattern", "rope_local_base_freq"}) - {"attn_logit_softcapping"},
        off={"attn_logit_softcapping": (None,)},  # transformers stores it but never applies it
        harmless=frozenset({"_sliding_window_pattern"}),
        fixed={**_GEMMA_FIXED, "qk_norm": True},
        windows="named",
        activation="hidden_activation",
    ),
    "phi3": Family(
        "Phi3ForCausalLM",
        {"max_position_embeddings": 4096, "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "eos_token_id": 32000},
        reads=frozenset({"hidden_act", "sliding_window", "partial_rotary_factor", "original_max_position_embeddings"}),
        off={
            **{"embd_pdrop": (0, None), "resid_pdrop": (0, None), "attention_bias": _NO, "mlp_bias": _NO, "lm_head_bias": _NO},
            **{"full_attn_mod": (1,), "interpolate_factor": (1,)},
        },
        harmless=frozenset({"auto_map"}),  # transformers does not run this code either; it has its own class
        fixed={"fused_projections": True},
        windows="all",
    ),
}
