"""Input vectors in place of token embeddings: features of pictures, and latent inputs.

The engine and the packed update use these vectors in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradus.policies.rows import place_rows, take_rows


@dataclass(frozen=True, eq=False)
class Inputs:
    """Vectors that replace the embeddings of some tokens of one sequence. Gradient flows to `rows` in the update."""

    at: np.ndarray  # int64 [k]: positions in the sequence, in rising order
    rows: Tensor  # [k, hidden]
    identity: bytes  # if two sequences have equal tokens and equal `identity`, their vectors are equal

    def within(self, count: int) -> Inputs:
        """Returns the vectors of the first `count` tokens."""
        kept = int(np.searchsorted(self.at, count))
        return self if kept == len(self.at) else Inputs(self.at[:kept], self.rows[:kept], self.identity)


def identity(inputs: Inputs | None) -> bytes:
    """Returns bytes that differ if equal tokens have different vectors. Without vectors, returns no bytes."""
    return b"" if inputs is None or not len(inputs.at) else b"\0inputs\0" + inputs.identity


def replaced(x: Tensor, given: Sequence[tuple[np.ndarray, np.ndarray, Tensor]]) -> Tensor:
    """Returns x [N, hidden] with some rows replaced, with gradient to x and to the new rows.

    `given`: (rows of x, index into the vectors, vectors [k, hidden]). If there are several vectors for one row, the first vector is used.
    """
    if not given:
        return x
    first = np.cumsum([0, *(len(vectors) for _, _, vectors in given)])
    at = np.concatenate([rows for rows, _, _ in given])
    source = np.concatenate([start + index for start, (_, index, _) in zip(first[:-1], given, strict=True)])
    at, chosen = np.unique(at, return_index=True)
    values = torch.cat([vectors.to(x) for _, _, vectors in given])
    on = x.device
    return place_rows(x, torch.from_numpy(at).to(on), take_rows(values, torch.from_numpy(source[chosen]).to(on)))
