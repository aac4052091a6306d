"""Whether recipe, task and model fit, said before the first step as a sentence with what to add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradus.recipe import Recipe
from gradus.types import UserError
from gradus.types.parts import Task
from gradus.types.signals import (
    LogProb,
    LogProbs,
    MatchedVelocity,
    MatchingError,
    MatchingTime,
    MatchingVelocity,
    Prediction,
    Signal,
    Value,
    Values,
    Velocity,
    Want,
)

NEEDED = ("curriculum", "rollout", "reward", "selection", "schedule", "update")


def check_fit(recipe: Recipe, task: Task, players: Mapping[str, Any] | None = None) -> None:
    """Raises UserError for the first thing that does not fit."""
    for seam in NEEDED:
        if getattr(recipe, seam) is None:
            raise UserError(f"recipe {recipe.key} has no {seam}; set one with --{seam} or start from a recipe that has it")
    if recipe.policy != task.policy:
        raise UserError(
            f"recipe {recipe.key} trains a policy of kind {recipe.policy}, task {task.name} is for {task.policy}; choose another of the two"
        )
    missing = sorted(recipe.requires - task.provides)
    if missing:
        raise UserError(
            f"recipe {recipe.key} needs problems with {', '.join(missing)}, which task {task.name} does not provide "
            f"(it provides {', '.join(sorted(task.provides)) or 'none'}); add them as columns or choose another task"
        )
    names = {"policy", *recipe.players}
    for reader, signal in signals_of(recipe):
        if signal.player not in names:
            raise UserError(
                f'{reader} reads {type(signal).__name__} of player "{signal.player}", which recipe {recipe.key} does not have; '
                f"add it to players (there are {', '.join(sorted(names))})"
            )
        if players is not None:
            _offers(players, signal.player, _ability(signal), f"{reader} reads {type(signal).__name__} of")
    for name, player in (players or {}).items():
        for want in wants(player.spec.objective):
            _offers(players or {}, name, _ability(want), f"the objective of {name} wants {type(want).__name__} of")


def signals_of(recipe: Recipe) -> Iterator[tuple[str, Signal]]:
    """Every signal that a part of the recipe needs, with who reads it."""
    for seam in ("reward", "credit", "selection"):
        for signal in getattr(getattr(recipe, seam), "needs", ()):
            yield seam, signal
    for owner, objective in (
        ("objective", recipe.objective),
        *((f"players.{n}.objective", p.objective) for n, p in recipe.players.items()),
    ):
        for name, term in (objective or {}).items():
            for signal in term.needs:
                yield f"{owner}.{name}", signal
    for name, player in recipe.players.items():
        for signal in getattr(player.credit, "needs", ()):
            yield f"players.{name}.credit", signal


def wants(objective: Any) -> tuple[Want, ...]:
    return tuple(w for term in (objective or {}).values() for w in term.wants)


def _ability(row: Signal | Want) -> str | None:
    for kinds, ability in _ABILITIES:
        if isinstance(row, kinds):
            return ability
    return None


_ABILITIES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((LogProb, LogProbs), "logprobs"),
    ((Value, Values), "value"),
    ((Velocity, Prediction), "velocity"),
    ((MatchingError, MatchingVelocity, MatchingTime, MatchedVelocity), "matching"),
)


def _offers(players: Mapping[str, Any], name: str, ability: str | None, who: str) -> None:
    can = players[name].policy.can
    if ability is not None and ability not in can:
        remedy = 'give it a value head: model=Head(of=Copy("policy"))' if ability == "value" else "choose another policy or recipe"
        raise UserError(f'{who} player "{name}", whose policy offers only {", ".join(sorted(can))}; {remedy}')
