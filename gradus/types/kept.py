"""Writes groups as plain state and reads them back. Contexts, streams, rewards and behaviour log-probabilities keep the same bytes.

The state of a group is {"about": JSON text, "arrays": uint8}. So a group has one text and one array, for any number of trajectories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

import numpy as np

from gradus.types.contexts import Context, Ended, Seen
from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.media import Media
from gradus.types.records import Failed, FailureKind, Group, NotApplicable, Problem, Trajectory

_RECORDS = {c.__name__: c for c in (Context, Seen, Media, Problem, Trajectory, Group, Failed)}
_ENUMS: Mapping[str, type[Enum]] = {c.__name__: c for c in (Ended, NotApplicable, FailureKind)}
_PLAIN = (bool, int, float, str)


def kept_group(group: Group) -> dict[str, Any]:
    """Converts a group to plain state.

    Raises UserError if a problem, stream or link contains a value that is not a number, text, list, mapping or array.
    """
    writer = _Writer()
    about = {"group": writer.write(group, f"group {group.key}"), "shared": writer.shared}
    flat = np.concatenate([np.frombuffer(a.tobytes(), np.uint8) for a in writer.arrays] or [np.zeros(0, np.uint8)])
    return {"about": json.dumps(about, separators=(",", ":")), "arrays": flat}


def group_of(kept: Mapping[str, Any]) -> Group:
    """The inverse of `kept_group`. If the state lacks a field, the field gets its default."""
    about = json.loads(kept["about"])
    return _Reader(about["shared"], np.asarray(kept["arrays"])).read(about["group"])


class _Writer:
    """Writes records as JSON and arrays. A context, problem or media object that several records share is written only once."""

    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.arrays: list[np.ndarray] = []
        self.known: dict[int, int] = {}
        self.at = 0

    def write(self, value: Any, where: str) -> Any:
        if value is None or type(value) in _PLAIN:
            return value
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, Enum) and type(value).__name__ in _ENUMS:
            return {"enum": [type(value).__name__, value.value]}
        if isinstance(value, Mapping):
            if any(not isinstance(key, str) for key in value):
                return {"pairs": [[self.write(k, where), self.write(v, f"{where}, {k}")] for k, v in value.items()]}
            return {"map": {key: self.write(v, f"{where}, {key}") for key, v in value.items()}}
        if isinstance(value, (list, tuple)):
            return {"tuple" if isinstance(value, tuple) else "list": [self.write(v, where) for v in value]}
        if type(value).__name__ in _RECORDS and isinstance(value, _RECORDS[type(value).__name__]):
            return self._record(value, where)
        if isinstance(value, (np.generic, *_PLAIN)):
            return value.item() if isinstance(value, np.generic) else value
        raise UserError(
            f"{where} contains a {type(value).__name__}, which cannot be stored for a later step; use numbers, text, lists, mappings and NumPy "
            "arrays in problems, links and streams"
        )

    def _array(self, value: np.ndarray, where: str) -> Any:
        if value.dtype.kind not in "biufc":
            raise UserError(f"{where} contains an array of {value.dtype}, which cannot be stored for a later step; use arrays of numbers")
        place = {"array": [self.at, value.dtype.str, list(value.shape)]}
        self.arrays.append(np.ascontiguousarray(value))
        self.at += value.nbytes
        return place

    def _record(self, value: Any, where: str) -> Any:
        if id(value) not in self.known:
            inside = f"{where}, problem {value.id}" if isinstance(value, Problem) else where
            written = {f.name: self.write(getattr(value, f.name), inside) for f in fields(value)}
            self.known[id(value)] = len(self.shared)
            self.shared.append([type(value).__name__, written])
        return {"record": self.known[id(value)]}


class _Reader:
    def __init__(self, shared: list[Any], arrays: np.ndarray) -> None:
        self.arrays, self.made = arrays, list[Any]()
        for name, written in shared:  # in the order of writing, so that parents come first
            kind = _RECORDS[name]
            here = {f.name for f in fields(kind)}
            self.made.append(kind(**{field: self.read(value) for field, value in written.items() if field in here}))

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, inside),) = value.items()
        if kind == "record":
            return self.made[inside]
        if kind == "array":
            at, dtype, shape = inside
            count = int(np.prod(shape)) * np.dtype(dtype).itemsize
            return np.frombuffer(self.arrays[at : at + count].tobytes(), dtype).reshape(shape).copy()
        if kind == "enum":
            return _ENUMS[inside[0]](inside[1])
        if kind == "map":
            return Frozen({key: self.read(v) for key, v in inside.items()})
        if kind == "pairs":
            return {self.read(k): self.read(v) for k, v in inside}
        return (tuple if kind == "tuple" else list)(self.read(v) for v in inside)
