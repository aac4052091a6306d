"""The form in which a state is stored: plain JSON and separate arrays, without code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def split(value: Any) -> tuple[Any, dict[str, Any]]:
    """Splits a state into (JSON, tensors by path). In the JSON, {"array": path} replaces each array and tensor. Raises TypeError for other types."""
    import torch

    arrays: dict[str, Any] = {}

    def walk(node: Any, path: str) -> Any:
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, np.generic):
            return node.item()
        if isinstance(node, (np.ndarray, torch.Tensor)):
            path = path if path not in arrays else f"{path}#{len(arrays)}"  # keys "a.b", "c" and keys "a", "b.c" give the same path
            arrays[path] = torch.from_numpy(node.copy()) if isinstance(node, np.ndarray) else node.detach().clone()
            return {"array": path, "numpy": isinstance(node, np.ndarray)}
        if isinstance(node, (list, tuple)):
            return [walk(v, f"{path}.{i}") for i, v in enumerate(node)]
        if isinstance(node, Mapping):
            for key in node:
                if not isinstance(key, str):
                    raise TypeError(f"the state at {path.strip('.')} has the key {key!r} of type {type(key).__name__}; keys must be text")
            return {"map": {k: walk(v, f"{path}.{k}") for k, v in node.items()}}
        raise TypeError(
            f"the state at {path.strip('.')} is a {type(node).__name__}; a state may contain only numbers, text, lists, dictionaries, arrays and tensors"
        )

    return walk(value, ""), arrays


def join(document: Any, arrays: Mapping[str, Any]) -> Any:
    """Joins the two results of `split` into a state. Tuples become lists."""
    if isinstance(document, list):
        return [join(v, arrays) for v in document]
    if isinstance(document, dict):
        if "map" in document:
            return {k: join(v, arrays) for k, v in document["map"].items()}
        found = arrays[document["array"]]
        return found.numpy().copy() if document["numpy"] else found.clone()
    return document
