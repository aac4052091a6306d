"""Starts a step: asks the schedule for the step's recipe, and carries out the events before the step.

The recipe and the events depend only on the state of the run (a `Run`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.recipe.asks import check_asks
from gradus.recipe.compatibility import check_learning, check_parts, check_reads, signals_of, wants
from gradus.recipe.core import Recipe, specs_of
from gradus.recipe.scheduled import check_events, check_moves, only_numbers
from gradus.types import Frozen, UserError
from gradus.types.moments import AverageWeights, CopyWeights, Event, Freeze, Moment, Release, ResetOptimizer, StopHere
from gradus.types.players import Player
from gradus.types.returned import named


@dataclass(frozen=True)
class Turn:
    """The recipe of a step, the specifications of its players, and the events before the step."""

    step: int
    recipe: Recipe
    specs: Mapping[str, Player]
    events: tuple[Event, ...] = ()

    @property
    def stop(self) -> StopHere | None:
        """Returns the event that ends the run before this step."""
        return next((event for event in self.events if isinstance(event, StopHere)), None)


def moment(run: Any) -> Moment:
    """Returns the `Moment` of a run at a boundary. The schedule reads this moment."""
    return Moment(
        step=run.step - run.began,
        steps=run.planned.setting.steps,
        last=Frozen(run.last),
        evaluated=Frozen(run.evaluated),
        evaluations=run.evaluations,
        stage=run.labels.get("stage", ""),
        key=run.key.fold("schedule", run.step),
    )


def numbers(row: Mapping[str, Any]) -> Frozen[float]:
    """Returns the metrics of a row that are numbers, without the step and the stage."""
    return Frozen({name: float(value) for name, value in row.items() if value is not None and name not in ("step", "stage")})


def take_turn(run: Any) -> Turn:
    """Asks the schedule for the next step and carries out its events.

    If the schedule stops the run, no event is carried out and no state is stored.
    """
    recipe, before = run.planned, run.turned
    memory = run.memory.apart("schedule")
    found, events = memory.turn(recipe.schedule, moment(run), recipe)
    specs = {} if found is run.recipe and not events else specs_of(found)
    if found is not recipe and (before is None or before.recipe != found):
        check_found(run, recipe, found)
    check_events(recipe.schedule, events, specs)
    run.turned = turn = Turn(run.step, found, specs, events)
    if turn.stop is None:
        run.memory.states.update(memory.states)
        cause(run, events)
    return turn


def check_found(run: Any, recipe: Recipe, found: Recipe) -> None:
    """Raises UserError if the run cannot continue with the recipe `found`, which the schedule made from `recipe`."""
    changed = check_moves(recipe, found, f" at step {run.step}")
    try:
        if not only_numbers(recipe, changed):
            check_parts(found)
            check_asks(found)
            check_learning(found)
            if reads_of(found) != reads_of(run.recipe):
                check_reads(found, run.players)
    except UserError as error:
        raise UserError(f"{named(run.recipe.schedule, 'at')} returned a recipe with an error: {error}") from error


def reads_of(recipe: Recipe) -> tuple[Any, ...]:
    """Returns the outputs that the parts of a recipe read from its players: the signals, and every `Want` of each objective."""
    return set(signals_of(recipe)), {name: wants(spec.objective) for name, spec in specs_of(recipe).items()}


def cause(run: Any, events: Sequence[Event]) -> None:
    """Carries out events in their order. Keeps a copy of each changed player until the next boundary, for the case that the step is discarded."""
    for event in events:
        match event:
            case ResetOptimizer(player):
                _keep(run, player)
                run.players[player].forget()
            case CopyWeights(of, to):
                _keep(run, to)
                run.players[to].take(run.players[of])
            case AverageWeights(of, to, share):
                _keep(run, to)
                run.players[to].take(run.players[of], share)
            case Freeze(player):
                run.frozen = sorted({*run.frozen, player})
            case Release(player):
                run.frozen = sorted({*run.frozen} - {player})


def _keep(run: Any, name: str) -> None:
    """Copies a player to the memory of the CPU.

    If there is already a copy, or if the run has no folder, does nothing.
    """
    player = run.players[name]
    if run.folder is not None and name not in run.moved_back:
        run.moved_back[name] = ({n: t.cpu() for n, t in player.tensors().items()}, player.updates)


def name_of(event: Event) -> str:
    """Returns the name of an event in the metrics: its kind, and the player that it changes."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    return f"{kind}/{event.to if isinstance(event, (CopyWeights, AverageWeights)) else getattr(event, 'player', '')}"
