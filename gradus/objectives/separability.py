"""Tests the declaration `separable` of a term.

A separable term is a plain sum over actions. The slope of an action in such a sum does not depend on how the batch is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from gradus.objectives.terms import Term, evaluate
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.returned import named, own_parts
from gradus.types.signals import Want

Rows = Mapping[Want, Tensor]


def coupled(terms: Mapping[str, Term], rows: Rows, batch: Batch) -> list[str]:
    """Returns the names of the terms that declare `separable`, but whose slopes change if the batch is cut into its contexts.

    `rows` contains the rows that the terms want, for the actions of the batch. Numbers that differ from action to action replace the advantages and the rows
    at the start of the update. So the result does not depend on the data. A batch of one context cannot be cut, so the result is empty for such a batch.
    """
    waves = torch.cos(torch.arange(batch.actions).to(batch.weight))
    old = {w: row.detach() - 0.1 * waves.reshape(-1, *[1] * (row.dim() - 1)) for w, row in rows.items() if w.compared}
    probe = replace(batch, advantages=waves, old=old)
    return [name for name, term in terms.items() if term.separable and not _sums(term, rows, probe)]


def _sums(term: Term, rows: Rows, batch: Batch) -> bool:
    """Whether the slopes on the whole batch equal the slopes on each of its contexts alone, up to rounding."""
    whole = _slopes(term, rows, batch)
    for context in range(len(batch.contexts)):
        piece, index = batch.slice([context])
        alone = _slopes(term, {w: row[index] for w, row in rows.items()}, piece)
        for want, slope in whole.items():
            if not torch.allclose(slope[index], alone[want], rtol=1e-3, atol=1e-5 * float(slope.abs().max())):
                return False
    return True


def _slopes(term: Term, rows: Rows, batch: Batch) -> dict[Want, Tensor]:
    """Returns the derivative of the loss with respect to each row in the term's `wants`; zeros for a row that the term does not read."""
    leaves = {w: rows[w].detach().clone().requires_grad_() for w in term.wants}
    loss, _ = evaluate({"term": term}, leaves, batch)
    if loss.requires_grad:
        loss.backward()
    return {w: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for w, leaf in leaves.items()}


def refuse_coupled(terms: Mapping[str, Term], rows: Rows, batch: Batch) -> None:
    """Raises UserError for the first term that declares `separable` but is not separable. The gradient of such a term would depend on the size of
    micro-batches.
    """
    for name in coupled(terms, rows, batch):
        who = " or ".join(named(part) for part in own_parts(terms[name])) or named(terms[name])
        raise UserError(
            f"{who} declares separable = True, but the gradient of the term {name} depends on which answers share a micro-batch; "
            "set separable = False"
        )
