"""The two passes of a micro-batch through a network. `passes` computes rows without gradient; `carry` computes gradients and adds them up.

A policy that is shared among processes (`gradus.systems.leader`) has its own methods `passes` and `carry`, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradus.runtime.activity import part
from gradus.types import Context, Key
from gradus.types.signals import Want, seen_through

Rows = Mapping[Want, Tensor]
Slopes = Callable[[list[int], Rows], "Rows | None"]
"""A function of the indices of a micro-batch's contexts and of its detached rows. It returns the derivative of the loss with respect to each row, or None."""


def passes(
    policy: Any, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key
) -> Iterator[tuple[list[int], Rows]]:
    """Yields, for every micro-batch in order, the indices of its contexts, and the rows of every `Want` without gradient."""
    own = getattr(policy, "passes", None)
    if own is not None:
        yield from own(contexts, wants, micro_tokens, key)
        return
    for chosen in policy.micro_batches(contexts, micro_tokens):
        with torch.no_grad(), part("forward", outputs=sum(contexts[i].actions for i in chosen)):
            rows = evaluated(policy, [contexts[i] for i in chosen], wants, key)
        yield chosen, rows


def carry(policy: Any, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key, slopes: Slopes) -> None:
    """Adds the gradients of all micro-batches to the network's gradients, in order.

    `slopes` returns the derivative of the loss with respect to each row of a micro-batch; the backward pass starts from these derivatives.
    """
    own = getattr(policy, "carry", None)
    if own is not None:
        own(contexts, wants, micro_tokens, key, slopes)
        return
    for chosen in policy.micro_batches(contexts, micro_tokens):
        with part("forward", outputs=sum(contexts[i].actions for i in chosen)):
            rows = evaluated(policy, [contexts[i] for i in chosen], wants, key)
        found = slopes(chosen, detached(rows))
        with part("backward"):
            backward(rows, found)


def evaluated(policy: Any, contexts: Sequence[Context], wants: Sequence[Want], key: Key) -> Rows:
    """Returns, for each `Want`, a row per action. Makes one pass for each view, over the contexts in the form of this view."""
    views = dict.fromkeys(want.view for want in wants)
    out: dict[Want, Tensor] = {}
    for view in views:
        seen = contexts if view is None else seen_through(view, contexts, key)
        out |= policy.evaluate(seen, tuple(w for w in wants if w.view == view), key=key)
    return {want: out[want] for want in wants}


def detached(rows: Rows) -> Rows:
    """Returns the rows without their autograd graph."""
    return {want: row.detach() for want, row in rows.items()}


def backward(rows: Rows, slopes: Rows | None) -> None:
    """Adds the gradient of sum(slope * row) to the gradients of the tensors from which the rows were computed. A row without gradient or without slope is
    skipped.
    """
    moving = [w for w in rows if slopes is not None and slopes.get(w) is not None and rows[w].requires_grad]
    if moving and slopes is not None:
        torch.autograd.backward([rows[w] for w in moving], [slopes[w].to(rows[w]) for w in moving])
