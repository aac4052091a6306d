"""The two ways through a network, micro-batch by micro-batch: rows without gradient, and gradients carried back from rows.

A policy whose work is shared among processes (`gradus.systems.leader`) brings `passes` and `carry` of its own, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradus.types import Context, Key
from gradus.types.signals import Want

Rows = Mapping[Want, Tensor]
Slopes = Callable[[list[int], Rows], "Rows | None"]
"""From the contexts of a micro-batch (their indices) and their rows, detached, to the derivative of the loss by each row; None: there is none."""


def passes(
    policy: Any, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key
) -> Iterator[tuple[list[int], Rows]]:
    """(indices of the contexts, their wanted rows) of every micro-batch in order, without gradient."""
    own = getattr(policy, "passes", None)
    if own is not None:
        yield from own(contexts, wants, micro_tokens, key)
        return
    for chosen in policy.micro_batches(contexts, micro_tokens):
        with torch.no_grad():
            rows = policy.evaluate([contexts[i] for i in chosen], tuple(wants), key=key)
        yield chosen, rows


def carry(policy: Any, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key, slopes: Slopes) -> None:
    """Adds to the network's gradients what `slopes` gives for the rows of every micro-batch, in order."""
    own = getattr(policy, "carry", None)
    if own is not None:
        own(contexts, wants, micro_tokens, key, slopes)
        return
    for chosen in policy.micro_batches(contexts, micro_tokens):
        rows = policy.evaluate([contexts[i] for i in chosen], tuple(wants), key=key)
        backward(rows, slopes(chosen, detached(rows)))


def detached(rows: Rows) -> Rows:
    """The rows without their graph."""
    return {want: row.detach() for want, row in rows.items()}


def backward(rows: Rows, slopes: Rows | None) -> None:
    """The gradient of sum(slope * row), added to whatever the rows were computed from. Rows without gradient or slope are left out."""
    moving = [w for w in rows if slopes is not None and slopes.get(w) is not None and rows[w].requires_grad]
    if moving and slopes is not None:
        torch.autograd.backward([rows[w] for w in moving], [slopes[w].to(rows[w]) for w in moving])
