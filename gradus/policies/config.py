"""Reads a decoder's configuration from config.json. If a field is unknown or has a value that is not implemented, the error names the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradus.policies.families import FAMILIES, HARMLESS, OFF, READ, SIZES, Family
from gradus.policies.fields import Unsupported, flag, not_negative, number, optional_positive, size
from gradus.policies.rope import LongScaling, Rope, Scaling
from gradus.policies.rope_config import read_ropes
from gradus.types import UserError

ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_pytorch_tanh"}


@dataclass(frozen=True)
class Experts:
    """A mixture of experts, which replaces the MLP of a layer. A router computes a share for each expert. Each token uses the experts with the largest
    shares."""

    count: int
    chosen: int  # experts per token, from 1 to the number of experts
    width: int  # width of one expert
    normalise: bool  # whether the shares of the chosen experts are scaled to the sum 1
    layers: tuple[bool, ...]  # True: the layer has experts


@dataclass(frozen=True)
class Rule:
    """The form of a layer's attention: scores times `scale`, capped as cap tanh(score / cap), over the last `window` positions.

    The window includes the query's own position. If `causal` is false, every position attends to all positions of its sequence.
    """

    scale: float
    cap: float | None = None
    window: int | None = None
    causal: bool = True


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a decoder, and the options in which families of models differ.

    Every decoder has RMSNorm, rotary positions, grouped-query attention and a gated MLP.
    """

    family: str  # a key of families.FAMILIES
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Scaling | None = None
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False  # whether o_proj has a bias
    mlp_bias: bool = False
    qk_norm: bool = False  # whether every head of q and k has an RMSNorm
    initializer_range: float = 0.02
    end_tokens: tuple[int, ...] = ()  # eos_token_id, one or several
    activation: str = "silu"  # activation of the gate: silu, gelu or gelu_pytorch_tanh
    rope_share: float = 1.0  # share of a head's dimensions that is rotated, counted from the first dimension
    local_rope: Rope | None = None  # rotation of windowed layers; None: the same as for all layers
    window: int | None = None  # positions that a windowed layer sees, including its own
    windowed: tuple[bool, ...] = ()  # for each layer, whether it has the window; (): no layer has it
    query_scalar: float | None = None  # scores are divided by the square root of this number; None: head_dim
    attention_cap: float | None = None  # scores are cap tanh(score / cap)
    logit_cap: float | None = None  # logits are capped in the same way
    post_norms: bool = False  # whether there are also norms after attention and MLP
    norm_offset: bool = False  # whether norms multiply by 1 + weight
    scaled_embeddings: bool = False  # whether embeddings are multiplied by sqrt(hidden_size)
    fused_projections: bool = False  # whether the model has qkv_proj and gate_up_proj
    experts: Experts | None = None
    causal: bool = True  # False: every position attends to all positions, as in a masked model

    def __post_init__(self) -> None:
        if self.num_attention_heads % self.num_key_value_heads:
            raise UserError(
                f"config.json: `num_attention_heads` ({self.num_attention_heads}) is not a multiple of "
                f"`num_key_value_heads` ({self.num_key_value_heads}); correct one of them"
            )

    @property
    def context(self) -> int:
        """Returns the largest number of tokens in a sequence. Up to this length, rotation angles depend only on the position."""
        scaling = self.rope_scaling
        original = scaling.original_max_position_embeddings if isinstance(scaling, LongScaling) else self.max_position_embeddings
        return min(original, self.max_position_embeddings)

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """Returns the rotations in use: one for all layers, or one for full-attention layers and one for windowed layers."""
        full = Rope(self.rope_theta, self.rope_scaling, self.rope_share)
        return (full,) if self.local_rope is None else (full, self.local_rope)

    def rope_of(self, layer: int) -> int:
        """Returns the index in `ropes` of the layer's rotation."""
        return int(self.local_rope is not None and self.is_windowed(layer))

    def is_windowed(self, layer: int) -> bool:
        return bool(self.windowed) and self.windowed[layer]

    def rule(self, layer: int) -> Rule:
        """Returns the attention rule of the layer."""
        scale = (self.query_scalar or self.head_dim) ** -0.5
        return Rule(scale, self.attention_cap, self.window if self.is_windowed(layer) else None, self.causal)

    def is_mixture(self, layer: int) -> bool:
        """Whether the layer has experts in place of its MLP."""
        return self.experts is not None and self.experts.layers[layer]


def read_json(path: Path) -> Mapping[str, Any]:
    """Reads the object in a JSON file. Raises UserError with the file and, for invalid JSON, with line and column."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); make this file readable, or copy the model again") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text; save the model again with save_pretrained") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); save the model again with save_pretrained"
        ) from None
    if not isinstance(found, dict):
        raise UserError(f"{path} contains a {type(found).__name__}, but it must contain a JSON object; save the model again with save_pretrained")
    return found


def decoder_config(fields: Mapping[str, Any]) -> DecoderConfig:
    """Returns the configuration of the decoder that config.json describes.

    Raises: Unsupported with the field that the decoder does not implement; UserError if a size is missing, or if a value has a wrong type or range.
    """
    name = fields.get("model_type")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None or name is None:
        raise Unsupported("model_type", name)
    _check_fields(fields, family)
    missing = family.missing
    sizes: dict[str, Any] = {name: size(fields, name) for name in SIZES}
    heads = sizes["num_attention_heads"]
    kv_heads = None if "num_key_value_heads" in fields else missing.get("num_key_value_heads")
    rope, local = read_ropes(fields, name, missing)
    window, windowed = _windows(fields, family, sizes["num_hidden_layers"])
    bias = flag(fields, "attention_bias")
    switches: dict[str, Any] = {"qkv_bias": bias, "output_bias": bias, "mlp_bias": flag(fields, "mlp_bias"), **family.fixed}
    config = DecoderConfig(
        family=name,
        **sizes,
        num_key_value_heads=size(fields, "num_key_value_heads", kv_heads or heads),
        head_dim=size(fields, "head_dim", missing.get("head_dim") or sizes["hidden_size"] // heads),
        max_position_embeddings=size(fields, "max_position_embeddings", missing["max_position_embeddings"]),
        rms_norm_eps=not_negative(fields, "rms_norm_eps", missing.get("rms_norm_eps", 1e-6)),
        rope_theta=rope.theta,
        rope_scaling=rope.scaling,
        rope_share=rope.share,
        local_rope=local,
        tie_word_embeddings=flag(fields, "tie_word_embeddings", missing.get("tie_word_embeddings", False)),
        initializer_range=number(fields, "initializer_range", 0.02),
        end_tokens=end_tokens(fields, missing.get("eos_token_id")),
        activation=_activation(fields, family),
        window=window,
        windowed=windowed,
        query_scalar=optional_positive(fields, "query_pre_attn_scalar", missing.get("query_pre_attn_scalar")),
        attention_cap=optional_positive(fields, "attn_logit_softcapping", missing.get("attn_logit_softcapping")),
        logit_cap=optional_positive(fields, "final_logit_softcapping", missing.get("final_logit_softcapping")),
        experts=_experts(fields, family, sizes),
        **switches,
    )
    _check_factors(config)
    return config


def _check_fields(fields: Mapping[str, Any], family: Family) -> None:
    off = {**OFF, **family.off}
    for name, value in fields.items():
        if name in READ | family.reads | HARMLESS | family.harmless:
            known = name != "architectures" or value is None or value == [family.architecture]
        else:
            known = name in off and value in off[name]
        if not known:
            raise Unsupported(name, value)


def _activation(fields: Mapping[str, Any], family: Family) -> str:
    name = family.activation
    value = fields.get(name, family.missing.get(name, "silu"))
    if not isinstance(value, str) or value not in ACTIVATIONS:
        raise Unsupported(name, value)
    if fields.get("hidden_act", value) != value:  # if the family uses another field for the activation, `hidden_act` is the older name of that field
        raise Unsupported("hidden_act", fields["hidden_act"])
    return ACTIVATIONS[value]


def _windows(fields: Mapping[str, Any], family: Family, layers: int) -> tuple[int | None, tuple[bool, ...]]:
    """Returns the window, and, for every layer, true if the layer has this window. If no layer has a window, returns (None, ())."""
    width = fields.get("sliding_window", family.missing.get("sliding_window"))
    if "use_sliding_window" in family.reads and not flag(fields, "use_sliding_window"):
        width = None
    if fields.get("sliding_window_size", width) != width:
        raise Unsupported("sliding_window_size", fields["sliding_window_size"])
    types = fields.get("layer_types")
    named = family.windows == "named"
    if isinstance(types, list) and len(types) != layers:
        raise UserError(
            f"config.json: `layer_types` has {len(types)} entries, but `num_hidden_layers` is {layers}; the two numbers must be equal, so correct one of them"
        )
    if types is not None and (not isinstance(types, list) or set(types) - {"full_attention", "sliding_attention"}):
        raise Unsupported("layer_types", types)
    if types is not None and not named and (width is not None or "sliding_attention" in types):  # the family does not read layer_types
        raise Unsupported("layer_types", types)
    if types is None:
        types = _types(fields, family, layers) if width is not None else []
    windowed = tuple(kind == "sliding_attention" for kind in types)
    if not any(windowed):
        return None, ()
    if width is None:
        raise Unsupported("layer_types", types)
    return size({"sliding_window": width}, "sliding_window"), windowed


def _types(fields: Mapping[str, Any], family: Family, layers: int) -> list[str]:
    """Returns the layer types that the family has by default in a model with a window."""
    if family.windows == "all":
        here = [True] * layers
    elif "max_window_layers" in family.reads:
        first = fields.get("max_window_layers", family.missing["max_window_layers"])
        if isinstance(first, bool) or not isinstance(first, int):
            raise UserError(f"config.json: `max_window_layers` is {first!r}; it must be a whole number")
        here = [i >= first for i in range(layers)]
    else:
        every = size(fields, "sliding_window_pattern", family.missing.get("sliding_window_pattern", 1))
        here = [(i + 1) % every != 0 for i in range(layers)]
    return ["sliding_attention" if windowed else "full_attention" for windowed in here]


def _experts(fields: Mapping[str, Any], family: Family, sizes: Mapping[str, int]) -> Experts | None:
    if family.experts is None:
        return None
    name = "num_local_experts" if "num_local_experts" in fields else "num_experts"
    other = fields.get("num_experts", fields.get(name))
    if other != fields.get(name):
        raise Unsupported("num_experts", other)
    count = size(fields, name, family.missing.get("num_experts", family.missing.get("num_local_experts")))
    chosen = size(fields, "num_experts_per_tok", family.missing["num_experts_per_tok"])
    if chosen > count:
        raise UserError(f"config.json: `num_experts_per_tok` is {chosen}, but there are {count} experts; set `num_experts_per_tok` to {count} or less")
    layers = sizes["num_hidden_layers"]
    if "moe_intermediate_size" not in family.reads:
        return Experts(count, chosen, sizes["intermediate_size"], True, (True,) * layers)
    dense, every = fields.get("mlp_only_layers") or [], size(fields, "decoder_sparse_step", 1)
    if not isinstance(dense, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in dense):
        raise UserError(f"config.json: `mlp_only_layers` is {dense!r}; it must be a list of whole numbers")
    width = size(fields, "moe_intermediate_size", family.missing["moe_intermediate_size"])
    here = tuple(i not in dense and (i + 1) % every == 0 for i in range(layers))
    return Experts(count, chosen, width, flag(fields, "norm_topk_prob"), here)


def _check_factors(config: DecoderConfig) -> None:
    pairs = -(-int(config.head_dim * config.rope_share) // 2)
    if 2 * pairs > config.head_dim:
        raise UserError(f"config.json: `head_dim` is {config.head_dim}; rotary positions rotate the dimensions of a head in pairs, so `head_dim` must be even")
    scaling = config.rope_scaling
    if isinstance(scaling, LongScaling) and {len(scaling.short_factor), len(scaling.long_factor)} != {pairs}:
        raise UserError(
            f"config.json: `short_factor` and `long_factor` have {len(scaling.short_factor)} and {len(scaling.long_factor)} numbers; "
            f"each must have {pairs} numbers, one for every rotated pair of dimensions"
        )


def end_tokens(fields: Mapping[str, Any], default: int | None = None) -> tuple[int, ...]:
    """Returns the ids in `eos_token_id`, which may be one id, a list or null. Raises UserError for any other value."""
    value = fields.get("eos_token_id", default)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        raise UserError(f"`eos_token_id` is {value!r}; it must be a token id or a list of token ids")
    return tuple(ids)
