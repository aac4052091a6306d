"""The two passes through a network per micro-batch: rows without gradient, and gradients from derivatives by the rows.

A policy shared among processes (`gradus.systems.leader`) has its own `passes` and `carry`, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradus.types import Context, Key
from gradus.types.signals import Want, seen_through

Rows = Mapping[Want, Tensor]
Slopes = Callable[[list[int], Rows], "Rows | None"]
"""From a micro-batch's contexts (their indices) and detached rows to the derivative of the loss by each row; None without one."""


def passes(
    policy: Any, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key
) -> Iterator[tuple[list[int], Rows]]:
    """(indices of the contexts, their wanted rows) of every micro-batch, in order and without gradient."""
    own = getattr(policy, "passes", None)
    if own is not None:
        yield from own(contexts, wants, micro_tokens, key)
        return
    for chosen in policy.micro_batches(contexts, micro_tokens):
        with torch.no_grad():
            rows = evaluated(policy, [contexts[i] for i in chosen], wants, key)
        yield chosen, rows


def carry(policy: Any, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key, slopes: Slopes) -> None:
    """Adds to the network's gradients those of every micro-batch's rows, with the derivatives from `slopes`, in order."""
    own = getattr(policy, "carry", None)
    if own is not None:
        own(contexts, wants, micro_tokens, key, slopes)
        return
    for chosen in policy.micro_batches(contexts, micro_tokens):
        rows = evaluated(policy, [contexts[i] for i in chosen], wants, key)
        backward(rows, slopes(chosen, detached(rows)))


def evaluated(policy: Any, contexts: Sequence[Context], wants: Sequence[Want], key: Key) -> Rows:
    """The wanted rows of every action: one pass per view, over the contexts as they are seen through it."""
    views = dict.fromkeys(want.view for want in wants)
    out: dict[Want, Tensor] = {}
    for view in views:
        seen = contexts if view is None else seen_through(view, contexts, key)
        out |= policy.evaluate(seen, tuple(w for w in wants if w.view == view), key=key)
    return {want: out[want] for want in wants}


def detached(rows: Rows) -> Rows:
    """The rows without their autograd graph."""
    return {want: row.detach() for want, row in rows.items()}


def backward(rows: Rows, slopes: Rows | None) -> None:
    """Adds the gradient of sum(slope * row) to the tensors behind the rows. Rows without gradient or slope are skipped."""
    moving = [w for w in rows if slopes is not None and slopes.get(w) is not None and rows[w].requires_grad]
    if moving and slopes is not None:
        torch.autograd.backward([rows[w] for w in moving], [slopes[w].to(rows[w]) for w in moving])
