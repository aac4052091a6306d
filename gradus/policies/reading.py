"""Computes the rows of wants from an opened pass, for policies of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradus.types import Key, UserError
from gradus.types.returned import named
from gradus.types.signals import Want, remedy


def read(opened: Any, wants: Sequence[Want], key: Key) -> dict[Want, Tensor]:
    """Returns the rows of every want, in float32 at least.

    The rows are computed from values of the pass. Each value is a method of `types.signals.Opened` that belongs to an ability of the policy. Wants that read
    hidden states are computed first, so the pass to the last layer continues from these states. Raises UserError if a want does not give one row
    per action.
    """
    order = sorted(range(len(wants)), key=lambda i: not wants[i].needed & {"hidden"})
    found: dict[Want, Tensor] = {}
    for i in order:
        want = wants[i]
        if type(want).rows is Want.rows:
            raise UserError(f"{named(want)} has no method `rows`; write def rows(self, opened, key), which returns one row per action")
        rows = want.rows(opened, key)
        actions = sum(c.actions for c in opened.contexts)
        if not isinstance(rows, Tensor) or rows.ndim == 0 or len(rows) != actions:
            shape = f"a tensor of shape {list(rows.shape)}" if isinstance(rows, Tensor) else repr(rows)[:60]
            raise UserError(f"{named(want, 'rows')} returned {shape} for {actions} actions; it must return one row per action, [{actions}, ...]")
        found[want] = rows if rows.dtype in (torch.float32, torch.float64) or not rows.is_floating_point() else rows.float()
    return {want: found[want] for want in wants}


def check_offered(wants: Sequence[Want], can: frozenset[str], policy: str) -> None:
    """Raises UserError if the policy lacks an ability that a want needs."""
    for want in wants:
        if lacking := sorted(want.needed - can):
            raise UserError(f"{policy} does not offer {type(want).__name__}, which needs {lacking[0]}; {remedy(lacking[0], can)}")
