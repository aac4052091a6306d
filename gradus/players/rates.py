"""Chooses the learning rate for a recipe that does not set a rate.

A rule computes the rate from the size of the policy's model. The rate is higher if only an adapter is trained.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradus.policies.registry import of_folder
from gradus.recipe.core import Recipe
from gradus.types import UserError
from gradus.types.players import Adapter, Fresh

BUILT_IN = 1e-4  # for the built-in models and for flows; their recorded learning curves use this rate
AT_A_MILLION = 5e-4
POWER = 0.6
MOST, LEAST = 1e-3, 1e-6
ADAPTER = 10.0  # the rate of an adapter is this factor times the rate that is used if all weights are trained


def rate_for(parameters: int, *, adapter: bool = False) -> float:
    """Computes the learning rate of AdamW for a language model of this size, rounded to two significant digits.

    rate = 5e-4 (1e6 / parameters)^0.6 within [1e-6, 1e-3], and ten times this rate for an adapter.

    >>> rate_for(1_000_000), rate_for(7_000_000_000), rate_for(1_000_000, adapter=True)
    (0.0005, 2.5e-06, 0.005)
    """
    rate = min(MOST, max(LEAST, AT_A_MILLION * (1e6 / parameters) ** POWER)) * (ADAPTER if adapter else 1.0)
    digits = 1 - math.floor(math.log10(rate))
    return round(rate, digits)


def with_rate(recipe: Recipe, model: str | Path | None) -> Recipe:
    """Returns the recipe with a learning rate.

    If the recipe sets no rate, the rule computes the rate for this model folder (None: the built-in model).
    """
    if recipe.setting.learning_rate is not None:
        return recipe
    return replace(recipe, setting=replace(recipe.setting, learning_rate=_chosen(recipe, model)[0]))


def reason(recipe: Recipe, model: str | Path | None) -> str:
    """Returns the rate for a recipe that sets no rate, with the reason.

    An example is "1.2e-05 for 494,032,768 parameters, all of them trained".
    """
    rate, why = _chosen(recipe, model)
    return f"{rate:g} {why}"


def _chosen(recipe: Recipe, model: str | Path | None) -> tuple[float, str]:
    """Returns the rate and the reason for this rate."""
    relation = recipe.players["policy"].model if "policy" in recipe.players else None
    folder = None if isinstance(relation, Fresh) else relation if isinstance(relation, str) else model
    if not isinstance(folder, str | Path) or str(folder) == "tiny" or not of_folder(folder).sized:
        return BUILT_IN, "for a built-in model, a flow or a controller"
    from gradus.policies.lm import base_of

    base = base_of(str(folder))  # if the folder has only an adapter, the model is the base of the adapter
    parameters, adapter = size_of(base or str(folder)), base is not None or isinstance(relation, Adapter)
    trained = "of which an adapter is trained" if adapter else "all of them trained"
    return rate_for(parameters, adapter=adapter), f"for {parameters:,} parameters, {trained}"


def size_of(folder: str | Path) -> int:
    """Returns the number of weights in a model folder. The number comes from the headers of the safetensors files.

    A head that shares its weights with the embedding is not counted again. Raises UserError if the folder has no model, or if a file is not
    complete.
    """
    from gradus.policies.config import read_json
    from gradus.policies.loading import check_folder, weight_files

    path = check_folder(folder)
    tied = read_json(path / "config.json").get("tie_word_embeddings", False)
    sizes = {name: size for file in weight_files(path) for name, size in _sizes(file)}
    return sum(size for name, size in sizes.items() if not (tied and name == "lm_head.weight"))


def _sizes(file: Path) -> Iterator[tuple[str, int]]:
    """Yields (name, number of elements) for every tensor of a safetensors file. A safetensors file begins with the length of its JSON header."""
    try:
        with open(file, "rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            text = opened.read(min(length, 100_000_000))
        if len(text) != length:
            raise ValueError(f"the header has {len(text)} bytes, but it must have {length} bytes")
        header: dict[str, Any] = json.loads(text)
        for name, about in header.items():
            if name != "__metadata__" and not name.endswith("rotary_emb.inv_freq"):
                yield name, math.prod(about["shape"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise UserError(f"{file} is not a complete safetensors file ({error}); copy or save the model again") from None
