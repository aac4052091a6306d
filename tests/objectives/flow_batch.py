"""Batches of a flow generator's actions, written down number by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gradus.types import Context, Frozen, Group, Problem, Trajectory
from gradus.types.batch import Batch, make_batch
from gradus.types.signals import Signal


def batch_of(
    streams: Sequence[Mapping[str, Sequence[Any]]], advantages: Sequence[float], signals: Mapping[Signal, Sequence[Any]] | None = None
) -> Batch:
    """One group in float64: a trajectory of one context for every entry of `streams`; signals by trajectory."""
    made = []
    for i, (entry, advantage) in enumerate(zip(streams, advantages, strict=True)):
        count = len(next(iter(entry.values())))
        arrays = Frozen({n: np.array(v) for n, v in entry.items()})
        context = Context(np.zeros(count, np.int32), np.ones(count, bool), streams=arrays)
        made.append(Trajectory(f"t{i}", Problem("p", "flow"), (context,), reward=0.0, advantages=np.full(count, advantage)))
    rows = {s: {f"t{i}": np.array(v, np.float64) for i, v in enumerate(values)} for s, values in (signals or {}).items()}
    return make_batch([Group("g", tuple(made))], rows, dtype=torch.float64)
