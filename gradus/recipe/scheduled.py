"""Checks the changes and events of a schedule. If the schedule's parts declare them, the check is before the run, else at the step.

A schedule can make three declarations. `sets(recipe)`: pairs (path, value): the extreme values that the schedule may give to fields. `causes`: the events
that the schedule may cause. `watches`: the metrics of evaluations that the schedule reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from gradus.recipe.core import Recipe, changes, specs_of
from gradus.schedules.paths import value_at
from gradus.types import UserError, unknown
from gradus.types.moments import AverageWeights, CopyWeights, Event, Freeze, Release, ResetOptimizer, StopHere
from gradus.types.players import FOLLOWING, Player
from gradus.types.returned import named

READ_EVERY_STEP = re.compile(
    r"(curriculum|rollout|reward|selection|credit|objective|update)(\..*)?|optimizer\..*"
    r"|players\.[^.]+\.((objective|credit|selection|optimizer|sees)(\..*)?|learns_from|every|first)"
    r"|setting\.(prompts|group|max_tokens|default_tokens|temperature|max_failed|learning_rate|warmup)"
)
"""The fields of a recipe that a schedule may change. The run reads them at every step."""

NUMBERS = (bool, int, float, str)


def check_schedule(recipe: Recipe) -> list[Recipe]:
    """Returns the recipes that the schedule's declared changes can produce, without those that differ from the recipe only in numbers. The returned recipes
    need the same checks as the recipe itself.

    Raises UserError for the first declared change or event that is impossible.
    """
    schedule = recipe.schedule
    if recipe.study is None and (watched := getattr(schedule, "watches", ())):
        raise UserError(f"the schedule is {named(schedule)}, which reads {watched[0]}, but the recipe has no evaluations; set --study HeldOut")
    found = []
    for path, value in schedule.sets(recipe) if hasattr(schedule, "sets") else ():
        try:
            moved = recipe.but(**{path: value})
            found += [] if only_numbers(recipe, check_moves(recipe, moved)) else [moved]
        except UserError as error:
            raise UserError(f"the schedule is {named(schedule)}, which sets {path} to {_short(value)}: {error}") from error
    check_events(schedule, getattr(schedule, "causes", ()), specs_of(recipe))
    return found


def only_numbers(recipe: Recipe, changed: Mapping[str, Any]) -> bool:
    """Whether the changes only replace a number, text or None by a number or text."""
    return all(isinstance(value, NUMBERS) and isinstance(value_at(recipe, path), (*NUMBERS, NoneType)) and _has(recipe, path) for path, value in changed.items())


def _has(recipe: Recipe, path: str) -> bool:
    """Whether the recipe has the path already. If not, the change adds an entry to a mapping."""
    holder = value_at(recipe, path.rpartition(".")[0])
    return not isinstance(holder, Mapping) or path.rpartition(".")[2] in holder


def check_moves(recipe: Recipe, found: Recipe, when: str = "") -> dict[str, Any]:
    """Returns the changes from `recipe` to the recipe of a step. Raises UserError if a change is for a field that the run reads only at its start."""
    changed = changes(recipe, found)
    for path in changed:
        if not READ_EVERY_STEP.fullmatch(path):
            raise UserError(
                f"the schedule changes {path}{when}, which the run reads only at its start; choose another path. A schedule can change "
                "curriculum, rollout, reward, selection, credit, objective, update, and the fields of an optimizer or of a player. In the setting, "
                "a schedule can change prompts, group, max_tokens, default_tokens, temperature, max_failed, learning_rate and warmup"
            )
    if any(path.endswith(("objective", "optimizer")) for path in changed):
        before, after = specs_of(recipe), specs_of(found)
        for name, spec in before.items():
            _check_same_kind(name, spec, after[name], when)
    return changed


def _check_same_kind(name: str, before: Player, after: Player, when: str) -> None:
    place = "" if name == "policy" else f"players.{name}."
    if (before.objective is None) != (after.objective is None):
        raise UserError(
            f"the schedule makes {name} {'frozen' if after.objective is None else 'learn'}{when} by a change of {place}objective, but a run "
            "decides only at its start whether a player learns; use the "
            f'events Freeze("{name}") and Release("{name}")'
        )
    if type(before.optimizer) is not type(after.optimizer):
        raise UserError(
            f"the schedule changes the class of {place}optimizer{when}, but the state of the optimizer belongs to "
            f"{type(before.optimizer).__name__}; change only its fields, such as optimizer.lr"
        )


def check_events(schedule: Any, events: Iterable[Event], specs: Mapping[str, Player]) -> None:
    """Raises UserError for the first value in `events` that is no event, names an unknown player, or is impossible for its player."""
    who = named(schedule, "at")
    for event in events:
        if not isinstance(event, (ResetOptimizer, CopyWeights, AverageWeights, Freeze, Release, StopHere)):
            raise UserError(
                f"{who} returned {_short(event)} among its events; each event must be ResetOptimizer, CopyWeights, AverageWeights, Freeze, Release or "
                f"StopHere"
            )
        for name in players_of(event):
            if name not in specs:
                raise unknown("player", name, specs, f"{who} gives the event {event!r}; add this player to `players`")
        if isinstance(event, (ResetOptimizer, Freeze, Release)) and specs[event.player].objective is None:
            raise UserError(f"{who} gives the event {event!r}, but player {event.player} does not learn; name a player with an objective")
        if isinstance(event, (CopyWeights, AverageWeights)):
            _check_copy(who, event, specs)


def _check_copy(who: str, event: CopyWeights | AverageWeights, specs: Mapping[str, Player]) -> None:
    model, engine = specs[event.to].model, specs[event.to].engine
    if event.of == event.to:
        raise UserError(f"{who} gives the event {event!r}, but both players are the same; name two different players")
    if isinstance(model, FOLLOWING):
        raise UserError(
            f"{who} gives the event {event!r}, but player {event.to} already gets its weights from player {model.of} by its model {type(model).__name__}; "
            f'set the model of {event.to} to Copy("{model.of}")'
        )
    if engine is not None and specs[event.to].objective is None and (model is None or isinstance(model, str)):
        raise UserError(f"{who} gives the event {event!r}, but the engine of player {event.to} loads the weights only once; leave out this engine")


def players_of(event: Event) -> tuple[str, ...]:
    """The names of the players that an event names."""
    if isinstance(event, (CopyWeights, AverageWeights)):
        return event.of, event.to
    return () if isinstance(event, StopHere) else (event.player,)


def _short(value: Any) -> str:
    return f"{value!r:.60}"
