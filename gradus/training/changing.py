"""Finds the players of a run whose weights may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradus.types.players import FOLLOWING, Copy


def changing(run: Any) -> Iterator[str]:
    """Yields the names of the players whose weights may change during the run. If the schedule declares events, every player may change."""
    events = bool(getattr(run.recipe.schedule, "causes", ()))
    yield from (name for name, p in run.players.items() if events or p.learns or isinstance(p.spec.model, FOLLOWING))


def constant(run: Any) -> set[str]:
    """Returns the names of the players with log-probabilities whose weights never change during the run.

    The result contains only loaded models and copies, because other models may share weights with a player that learns.
    """
    own = {name for name, player in run.players.items() if player.spec.model is None or isinstance(player.spec.model, (str, Copy))}
    return {name for name in own if "logprobs" in run.players[name].policy.can} - set(changing(run))
