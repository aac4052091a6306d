"""Converts values to JSON and back. Tuples stay tuples, arrays stay arrays, and media stay media; mappings become `Frozen`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradus.types.frozen import Frozen
from gradus.types.media import Media
from gradus.types.pictures import read, reference, written


def packed(value: Any, held: dict[str, np.ndarray] | None = None) -> Any:
    """Converts a value to lists and dictionaries. The result marks tuples, because a verifier may distinguish a tuple from a list.

    `held`: a mapping digest -> array. The arrays of all media are added to this mapping. If `held` is None, the arrays are part of the result.
    """
    if isinstance(value, Media):
        if held is None:
            return {"media": written(value)}
        held.setdefault(value.digest, value.array)
        return {"media": reference(value)}
    if isinstance(value, np.ndarray) and value.dtype != object:
        return {"array": [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {"map": {key: packed(v, held) for key, v in value.items()}}
        return {"pairs": [[packed(key, held), packed(v, held)] for key, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list": [packed(v, held) for v in value]}
    return value


def unpacked(value: Any, held: Mapping[str, np.ndarray] = Frozen()) -> Any:
    """The inverse of `packed`. Mappings become `Frozen`."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "media":
        return read(inner) if "data" in inner else Media(inner["kind"], held[inner["digest"]], inner["rate"])
    if kind == "array":
        dtype, shape, data = inner
        return np.frombuffer(base64.b64decode(data), dtype).reshape(shape).copy()
    if kind == "map":
        return Frozen({key: unpacked(v, held) for key, v in inner.items()})
    if kind == "pairs":
        return Frozen({unpacked(key, held): unpacked(v, held) for key, v in inner})
    return (tuple if kind == "tuple" else list)(unpacked(v, held) for v in inner)
