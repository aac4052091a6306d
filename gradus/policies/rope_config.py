"""Reads the fields of config.json for rotary positions. These fields have an old and a new form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradus.policies.fields import Unsupported, flag, number, optional_number, positive, size
from gradus.policies.rope import DynamicScaling, LinearScaling, Llama3Scaling, LongScaling, Rope, Scaling, YarnScaling
from gradus.types import UserError

_NAMES: Mapping[str, frozenset[str]] = {  # fields of each kind, in addition to rope_type and rope_theta
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "dynamic": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    "yarn": frozenset(
        {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}
    ),
    "longrope": frozenset({"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"}),
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
}


def read_ropes(fields: Mapping[str, Any], family: str, missing: Mapping[str, Any]) -> tuple[Rope, Rope | None]:
    """Returns the rotation of full-attention layers, and the rotation of windowed layers. If all layers of the family have the same rotation, the second
    rotation is None.

    Raises: Unsupported with the field that is not implemented.
    """
    field = "rope_scaling" if fields.get("rope_scaling") else "rope_parameters"  # transformers prefers the old form if both are present
    given = fields.get(field) or {}
    if not isinstance(given, Mapping):
        raise UserError(f"config.json: `{field}` is {given!r}; it must be a JSON object")
    theta = positive(fields, "rope_theta", missing.get("rope_theta", 10000.0))
    if family != "gemma3_text":
        return _rope(given, field, fields, theta, family, missing), None
    local = positive(fields, "rope_local_base_freq", missing["rope_local_base_freq"])
    kinds = {"full_attention", "sliding_attention"}
    if field == "rope_scaling":
        given = {"full_attention": given}
    if given.keys() - kinds or (field == "rope_scaling" and fields.get("rope_parameters")):
        raise Unsupported(field, dict(given))
    full = _rope(given.get("full_attention") or {}, field, fields, theta, family, missing)
    return full, _rope(given.get("sliding_attention") or {}, field, fields, local, family, missing)


def _rope(given: Mapping[str, Any], field: str, fields: Mapping[str, Any], theta: float, family: str, missing: Mapping[str, Any]) -> Rope:
    if not isinstance(given, Mapping):
        raise UserError(f"config.json: `{field}` is {given!r}; it must be a JSON object")
    given = {name: value for name, value in given.items() if value is not None or name == "truncate"}
    kind = given.get("rope_type", given.get("type", "default"))
    if not isinstance(kind, str):
        raise UserError(f"config.json: `rope_type` is {kind!r}; it must be a name, such as {', '.join(_NAMES)}")
    partial = {"partial_rotary_factor"} if family == "phi3" else set()
    if family == "phi3":  # in this family, "su" and "yarn" are other names of longrope
        kind = "longrope" if kind in ("su", "yarn") else kind
        if kind not in ("default", "longrope"):
            raise Unsupported(field, dict(given))
    if family == "gemma3_text" and (
        "truncate" in given or ("type" in given and "rope_type" not in given)
    ):  # transformers ignores these fields in this family
        raise Unsupported(field, dict(given))
    if given.get("partial_rotary_factor") == 1:  # a share of 1 is the default
        partial = {"partial_rotary_factor"}
    known = kind in _NAMES and given.keys() <= _NAMES[kind] | {"rope_type", "type", "rope_theta"} | partial
    if not known or any(name not in given for name in _NEEDED.get(kind, ())):
        raise Unsupported(field, dict(given))
    share = number(given, "partial_rotary_factor", number(fields, "partial_rotary_factor", 1.0)) if partial else 1.0
    if not 0 < share <= 1:
        raise Unsupported("partial_rotary_factor", share)
    theta = positive(given, "rope_theta", theta)
    return Rope(theta, _scaling(kind, given, fields, family, missing), share)


def _scaling(kind: str, given: Mapping[str, Any], fields: Mapping[str, Any], family: str, missing: Mapping[str, Any]) -> Scaling | None:
    longest = size(fields, "max_position_embeddings", missing["max_position_embeddings"])
    original = size(given, "original_max_position_embeddings", longest)
    if family == "phi3":  # this family uses the field outside the object
        original = size(fields, "original_max_position_embeddings", missing["original_max_position_embeddings"])
    if kind == "linear":
        return LinearScaling(positive(given, "factor", 1.0))
    if kind == "dynamic":
        return DynamicScaling(positive(given, "factor", 1.0))
    if kind == "llama3":
        return Llama3Scaling(
            positive(given, "factor", 1.0), number(given, "low_freq_factor", 1.0), number(given, "high_freq_factor", 4.0), original
        )
    if kind == "yarn":
        return _yarn(given, original)
    if kind == "longrope":
        return _longrope(given, original, longest)
    return None


def _yarn(given: Mapping[str, Any], original: int) -> YarnScaling:
    factor = positive(given, "factor", 1.0)
    scale, all_dims = (optional_number(given, name, None) for name in ("mscale", "mscale_all_dim"))
    attention = optional_number(given, "attention_factor", None)
    if attention is None:
        attention = _warmth(factor, scale) / _warmth(factor, all_dims) if scale and all_dims else _warmth(factor, 1.0)
    fast, slow = (optional_number(given, name, None) for name in ("beta_fast", "beta_slow"))
    return YarnScaling(factor, original, attention, fast or 32.0, slow or 1.0, flag(given, "truncate", True))


def _warmth(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(given: Mapping[str, Any], original: int, longest: int) -> LongScaling:
    short, long = (_factors(given, name) for name in ("short_factor", "long_factor"))
    factor = optional_number(given, "factor", None) or longest / original
    attention = optional_number(given, "attention_factor", None)
    if attention is None:
        attention = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return LongScaling(short, long, original, attention)


def _factors(given: Mapping[str, Any], name: str) -> tuple[float, ...]:
    values = given[name]
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        raise UserError(f"config.json: `{name}` is {values!r}; it must be a list of numbers")
    return tuple(float(v) for v in values)
