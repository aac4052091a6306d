"""Writes a reward model as a sequence classifier of transformers: the same trunk, and the heads as the rows of its layer `score`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gradus.policies.heads import FILE, SEVERAL, names_of
from gradus.types import UserError


def write_classifier(source: Path, target: Path) -> None:
    """Writes the model in `source` to `target` as a sequence classifier. The model must have heads. `AutoModelForSequenceClassification` then loads it from
    `target`, with the same scores.

    Class i is head i. The scores belong to the prompt and the answer without the end token. The end token is also the padding token, so an answer with its
    end token has the same scores.
    Raises UserError if the model has no heads, if the heads have a hidden layer or a bias, or if transformers has no such classifier.
    """
    names = names_of(source)
    if names is None:
        raise UserError(f"{source} has no heads with one number per answer, so it is no reward model; give the run of a recipe that trains a value head")
    score = _score(source, names)
    fields = _config(json.loads((source / "config.json").read_text(encoding="utf-8")), names)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(FILE, SEVERAL, "adapter"))
    (target / "config.json").write_text(json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    _add_tensor(target, "score.weight", score)


def _score(source: Path, names: tuple[str, ...]) -> Any:
    """Returns the weights of the heads, [heads, width]. Raises UserError if the heads are not linear, or if a bias is not 0."""
    from safetensors.torch import load_file

    path = next(source / name for name in (FILE, SEVERAL) if (source / name).is_file())
    tensors = load_file(path)
    if "inner_weight" in tensors:
        raise UserError(f"the heads {', '.join(names)} have a hidden layer, which a sequence classifier lacks; train the run with hidden=0 in its Head")
    if "bias" in tensors and float(tensors["bias"].abs().max()) > 0:
        raise UserError(
            f"the heads {', '.join(names)} have a bias, which a sequence classifier of transformers lacks, so the scores would change; "
            "train the run with --players.policy.model.bias false"
        )
    return tensors["weight"]


def _config(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = type(AutoConfig.for_model(fields["model_type"]))
    known: Any = AutoModelForSequenceClassification._model_mapping.get(config, None)
    if known is None:
        raise UserError(f"transformers has no sequence classifier for models of type {fields['model_type']}; export the model itself, without --as classifier")
    ends = fields.get("eos_token_id")
    padding = fields.get("pad_token_id")
    return {
        **fields,
        "architectures": [known.__name__],
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        "problem_type": "regression",
        "pad_token_id": padding if padding is not None else ends[0] if isinstance(ends, list) else ends,
    }


def _add_tensor(folder: Path, name: str, tensor: Any) -> None:
    """Adds a tensor to a model's folder, as a further file of a folder with several files."""
    from safetensors.torch import load_file, save_file

    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if not index.is_file():
        tensors = load_file(single)
        save_file({**tensors, name: tensor.to(next(iter(tensors.values())).dtype)}, single, metadata={"format": "pt"})
        return
    about, file = json.loads(index.read_text(encoding="utf-8")), "score.safetensors"
    about["weight_map"][name] = file
    save_file({name: tensor}, folder / file, metadata={"format": "pt"})
    index.write_text(json.dumps(about, indent=2, sort_keys=True) + "\n", encoding="utf-8")
