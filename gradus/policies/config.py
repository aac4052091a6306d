"""What config.json says about a decoder, read field by field: a field that is not known, or a value that is not implemented, is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradus.types import UserError


class Unsupported(Exception):
    """A configuration that the decoder does not implement: the field and its value. The model then goes through `transformers`."""

    def __init__(self, field: str, value: Any) -> None:
        super().__init__(f"config.json has {field} = {value!r}, which the built-in decoder does not implement")
        self.field, self.value = field, value


@dataclass(frozen=True)
class Llama3Scaling:
    """Rotary frequencies of Llama 3.1: under `low` turns in the original context divided by `factor`, over `high` kept, between blended."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a decoder: RMSNorm, rotary positions, grouped-query attention, gated MLP."""

    family: str  # llama, qwen2, qwen3
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int  # longest context, tokens
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Llama3Scaling | None = None
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False  # bias of o_proj
    mlp_bias: bool = False
    qk_norm: bool = False  # RMSNorm over every head of q and k
    initializer_range: float = 0.02
    end_tokens: tuple[int, ...] = ()  # eos_token_id, one or several

    def __post_init__(self) -> None:
        if self.num_attention_heads % self.num_key_value_heads:
            raise UserError(
                f"config.json: num_attention_heads ({self.num_attention_heads}) is not a multiple of "
                f"num_key_value_heads ({self.num_key_value_heads})"
            )


_FAMILIES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_CONTEXT = {"llama": 2048, "qwen2": 32768, "qwen3": 32768}  # what transformers takes where max_position_embeddings is missing
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_READ = {
    "model_type",
    *_SIZES,
    *("num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters"),
    *("tie_word_embeddings", "attention_bias", "mlp_bias", "initializer_range", "eos_token_id"),
}
# They change nothing that the decoder computes: names, token ids that the tokenizer owns, storage, outputs, labels, unused windows.
_HARMLESS = {
    *("_name_or_path", "transformers_version", "transformers.js_config", "torch_dtype", "dtype", "use_cache", "is_llama_config"),
    *("bos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id"),
    *("output_attentions", "output_hidden_states", "return_dict", "id2label", "label2id", "problem_type", "finetuning_task"),
    *("max_window_layers", "sliding_window", "is_decoder", "torchscript", "keys_to_ignore_at_inference", "_attn_implementation_autoset"),
}
# Fields whose listed values mean "not in use"; any other value is not implemented.
_OFF: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"),
    "attention_dropout": (0, None),
    "pretraining_tp": (1, None),
    "use_sliding_window": (False, None),
    "rope_interleaved": (False, None),
    "partial_rotary_factor": (1, None),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),
}


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file. Raises UserError that names the file and, for bad JSON, line and column."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); a model folder needs it") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text; save the model again with save_pretrained") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); save the model again with save_pretrained"
        ) from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__} where an object is expected; save the model again with save_pretrained")
    return found


def decoder_config(fields: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that config.json describes.

    Raises: Unsupported with the field that the decoder lacks; UserError where a size is missing or is not a positive integer.
    """
    family = fields.get("model_type")
    if family not in _FAMILIES:
        raise Unsupported("model_type", family)
    _check_fields(fields, family)
    sizes = {name: _size(fields, name) for name in _SIZES}
    heads = sizes["num_attention_heads"]
    theta, scaling = _rope(fields)
    bias = _flag(fields, "attention_bias")
    default_head = 128 if family == "qwen3" else sizes["hidden_size"] // heads
    return DecoderConfig(
        family=family,
        **sizes,
        num_key_value_heads=_size(fields, "num_key_value_heads", heads if family == "llama" else 32),
        head_dim=_size(fields, "head_dim", default_head),
        max_position_embeddings=_size(fields, "max_position_embeddings", _CONTEXT[family]),
        rms_norm_eps=_number(fields, "rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        tie_word_embeddings=_flag(fields, "tie_word_embeddings"),
        qkv_bias=bias or family == "qwen2",
        output_bias=bias and family != "qwen2",
        mlp_bias=_flag(fields, "mlp_bias") and family == "llama",
        qk_norm=family == "qwen3",
        initializer_range=_number(fields, "initializer_range", 0.02),
        end_tokens=end_tokens(fields, 2 if family == "llama" else None),
    )


def _check_fields(fields: Mapping[str, Any], family: str) -> None:
    for name, value in fields.items():
        if name in _OFF:
            known = value in _OFF[name]
        elif name == "architectures":
            known = value is None or value == [_FAMILIES[family]]
        elif name == "layer_types":
            known = value is None or value == ["full_attention"] * len(value)
        elif name in ("attention_bias", "mlp_bias") and family == "qwen2":
            known = not value  # transformers' Qwen2 has fixed biases and never reads these fields
        else:
            known = name in _READ or name in _HARMLESS
        if not known:
            raise Unsupported(name, value)


def _size(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"config.json: {name} is {value!r}; it must be a positive whole number")
    return value


def _number(fields: Mapping[str, Any], name: str, default: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"config.json: {name} is {value!r}; it must be a number")
    return float(value)


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value not in (None, True, False):
        raise UserError(f"config.json: {name} is {value!r}; it must be true or false")
    return bool(value)


def end_tokens(fields: Mapping[str, Any], default: int | None = None) -> tuple[int, ...]:
    """The ids in `eos_token_id`: one, several or none. Raises UserError for anything else."""
    value = fields.get("eos_token_id", default)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        raise UserError(f"eos_token_id is {value!r}; it must be a token id or a list of them")
    return tuple(ids)


def _rope(fields: Mapping[str, Any]) -> tuple[float, Llama3Scaling | None]:
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    field = "rope_parameters" if fields.get("rope_parameters") else "rope_scaling"
    if not isinstance(rope, Mapping):
        raise UserError(f"config.json: {field} is {rope!r}; it must be an object")
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = _number(rope, "rope_theta", _number(fields, "rope_theta", 10000.0))
    names = {"rope_type", "type", "rope_theta"}
    scaling = None
    if kind == "llama3":
        keys = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
        names |= set(keys)
        if any(key not in rope for key in keys):
            raise Unsupported(field, rope)
        factor, low, high = (_number(rope, key, 0) for key in keys[:3])
        scaling = Llama3Scaling(factor, low, high, _size(rope, keys[3]))
    elif kind != "default":
        raise Unsupported(field, rope)
    if rope.keys() - names - {"partial_rotary_factor"} or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise Unsupported(field, rope)
    return theta, scaling
