"""Values as JSON and back: tuples stay tuples, mappings come back frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradus.types.frozen import Frozen


def packed(value: Any) -> Any:
    """A value as lists and dictionaries that record which were tuples, because a verifier may compare answers by type."""
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {"map": {key: packed(v) for key, v in value.items()}}
        return {"pairs": [[packed(key), packed(v)] for key, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list": [packed(v) for v in value]}
    return value


def unpacked(value: Any) -> Any:
    """The inverse of `packed`; mappings come back frozen."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "map":
        return Frozen({key: unpacked(v) for key, v in inner.items()})
    if kind == "pairs":
        return Frozen({unpacked(key): unpacked(v) for key, v in inner})
    return (tuple if kind == "tuple" else list)(unpacked(v) for v in inner)
