"""The effects of a toy run: the weights that it changed, and the metrics that it logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gradus.schedules.taking_turns import TakingTurns
from gradus.schedules.warmup import Warmup
from gradus.selection.repeated import Repeated
from gradus.testing.methods.batches import Step, evaluated
from gradus.training.run import Run
from gradus.types.frozen import value_fields
from gradus.types.players import FOLLOWING
from gradus.types.systems import Streaming
from gradus.updates.delayed import Delayed
from gradus.updates.minibatches import Minibatches

MOST: Sequence[tuple[type, str, int]] = (
    (Minibatches, "epochs", 2),
    (Repeated, "count", 2),
    (Delayed, "every", 2),
    (Warmup, "steps", 1),
    (TakingTurns, "steps", 1),
    (TakingTurns, "warmup", 1),
    (Streaming, "staleness", 0),
    (Streaming, "publish_every", 1),
)
"""Class, field and its largest value in `few_rounds`. The limits allow one complete repetition, and a second one after it. If groups cannot be stale, their
order does not depend on the clock.
"""

Weights = Mapping[str, Mapping[str, Tensor]]


def few_rounds(part: Any) -> Any:
    """Returns the part with few repetitions per step and one step of warm-up, so that all parts of a recipe have an effect within two steps.

    A system samples no stale groups, so that two runs are equal.

    >>> from gradus import load_recipe
    >>> load_recipe("ppo").update.epochs, few_rounds(load_recipe("ppo")).update.epochs
    (4, 2)
    """
    if isinstance(part, Mapping):
        found = {name: few_rounds(value) for name, value in part.items()}
        return part if all(found[name] is part[name] for name in found) else type(part)(found)  # type: ignore[call-arg]
    if not is_dataclass(part) or isinstance(part, type):
        return part
    given = {f.name: getattr(part, f.name) for f in value_fields(part) if f.init and f.name != "parent"}
    new = {name: few_rounds(value) for name, value in given.items()}
    new |= {name: min(given[name], most) for cls, name, most in MOST if isinstance(part, cls)}
    changed = {name: value for name, value in new.items() if value is not given[name]}
    return replace(part, **changed) if changed else part


def weights_of(run: Run) -> dict[str, dict[str, Tensor]]:
    """Returns copies of all weights: name of the player -> name of the tensor -> weights."""
    return {name: {at: value.clone() for at, value in player.policy.network.state_dict().items()} for name, player in run.players.items()}


def still(before: Weights, run: Run) -> Iterator[str]:
    """Yields the names of players that should learn, but whose trained weights have not changed since `before` (from `weights_of`)."""
    for name, player in run.players.items():
        if player.learns and player.spec.objective and not _moved(before, run, name) & _own(player):
            yield name


def _moved(before: Weights, run: Run, name: str) -> set[str]:
    """The names of a player's tensors that have changed."""
    after = run.players[name].policy.network.state_dict()
    return {at for at, value in after.items() if not torch.equal(value, before[name][at])}


def _own(player: Any) -> set[str]:
    """The names of the tensors that a player trains."""
    return {at for at, weights in player.policy.network.named_parameters() if weights.requires_grad} if player.learns else set()


def misplaced(before: Weights, run: Run) -> Iterator[str]:
    """Yields a sentence for each player whose frozen weights have changed.

    A copy is not frozen if it follows another player, or if an event of the schedule renews it. `before`: the result of
    `weights_of` for the run at its start.
    """
    renewed = any(name.startswith("event/") for row in run.metrics for name in row)
    for name, player in run.players.items():
        follows = isinstance(player.spec.model, FOLLOWING) or (renewed and not player.learns)
        if (strange := sorted(_moved(before, run, name) - _own(player))) and not follows:
            yield f"{', '.join(f'{name}.{at}' for at in strange)} moved, though frozen; change no weights outside the update"


def unlogged(step: Step, run: Run) -> Iterator[str]:
    """Yields a sentence for each term of an objective whose loss, or a metric that the term returns, is missing in all steps of the run.

    `step`: a toy step of the run's recipe.
    """
    known = {name for row in run.metrics for name in row}
    for name, player in run.players.items():
        terms = (player.spec.objective or {}) if player.updates and name in step.batches else {}
        prefix = "" if name == "policy" else f"{name}/"
        for at, term in terms.items():
            if term.source in step.batches[name].counts:
                given = evaluated(term, step.rows[name], step.batches[name]).metrics
                due = [f"loss/{at}", *(metric for metric in given if not metric.startswith("loss/"))]
                lost = [metric for metric in due if f"{prefix}{metric}" not in known]
                if lost:
                    yield f"{prefix}{', '.join(lost)} of {type(term).__name__} is in no step's metrics; return all metrics from the update"
