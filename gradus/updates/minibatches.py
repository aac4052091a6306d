"""The default update: epochs of mini-batches, with one optimiser step per mini-batch.

The objective is evaluated on the whole mini-batch. In this step, the rows that the objective reads are the leaves of the graph. Then the gradient with
respect to these rows is backpropagated through the model, one micro-batch at a time. So the result does not depend on the size of micro-batches. If the
objective is separable (a sum over actions), the separate forward pass that computes the leaves is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.separability import refuse_coupled
from gradus.objectives.terms import Term, evaluate, separable, wants_of
from gradus.types import Key
from gradus.types.batch import Batch
from gradus.types.masks import of_move
from gradus.types.ranges import check_ranges
from gradus.types.returned import own_parts
from gradus.types.signals import Want
from gradus.types.tally import Tally, merge
from gradus.updates.diagnosis import broken_losses, of_update
from gradus.updates.forward_backward import carry, passes


@dataclass(frozen=True)
class Minibatches:
    """Updates a player with `count` mini-batches per epoch, for `epochs` epochs. The random key determines the order of the mini-batches.

    A mini-batch contains whole trajectories, or whole groups if a term compares the trajectories of a group.
    """

    epochs: int = 1
    count: int = 1
    divides: ClassVar[bool] = True  # this update also works for players whose weights are divided among processes

    def __post_init__(self) -> None:
        check_ranges(self, epochs="[1, inf)", count="[1, inf)")

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Updates every player that has a batch and returns the metrics.

        The metrics of a player other than the policy are named `player/metric`.
        """
        out: dict[str, float] = {}
        for name, batch in batches.items():
            player = players[name]
            if not batch.actions or step % player.spec.every:
                continue
            seen = self.update(player, batch, step, key.fold("update", name), key)
            out |= {metric if name == "policy" else f"{name}/{metric}": value for metric, value in seen.items()}
        return out

    def update(self, player: Any, batch: Batch, step: int, key: Key, reading: Key | None = None) -> dict[str, float]:
        """Updates one player and returns its metrics.

        `key` determines the order of the mini-batches. Signals, views and `Want` objects draw their random numbers from `reading` (None: from `key`). If the
        batch already has rows of the start of the update (`Batch.old`), these rows are kept. If it has no such rows and there are several optimiser steps,
        the rows are computed before the first step.
        """
        terms, reading = player.spec.objective, reading or key
        check_separable(player, batch, reading)
        compared = tuple(w for w in wants_of(terms) if w.compared)
        keys = keys_of(terms, self.epochs, reading)
        old: dict[Key, Mapping[Want, Tensor]] = {}
        for at in dict.fromkeys(keys) if self.epochs * self.count > 1 and compared and not batch.old else ():
            old[at] = player.fitting(batch.contexts, partial(_forward, player.policy, batch, compared, at))
        tallies: dict[str, Tally] = {}
        moves: list[dict[str, float]] = []
        for epoch, at in enumerate(keys):
            whole = replace(batch, old=old[at] if old else batch.old, move=epoch) if old or batch.old else batch
            for piece in minibatches(whole, self.count, unit_of(terms), key.fold("order", epoch)):
                counted, moved = self._move(player, piece, step, at)
                tallies = merge(tallies, counted)
                moves.append(moved)
        means = {name: float(np.mean(seen)) for name in _MOVED if (seen := [m[name] for m in moves if name in m])}
        losses = {name: t.mean / len(moves) for name, t in tallies.items() if name.startswith("loss/")}
        return {**{name: t.mean for name, t in tallies.items()}, **losses, **means}

    def _move(self, player: Any, piece: Batch, step: int, key: Key) -> tuple[dict[str, Tally], dict[str, float]]:
        """Takes one optimiser step on a mini-batch. Returns the tallies, and the metrics of the step.

        If the loss or the gradient is not finite, the step is skipped and the player records the reason.
        """
        terms = player.spec.objective
        seen: dict[str, Tally] = player.fitting(
            piece.contexts, lambda tokens: gradient(player.policy, piece, terms, tokens, key), "train"
        )
        lost = broken_losses(seen)
        moved: dict[str, float] = player.skip() if lost else player.move(step)
        if not math.isfinite(moved["grad_norm"]):
            spoilt = lost or [f"gradient of {name}" for name in player.spoilt]
            player.bad.append(of_update(player.name, player.policy, piece, terms, player.micro_tokens, key, spoilt))
        return seen, moved


_MOVED = ("grad_norm", "learning_rate", "skipped", "spiked")  # metrics of every step, except that a skipped step has no learning rate


def keys_of(terms: Mapping[str, Term], epochs: int, reading: Key) -> list[Key]:
    """Returns the key for every `Want` in every epoch: `reading` for all epochs, or one key per epoch if a `Want` draws again in each epoch."""
    redrawn = any(want.redrawn for want in wants_of(terms))
    return [of_move(reading, epoch) if redrawn else reading for epoch in range(epochs)]


def _forward(policy: Any, batch: Batch, wants: Sequence[Want], key: Key, micro_tokens: int) -> dict[Want, Tensor]:
    return forward(policy, batch, wants, micro_tokens, key)


def unit_of(terms: Mapping[str, Term]) -> str:
    """Returns the smallest unit of a mini-batch: "group" if a term compares the trajectories of a group, else "trajectory"."""
    return "group" if any(getattr(t, "unit", "trajectory") == "group" for t in terms.values()) else "trajectory"


def minibatches(batch: Batch, count: int, unit: str, key: Key) -> list[Batch]:
    """Cuts the batch into `count` parts of nearly equal size. A part consists of whole units. The key draws the order of the units.

    Each part has its own counts. If there are fewer units than `count`, there is one part per unit.
    """
    if count == 1:
        return [batch]
    owner = batch.owners() if unit == "group" else np.arange(len(batch.trajectories))
    units = np.unique(owner)
    parts = np.array_split(units[key.permutation(len(units))], min(count, len(units)))
    return [batch.subset(np.flatnonzero(np.isin(owner, part)).tolist()) for part in parts]


def check_separable(player: Any, batch: Batch, key: Key) -> None:
    """Raises UserError if a term with a user's part declares itself separable, but is not separable.

    Tests at most 8 contexts, and only before the player's first update.
    """
    theirs = {name: term for name, term in player.spec.objective.items() if any(own_parts(term))}
    if player.updates or not theirs:
        return
    some, _ = batch.slice(range(min(8, len(batch.contexts))))
    rows = player.fitting(some.contexts, lambda tokens: forward(player.policy, some, wants_of(theirs), tokens, key))
    refuse_coupled(theirs, rows, some)


def forward(policy: Any, batch: Batch, wants: Sequence[Want], micro_tokens: int, key: Key) -> dict[Want, Tensor]:
    """Returns the rows of every `Want` for the whole batch, without gradient."""
    pieces, order = [], []
    for chosen, found in passes(policy, batch.contexts, wants, micro_tokens, key):
        pieces.append(found)
        order.append(batch.slice(chosen)[1])
    place = torch.argsort(torch.cat(order))
    return {w: torch.cat([p[w] for p in pieces]).index_select(0, place.to(pieces[0][w].device)).to(batch.weight) for w in wants}


def gradient(policy: Any, batch: Batch, terms: Mapping[str, Term], micro_tokens: int, key: Key) -> dict[str, Tally]:
    """Adds the gradient of the objective to the gradients of the policy's parameters, and returns the metrics."""
    wants = wants_of(terms)
    seen: dict[str, Tally] = {}

    def by_piece(chosen: list[int], rows: Mapping[Want, Tensor]) -> Mapping[Want, Tensor] | None:
        nonlocal seen
        leaves = {w: row.to(batch.weight).requires_grad_() for w, row in rows.items()}
        loss, metrics = evaluate(terms, leaves, batch.slice(chosen)[0])
        seen = merge(seen, metrics)
        return derivatives(loss, leaves)

    if separable(terms):
        carry(policy, batch.contexts, wants, micro_tokens, key, by_piece)
        return seen
    leaves = {w: o.requires_grad_() for w, o in forward(policy, batch, wants, micro_tokens, key).items()}
    loss, metrics = evaluate(terms, leaves, batch)
    whole = derivatives(loss, leaves)
    if whole is None:
        return metrics

    def of_the_whole(chosen: list[int], rows: Mapping[Want, Tensor]) -> Mapping[Want, Tensor]:
        index = batch.slice(chosen)[1]
        return {w: slope[index] for w, slope in whole.items()}

    carry(policy, batch.contexts, wants, micro_tokens, key, of_the_whole)
    return metrics


def derivatives(loss: Tensor, leaves: Mapping[Want, Tensor]) -> dict[Want, Tensor] | None:
    """Returns the derivative of the loss with respect to each leaf that the loss uses; None if no term uses any of these trajectories."""
    if not loss.requires_grad:
        return None
    loss.backward()
    return {w: leaf.grad for w, leaf in leaves.items() if leaf.grad is not None}
