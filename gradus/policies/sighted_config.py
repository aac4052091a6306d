"""Reads config.json of the vision-language families that the built-in decoder implements: LLaVA, SmolVLM and Idefics3.

A field is accepted in three cases: the field is read, its value means "not in use", or it does not affect the computation. With any other field or value,
the model runs through `transformers`, and the message names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradus.policies.config import DecoderConfig, decoder_config
from gradus.policies.families import HARMLESS, OFF
from gradus.policies.fields import Unsupported, flag, not_negative, size
from gradus.policies.sighted import SightedConfig
from gradus.policies.tower import ACTIVATIONS, ProjectorConfig, TowerConfig
from gradus.types import UserError


@dataclass(frozen=True)
class _TowerKind:
    """A kind of tower: the defaults of its vision_config, and the properties that distinguish it from other kinds."""

    sizes: Mapping[str, int]  # the default sizes of transformers
    eps: float
    activation: str
    class_token: bool = False
    fractions: bool = False


_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size")


def _kind(sizes: tuple[int, ...], *rest: Any, **more: Any) -> _TowerKind:
    return _TowerKind(dict(zip(_SIZES, sizes, strict=True)), *rest, **more)


_SIGLIP = _kind((768, 3072, 12, 12, 224, 16), 1e-6, "gelu_pytorch_tanh")
_IDEFICS = _kind((1152, 3072, 12, 16, 224, 32), 1e-6, "gelu_pytorch_tanh", fractions=True)
TOWERS: Mapping[str, _TowerKind] = {
    "siglip_vision_model": _SIGLIP,
    "clip_vision_model": _kind((768, 3072, 12, 12, 224, 32), 1e-5, "quick_gelu", class_token=True),
    "idefics3_vision": _IDEFICS,
    "smolvlm_vision": _IDEFICS,
}
_TOWER_HARMLESS = HARMLESS | {
    *("model_type", "layer_norm_eps", "hidden_act", "initializer_range", "initializer_factor", "projection_dim", "vision_use_head"),
    *("vocab_size", "architectures", "max_image_size", "size", "use_base_siglip", "tie_word_embeddings", *_SIZES),
}
_TOWER_OFF: Mapping[str, tuple[Any, ...]] = {"attention_dropout": (0, None), "dropout": (0, None), "num_channels": (3, None)}
# Fields in the text_config of released models that remain from training and have no effect.
_TEXT_HARMLESS = {
    *("_flash_attn_2_enabled", "is_llama_config", "neftune_noise_alpha", "perceiver_config", "pixel_shuffle_factor", "architectures"),
    *("_attn_implementation_autoset", "tie_word_embeddings"),
}
_TEXT_OFF: Mapping[str, tuple[Any, ...]] = {"qk_layer_norms": (False, None), "use_resampler": (False, None)}
_LLAMA = {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}
_TOP = HARMLESS | {"model_type", "text_config", "vision_config", "tie_word_embeddings", "eos_token_id", "initializer_range", "vocab_size"}
_LLAVA = _TOP | {
    *("image_token_index", "image_token_id", "image_seq_length", "multimodal_projector_bias", "projector_hidden_act", "ignore_index"),
    *("vision_feature_layer", "vision_feature_select_strategy"),
}
_SMOL = _TOP | {"image_token_id", "scale_factor", "ignore_index", "_pad_token_id"}
ARCHITECTURES = {
    "llava": "LlavaForConditionalGeneration",
    "idefics3": "Idefics3ForConditionalGeneration",
    "smolvlm": "SmolVLMForConditionalGeneration",
}


def sighted_config(fields: Mapping[str, Any]) -> SightedConfig:
    """Returns the configuration of the model that config.json describes.

    Raises: Unsupported with the field that is not implemented; UserError for a malformed value.
    """
    kind = fields.get("model_type")
    if kind not in ARCHITECTURES:
        raise Unsupported("model_type", kind)
    for name, value in fields.items():
        known = _LLAVA if kind == "llava" else _SMOL
        if name == "architectures":
            if value not in (None, [ARCHITECTURES[kind]]):
                raise Unsupported(name, value)
        elif name not in known and not _off(name, value):
            raise Unsupported(name, value)
    text = _text(fields)
    return (_llava if kind == "llava" else _smol)(fields, text)


def _llava(fields: Mapping[str, Any], text: DecoderConfig) -> SightedConfig:
    layer, strategy = fields.get("vision_feature_layer", -2), fields.get("vision_feature_select_strategy", "default")
    if isinstance(layer, bool) or not isinstance(layer, int):
        raise Unsupported("vision_feature_layer", layer)
    if strategy not in ("default", "full"):
        raise Unsupported("vision_feature_select_strategy", strategy)
    kind, vision = _vision(fields, ("siglip_vision_model", "clip_vision_model"), "clip_vision_model")
    if strategy == "default" and not kind.class_token:
        raise Unsupported("vision_feature_select_strategy", strategy)  # it would drop the first patch
    tower = _tower(kind, vision, layer=layer, keeps_class=strategy == "full")
    projector = ProjectorConfig(
        bias=flag(fields, "multimodal_projector_bias", True), activation=_activation(fields, "projector_hidden_act", "gelu")
    )
    return SightedConfig(text, tower, projector, _placeholder(fields, 32000))


def _smol(fields: Mapping[str, Any], text: DecoderConfig) -> SightedConfig:
    kind, vision = _vision(fields, ("idefics3_vision", "smolvlm_vision"), f"{fields['model_type']}_vision")
    tower, shuffle = _tower(kind, vision, layer=None, keeps_class=False), size(fields, "scale_factor", 2)
    if tower.side % shuffle:
        raise UserError(
            f"config.json: `scale_factor` is {shuffle}, but the tower has {tower.side} patches per side; the number of patches must be a multiple "
            "of scale_factor"
        )
    return SightedConfig(text, tower, ProjectorConfig(shuffle=shuffle), _placeholder(fields, 128257))


def _text(fields: Mapping[str, Any]) -> DecoderConfig:
    given = fields.get("text_config")
    if not isinstance(given, Mapping):
        raise Unsupported("text_config", given)
    for name, values in _TEXT_OFF.items():
        if given.get(name) not in values:
            raise Unsupported(f"text_config.{name}", given[name])
    text = {name: value for name, value in given.items() if name not in {*_TEXT_HARMLESS, *_TEXT_OFF}}
    text.setdefault("model_type", "llama")
    if text["model_type"] == "llama":
        text = {**{name: value for name, value in _LLAMA.items() if name not in text}, **text}
    text["tie_word_embeddings"] = flag(fields, "tie_word_embeddings", flag(given, "tie_word_embeddings"))
    if "eos_token_id" in fields:
        text["eos_token_id"] = fields["eos_token_id"]
    try:
        return decoder_config(text)
    except Unsupported as error:
        raise Unsupported(f"text_config.{error.field}", error.value) from None


def _vision(fields: Mapping[str, Any], known: tuple[str, ...], default: str) -> tuple[_TowerKind, Mapping[str, Any]]:
    given = fields.get("vision_config")
    if not isinstance(given, Mapping):
        raise Unsupported("vision_config", given)
    name = given.get("model_type", default)
    if name not in known:
        raise Unsupported("vision_config.model_type", name)
    for field, value in given.items():
        if field not in _TOWER_HARMLESS and not (field in _TOWER_OFF and value in _TOWER_OFF[field]) and not _off(field, value):
            raise Unsupported(f"vision_config.{field}", value)
    return TOWERS[name], given


def _tower(kind: _TowerKind, given: Mapping[str, Any], *, layer: int | None, keeps_class: bool) -> TowerConfig:
    """Returns the tower's configuration. `layer`: the index of the hidden states that are used, as in transformers.

    Index 0 means the embeddings. The index None means the last hidden states, after the norm.
    """
    hidden, inner, layers, heads, image, patch = (size(given, name, kind.sizes[name]) for name in _SIZES)
    if hidden % heads:
        raise UserError(f"config.json: `vision_config` has `hidden_size` {hidden} and {heads} heads; the size must be a multiple of the number of heads")
    if layer is not None and not -layers - 1 <= layer <= layers:
        raise UserError(f"config.json: `vision_feature_layer` is {layer}, but the tower has {layers} layers; give a number from {-layers - 1} to {layers}")
    return TowerConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        layers=layers if layer is None else layer % (layers + 1),
        heads=heads,
        image_size=image,
        patch_size=patch,
        eps=not_negative(given, "layer_norm_eps", kind.eps),
        activation=_activation(given, "hidden_act", kind.activation, "vision_config."),
        class_token=kind.class_token,
        keeps_class=keeps_class,
        normed=layer is None,
        fractions=kind.fractions,
    )


def _placeholder(fields: Mapping[str, Any], default: int) -> int:
    value = fields.get("image_token_id", fields.get("image_token_index", default))
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"config.json: `image_token_id` is {value!r}; it must be the id of the picture's placeholder token")
    return value


def _activation(fields: Mapping[str, Any], name: str, default: str, where: str = "") -> str:
    value = fields.get(name, default)
    if value not in ACTIVATIONS:
        raise Unsupported(where + name, value)
    return str(value)


def _off(name: str, value: Any) -> bool:
    return name in OFF and value in OFF[name]
