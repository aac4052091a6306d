"""Reads and writes the weights of a model folder as safetensors. The name and shape of every tensor are checked.

No pickled file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from gradus.policies.config import decoder_config, read_json
from gradus.policies.decoder import Decoder
from gradus.policies.expert_files import from_files, to_files
from gradus.runtime import hub
from gradus.types import UserError

_UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def load_decoder(folder: str | Path, *, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> Decoder:
    """Loads the decoder in a folder with config.json and safetensors.

    Raises: Unsupported if the configuration needs transformers; UserError with the file if the folder is missing, malformed or unsafe.
    """
    folder = check_folder(folder)
    fields = read_json(folder / "config.json")
    try:
        config = decoder_config(fields)
    except UserError as error:
        text = str(error).removeprefix("config.json: ")
        raise UserError(f"{folder / 'config.json'}: {text}; fix it, or copy the model again") from None
    with torch.device("meta"):
        decoder = Decoder(config)
    fill(decoder, from_files(read_weights(folder, device), config, folder), folder, dtype)
    return decoder


def check_folder(folder: str | Path) -> Path:
    """Returns the folder as a path. Raises UserError if the folder does not exist or has no config.json."""
    path = Path(folder)
    if not path.exists():
        if "/" in str(folder) and not path.parent.exists() and (way := hub.model(str(folder))) is not None:
            raise UserError(f'there is no folder "{folder}", and models are not downloaded automatically; {way}')
        way = hub.model(str(folder))
        own = "give a folder saved by save_pretrained or `gradus export`"
        raise UserError(f'model folder "{folder}" does not exist; {own}{f"; for a model of the Hugging Face Hub, {way}" if way else ""}')
    if not path.is_dir():
        raise UserError(f'model "{folder}" is a file; give the folder with config.json and the .safetensors files')
    if not (path / "config.json").is_file():
        raise UserError(f'model folder "{folder}" has no config.json; give a folder saved by save_pretrained or `gradus export`')
    return path


def fill(decoder: Decoder, weights: Mapping[str, Tensor], folder: Path, dtype: torch.dtype) -> None:
    """Puts the weights into the decoder, by name.

    Raises UserError for the first tensor that is missing, has another shape, is not finite or is unexpected.
    """
    expected = dict(decoder.named_parameters())
    # Old checkpoints also contain the tied head, and old versions stored the rotary frequencies as buffers.
    spare = {"lm_head.weight"} if decoder.config.tie_word_embeddings else set()
    for name, parameter in expected.items():
        if name not in weights:
            raise UserError(f'model folder "{folder}": tensor {name} is missing from its safetensors files; copy the model again')
        if weights[name].shape != parameter.shape:
            raise UserError(
                f'model folder "{folder}": tensor {name} has shape {list(weights[name].shape)}, but config.json requires '
                f"{list(parameter.shape)}; copy the model again, because its config.json and its weights do not belong together"
            )
        if not weights[name].isfinite().all():
            raise UserError(f'model folder "{folder}": tensor {name} contains NaN or infinity; take an earlier checkpoint, from before the training diverged')
    extra = [n for n in weights if n not in expected and n not in spare and not n.endswith("rotary_emb.inv_freq")]
    if extra:
        raise UserError(
            f'model folder "{folder}": tensor {extra[0]} is not part of a {decoder.config.family} model; '
            f"copy the model again, because its config.json and its weights do not belong together ({len(extra)} such tensors)"
        )
    decoder.load_state_dict({name: weights[name].to(dtype) for name in expected}, assign=True)
    for parameter in decoder.parameters():
        parameter.requires_grad_(True)


def read_weights(folder: Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Reads all tensors in a folder's model.safetensors, or in the shards that its index names."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights: dict[str, Tensor] = {}
    for file in weight_files(folder):
        try:
            weights.update(load_file(file, device=str(device)))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is not a complete safetensors file ({error}); copy or save the model again") from None
    return weights


def weight_files(folder: Path) -> list[Path]:
    """Returns the safetensors files of a folder. Raises UserError if the folder has no weights, if a shard is missing, or if all weights are pickled."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        if not names:
            raise UserError(f"{index} names no file with weights; copy the model again")
        missing = [n for n in names if Path(n).name != n or not (folder / n).is_file()]
        if missing:
            raise UserError(f"{index} names {missing[0]}, which is not in the folder; copy the model again")
        return [folder / name for name in names]
    unsafe = [file for pattern in _UNSAFE for file in sorted(folder.glob(pattern))]
    if unsafe:
        raise UserError(
            f"{unsafe[0]} contains pickled weights, which Gradus does not read because they can run code; save the model as safetensors "
            "(model.save_pretrained(folder))"
        )
    raise UserError(f'model folder "{folder}" has no model.safetensors; give a folder saved by save_pretrained or `gradus export`')


def state_dict(decoder: Decoder) -> dict[str, Tensor]:
    """Returns names and tensors in the form in which they are saved: detached, contiguous, on the CPU."""
    return to_files({name: p.detach().to("cpu").contiguous() for name, p in decoder.named_parameters()}, decoder.config)


def save_weights(weights: Mapping[str, Tensor], folder: Path) -> None:
    """Writes model.safetensors under a temporary name and renames it, so a file with the final name is never incomplete."""
    from safetensors.torch import save_file

    part = folder / "model.safetensors.part"
    save_file(dict(weights), part, metadata={"format": "pt"})
    part.replace(folder / "model.safetensors")
