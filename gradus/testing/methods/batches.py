"""Makes the batches of one toy step as the update gets them, and evaluates a term of an objective on them: loss, gradient and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.terms import evaluate, wants_of
from gradus.selection.filters import without_failures
from gradus.training.lessons import credit
from gradus.training.loop import refuse_failures
from gradus.training.recovery import whole
from gradus.training.rounds import rounds
from gradus.training.run import Run
from gradus.types import Group, Key
from gradus.types.batch import Batch
from gradus.types.signals import LogProb, Want
from gradus.types.tally import Tally, merge
from gradus.updates.forward_backward import evaluated as evaluated_rows

CUTS = (0, 1, 3, 6)  # number of contexts before each of the first pieces; one more piece has the rest
UNSETTLED = 0.05  # standard deviation of the noise that is added to the weights
SPREAD = 2.0  # largest difference, in nats, of log-probabilities from those at the start of the update


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One toy step up to its update.

    `groups`: the groups without failures. `kept`: the groups that the selection kept. `credited`: the groups with advantages. `batches`: the batch of
    each player. `rows`: for each player, the rows of every `Want` that its objective reads.
    """

    groups: Sequence[Group]
    kept: Sequence[Group]
    credited: Sequence[Group]
    batches: Mapping[str, Batch]
    rows: Mapping[str, Mapping[Want, Tensor]]


def unsettle(run: Run) -> None:
    """Changes the weights of all learning players a little, as updates do. So a term that compares the weights with the first weights has a gradient."""
    for name, player in run.players.items():
        for number, weights in enumerate(player.parameters):
            with torch.no_grad():
                weights.add_(torch.from_numpy(Key(4).fold(name, number).normal(*weights.shape)).to(weights), alpha=UNSETTLED)


def toy_step(run: Run, most: int = 8) -> Step:
    """Makes the next step of a run up to its update. If no trajectory of a step is trained, another step follows, up to `most` steps in total.

    >>> from gradus import load_recipe
    >>> from gradus.testing.methods import toy_run
    >>> toy_step(toy_run(load_recipe("grpo"))).batches["policy"].counts["policy"].trajectories
    16
    """
    for _ in range(most):
        step = asyncio.run(_step(run))
        if any(batch.actions for batch in step.batches.values()):
            break
        run.step += 1
    return step


async def _step(run: Run) -> Step:
    recipe, world = run.at(run.step)
    requests = await world.more(recipe.setting.prompts)
    groups = await run.memory.call("rollout", recipe.rollout, "run", requests, world)
    groups = [*groups, *await world.aside()]
    refuse_failures(whole(groups), recipe.setting.max_failed, world.refused)
    groups = without_failures(groups)
    kept, _ = await run.memory.call("selection", recipe.selection, "keep", groups, world.key)
    drawn, round_ = next(await rounds(run, recipe, kept, world), ([], world))
    credited, batches = await credit(run, drawn, round_)
    rows: dict[str, Mapping[Want, Tensor]] = {}
    for name, batch in batches.items():
        player = run.players[name]
        with torch.no_grad():
            found = evaluated_rows(player.policy, batch.contexts, wants_of(player.spec.objective), world.key) if batch.actions else {}
        rows[name] = {want: row.to(batch.weight) for want, row in found.items()}
    return Step(groups, kept, credited, batches, rows)


def with_signs(batch: Batch) -> Batch:
    """If all advantages of a batch are 0, gives its trajectories the advantages 1 and -1 in turn. Otherwise returns the batch unchanged."""
    return batch if bool(batch.advantages.any()) else replace(batch, advantages=(1 - 2 * (batch.trajectory % 2)).to(batch.weight))


def moved(batch: Batch, rows: Mapping[Want, Tensor]) -> Batch:
    """Returns the batch in the form of a later mini-batch of the same update: its ratios are between exp(-2) and exp(2)."""
    order = torch.from_numpy(Key(9).permutation(batch.actions).astype(np.int64))
    shift = torch.linspace(-SPREAD, SPREAD, batch.actions, dtype=batch.weight.dtype)[order]
    old = {want: _shifted(want, row, shift) for want, row in rows.items() if want.compared}
    return replace(batch, old=old, behaviour_logprobs=batch.behaviour_logprobs + shift / 2)


def _shifted(want: Want, row: Tensor, shift: Tensor) -> Tensor:
    each = shift.reshape(-1, *([1] * (row.dim() - 1)))
    return row + each if want == LogProb() else row * (each / 4).exp()  # the error of flow matching must stay positive


@dataclass(frozen=True)
class Evaluated:
    """The loss of a term, the gradient of the loss with respect to every row in the term's `wants` (None: no gradient), and the metrics of the term."""

    loss: Tensor
    gradient: Mapping[Want, Tensor | None]
    metrics: Mapping[str, Tally]

    @property
    def largest(self) -> float:
        """The largest absolute entry of the gradient; 0 if there is no gradient."""
        return max((float(g.abs().max()) for g in self.gradient.values() if g is not None and g.numel()), default=0.0)

    def apart(self, other: Evaluated) -> float:
        """The largest absolute difference between an entry of this gradient and the same entry of the other gradient."""
        pairs = ((g, other.gradient[w]) for w, g in self.gradient.items())
        return max((float((_filled(a, b) - _filled(b, a)).abs().max()) for a, b in pairs if a is not None or b is not None), default=0.0)


def _filled(one: Tensor | None, other: Tensor | None) -> Tensor:
    if one is not None:
        return one
    assert other is not None
    return torch.zeros_like(other)


def evaluated(term: Any, rows: Mapping[Want, Tensor], batch: Batch) -> Evaluated:
    """Evaluates a term on the whole batch. Exceptions that parts of the term raise are not caught."""
    leaves = {want: rows[want].clone().requires_grad_() for want in term.wants}
    loss, metrics = evaluate({"term": term}, leaves, batch)
    if loss.requires_grad:
        loss.backward()
    return Evaluated(loss.detach(), {want: leaf.grad for want, leaf in leaves.items()}, metrics)


def in_pieces(term: Any, rows: Mapping[Want, Tensor], batch: Batch) -> Evaluated:
    """Evaluates a term on micro-batches of 1, 2, 3 and all other contexts, and adds up the results as the update does for a separable term."""
    total = batch.weight.new_zeros(())
    gradient: dict[Want, Tensor | None] = {want: torch.zeros_like(rows[want]) for want in term.wants}
    metrics: dict[str, Tally] = {}
    count = len(batch.contexts)
    for start, end in pairwise([*(c for c in CUTS if c < count), count]):
        piece, index = batch.slice(range(start, end))
        found = evaluated(term, {want: row[index] for want, row in rows.items()}, piece)
        total, metrics = total + found.loss, merge(metrics, found.metrics)
        for want, slope in found.gradient.items():
            if slope is not None:
                _filled(gradient[want], None).index_copy_(0, index, slope)
    return Evaluated(total, gradient, metrics)
