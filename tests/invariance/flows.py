"""A batch of a flow generator's actions: drawn steps with what both kinds of its terms read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gradus.types import Context, Frozen, Key, prompt_context
from gradus.types.batch import Batch
from tests.invariance.splits import as_dtype
from tests.reference.given import DIMENSION, DRAWS, Row, Shape, batch_of, rows_of


def batch_for_flow(policy: Any, shape: list[list[Shape]], dtype: torch.dtype, seed: int = 0) -> Batch:
    """Rows of the reference, each a noise step from a drawn place; log-probabilities and errors at the start lie about the policy's."""
    from gradus.types.signals import LogProb, MatchingError

    rows = rows_of(shape, seed)

    def context_of(number: int, mine: list[Row]) -> Context:
        key, count = Key(11).fold("context", number), len(mine)
        streams = {
            "sample": key.fold("sample").normal(count, DIMENSION),
            "condition": np.tile([1.0, 0.0], (count, 1)),
            "key": np.array([key.fold(i).value for i in range(count)], np.uint64),
            "latent": key.fold("latent").normal(count, DIMENSION),
            "next": key.fold("next").normal(count, DIMENSION),
            "time": np.array([r.times[0] for r in mine]),
            "pull": np.full(count, 0.9),
            "gain": np.array([r.gain for r in mine]),
            "spread": np.array([1 + r.spread for r in mine]),
        }
        logprobs = np.array([r.behaviour for r in mine], np.float32)
        tokens = np.zeros(count, np.int32)
        return Context(tokens, np.ones(count, bool), logprobs=logprobs, streams=Frozen(streams), parent=(prompt_context([]), 0))

    batch = batch_of(rows, context_of)
    with torch.no_grad():
        now = policy.evaluate(batch.contexts, (LogProb(), MatchingError(DRAWS)))
    shift = {w: v + (batch.old[w] - batch.old[w].mean()) * 0.3 for w, v in ((w, now[w].double()) for w in now)}
    shift[MatchingError(DRAWS)] = shift[MatchingError(DRAWS)].clamp(min=0.01)
    return as_dtype(replace(batch, old=shift), dtype)
