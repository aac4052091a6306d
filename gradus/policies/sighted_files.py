"""Loads the folders of LLaVA, SmolVLM and Idefics3 models.

Tensors have different names in files and in memory. A folder also describes how pictures are prepared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradus.policies.config import read_json
from gradus.policies.expert_files import from_files, to_files
from gradus.policies.loading import fill, read_weights
from gradus.policies.pictures import Preparation, preparation
from gradus.policies.sighted import Sighted, SightedConfig
from gradus.policies.sighted_config import sighted_config
from gradus.types import UserError

FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
# Beginnings of names in files and in memory. If several entries have the same beginning in memory, the first entry gives the name for writing.
_LLAVA = (
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("multi_modal_projector.", "projector."),
    ("vision_tower.vision_model.", "tower."),
    ("vision_tower.", "tower."),
    ("model.language_model.", "model."),
    ("model.multi_modal_projector.", "projector."),
    ("model.vision_tower.vision_model.", "tower."),
    ("model.vision_tower.", "tower."),
)
_SMOL = (("model.text_model.", "model."), ("model.vision_model.", "tower."), ("model.connector.", "projector."))
NAMES: Mapping[str, tuple[tuple[str, str], ...]] = {"llava": _LLAVA, "smolvlm": _SMOL, "idefics3": _SMOL}
# Tensors of a tower without an effect on the features: the pooling, the layers after the chosen layer, the norm after the last layer.
_UNUSED = ("tower.encoder.layers.", "tower.post_layernorm.", "tower.head.")


@dataclass(frozen=True, eq=False)
class SightedFolder:
    """The content of a saved model's folder in addition to the weights that are in use."""

    names: Mapping[str, str]  # name in memory -> name in the files
    unused: Mapping[str, Tensor]  # unused tensors by their names in the files
    files: Mapping[str, bytes]  # the files of the processor, unchanged


def load_sighted(folder: Path, *, dtype: torch.dtype, device: torch.device | str) -> tuple[Sighted, SightedFolder]:
    """Loads the network in a folder, and the other contents of the folder.

    Raises: Unsupported with the field that is not implemented; UserError with the file if the folder is incomplete or malformed.
    """
    fields = read_json(folder / "config.json")
    try:
        config = sighted_config(fields)
    except UserError as error:
        text = str(error).removeprefix("config.json: ")
        raise UserError(f"{folder / 'config.json'}: {text}; fix it, or copy the model again") from None
    prepare = _preparation(folder, config)
    with torch.device("meta"):
        network = Sighted(config, prepare)
    expected = dict(network.named_parameters())
    weights, names, unused = {}, {}, {}
    for name, tensor in read_weights(folder, device).items():
        own = _own(name, NAMES[fields["model_type"]])
        if own in expected or not own.startswith(_UNUSED):
            weights[own], names[own] = tensor, name
        else:
            unused[name] = tensor
    weights = {n: t for n, t in weights.items() if not n.endswith("position_ids")}
    missing = [name for name in expected if name.startswith(("tower.", "projector.")) and name not in weights]
    if missing:
        filed = _filed(missing[0], NAMES[fields["model_type"]])
        raise UserError(f'model folder "{folder}": tensor {filed} is missing from its safetensors files; copy the model again')
    fill(network, from_files(weights, config.text, folder), folder, dtype)
    files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    return network, SightedFolder(names, unused, files)


def sighted_weights(weights: Mapping[str, Tensor], network: Sighted, kind: str, folder: SightedFolder | None) -> dict[str, Tensor]:
    """Returns tensors by their names in files, from the weights by their names in memory.

    The result includes the tensors that are not in use.
    """
    found = to_files(weights, network.config)
    names = {} if folder is None else folder.names
    unused = {} if folder is None else dict(folder.unused)
    return {names.get(name) or _filed(name, NAMES[kind]): tensor for name, tensor in found.items()} | unused


def _preparation(folder: Path, config: SightedConfig) -> Preparation:
    fields: Mapping[str, Any] | None = None
    if (folder / "preprocessor_config.json").is_file():
        fields = read_json(folder / "preprocessor_config.json")
    elif (folder / "processor_config.json").is_file():
        fields = read_json(folder / "processor_config.json").get("image_processor")
    if fields is None:
        raise UserError(
            f'model folder "{folder}" has no preprocessor_config.json, which defines the size of the pictures; '
            "save the processor of the model in this folder with save_pretrained"
        )
    try:
        return preparation(fields, config.tower.image_size, splits=config.projector.shuffle > 0)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None


def _own(name: str, names: tuple[tuple[str, str], ...]) -> str:
    first, own = next(((f, o) for f, o in names if name.startswith(f)), ("", ""))
    return own + name.removeprefix(first)


def _filed(name: str, names: tuple[tuple[str, str], ...]) -> str:
    own_names = [(f, o) for f, o in names if f != "vision_tower.vision_model."]
    first, own = next(((f, o) for f, o in own_names if name.startswith(o)), ("", ""))
    return first + name.removeprefix(own)
