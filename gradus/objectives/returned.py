"""Checks the values that the parts of an objective return: their shape, their type of number, and their gradient.

The checks run when the part is called. A check does not read the numbers of a tensor, so it never waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.returned import named, own_parts, shown, wrong
from gradus.types.tally import Tally


def check_rows(part: Any, method: str, value: Any, shape: Sequence[int], each: str, *, of: Tensor | None = None) -> None:
    """Raises UserError unless `value` is a float tensor of this shape.

    `of` is the tensor from which `value` is computed. If `of` has a gradient, `value` must have a gradient too.

    `each` names the things that have one number each, such as "action".
    """
    if not isinstance(value, Tensor) or not value.is_floating_point() or tuple(value.shape) != tuple(shape):
        raise wrong(part, method, shown(value), f"a float tensor of shape {list(shape)}, one number per {each}")
    if of is not None and _learning(of) and not value.requires_grad:
        due = "a value that torch computes from its first argument, without detach: else nothing is learned"
        raise wrong(part, method, f"{shown(value)} without gradient", due)


def check_losses(part: Any, value: Any, log_ratio: Tensor) -> tuple[Tensor, Mapping[str, Tally]]:
    """Returns the losses [A] and metrics of a trust region. Raises UserError if `value` is anything else."""
    losses, metrics = _pair(part, "losses", value, f"(a float tensor of shape [{len(log_ratio)}], a mapping of metrics)")
    check_rows(part, "losses", losses, log_ratio.shape, "action", of=log_ratio)
    _check_metrics(part, "losses", metrics)
    return losses, metrics


def check_loss(part: Any, value: Any, rows: Sequence[Tensor]) -> tuple[Tensor, Mapping[str, Tally]]:
    """Returns the loss and metrics of a term that reads these rows. Raises UserError if `value` is anything else."""
    loss, metrics = _pair(part, "loss", value, "(one float tensor of shape [], a mapping of metrics)")
    if not isinstance(loss, Tensor) or not loss.is_floating_point() or loss.shape != ():
        raise wrong(part, "loss", f"{shown(loss)} as the loss", "one float tensor of shape []: the sum over actions of coefficients * losses")
    if any(_learning(row) for row in rows) and not loss.requires_grad:
        due = "a value that torch computes from `outputs`, without detach; if no action counts, losses * 0.0"
        raise wrong(part, "loss", "a loss without gradient", due)
    _check_metrics(part, "loss", metrics)
    return loss, metrics


def _pair(part: Any, method: str, value: Any, due: str) -> tuple[Any, Any]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise wrong(part, method, shown(value), due)
    return value


def _check_metrics(part: Any, method: str, metrics: Any) -> None:
    due = 'a mapping of names to gradus.types.tally.tally(rows), as in {"ratio": tally(ratio)}, or {}'
    if not isinstance(metrics, Mapping):
        raise wrong(part, method, f"{shown(metrics)} as metrics", due)
    for name, seen in metrics.items():
        if not isinstance(name, str) or not isinstance(seen, Tally):
            raise wrong(part, method, f"{shown(seen)} as metric {name!r:.40}", due)


def _learning(rows: Tensor) -> bool:
    return rows.requires_grad and torch.is_grad_enabled()


def versions(batch: Batch) -> tuple[int, ...]:
    """Returns, for each tensor of a batch, the number of its in-place changes."""
    own = (batch.advantages, batch.returns, batch.weight, batch.behaviour_logprobs, *batch.old.values(), *batch.signals.values())
    return tuple(tensor._version for tensor in own)


def check_unchanged(term: Any, batch: Batch, before: tuple[int, ...]) -> None:
    """Raises UserError if a term, or a part inside it, changed its batch in place, because later terms would then read changed numbers."""
    if versions(batch) != before:
        theirs = [named(part) for part in own_parts(term)]
        raise UserError(
            f"{' or '.join(theirs) or named(term)} changed a tensor of the batch in place, for example by advantages *= 2; make a new tensor: "
            "advantages = advantages * 2"
        )
