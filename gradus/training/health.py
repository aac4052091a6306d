"""The health of a run: skipped updates, broken weights, smaller micro-batches, and the correction of losses.

The health is part of the run's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradus.types.guards import Agreement

SOUND: Mapping[str, Any] = {"streak": 0, "cause": "", "broken": False, "restarts": 0, "correcting": False}
"""The state of a healthy run.

`streak`: the number of consecutive skipped updates; `cause`: the reason for the first of these; `broken`: whether a weight is not finite;
`restarts`: the number of returns to a checkpoint; `correcting`: whether importance ratios multiply the losses.
"""


def sound(numbers: Mapping[str, Any], players: Mapping[str, Any]) -> bool:
    """Whether a run may later return to this state.

    A run may return if the last update was not skipped, and all weights and optimiser moments are finite.
    """
    import torch

    learning = [player for player in players.values() if player.learns]
    moments = (t for player in learning for state in player.optimizer.state.values() for t in state.values() if torch.is_tensor(t))
    weights = (p for player in learning for p in player.parameters)
    return not numbers["streak"] and all(bool(torch.isfinite(t).all()) for t in (*weights, *moments))


def watched(numbers: Mapping[str, Any], players: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the health of the run as plain values. The values include every player's recent gradient norms and sizes of micro-batches."""
    return {**numbers, "players": {name: player.watched() for name, player in players.items()}}


def watch(state: Mapping[str, Any], players: Mapping[str, Any], agreement: Agreement) -> dict[str, Any]:
    """Restores the values that `watched` returned: returns the numbers, and sets the values of the players. If a value is missing, the value of a healthy run
    is used."""
    numbers = {name: state.get(name, value) for name, value in SOUND.items()}
    for name, player in players.items():
        player.watch(state.get("players", {}).get(name, {}))
    weigh(players, agreement, correcting=numbers["correcting"])
    return numbers


def splits(players: Mapping[str, Any]) -> dict[str, float]:
    """Returns the tokens per micro-batch of every player whose micro-batches became smaller because memory ran out."""
    small = {name: p.micro_tokens for name, p in players.items() if p.micro_tokens < p.setting.micro_tokens}
    return {"micro_tokens" if name == "policy" else f"{name}/micro_tokens": float(tokens) for name, tokens in small.items()}


def weigh(players: Mapping[str, Any], agreement: Agreement, *, correcting: bool) -> None:
    """Changes the objective of every learning player. If `correcting` is set, adds the correction by importance ratios, else removes the correction."""
    from gradus.objectives.corrections import MaskedImportance
    from gradus.objectives.terms import TruncatedImportance

    correction = MaskedImportance(agreement.cap, floor=None) if agreement.above == "mask" else TruncatedImportance(agreement.cap)
    for player in players.values():
        player.correct(correction if correcting and player.learns else None)
