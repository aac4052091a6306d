"""Episodes played by a script: what a player can learn from first, and the proof that a problem can be solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gradus.types.parts import Turn


class Playable(Protocol):
    """An episode that can be played without waiting."""

    first: Turn

    def play(self, action: str) -> Turn: ...


def demonstrated(episode: Playable, actions: Sequence[str]) -> list[tuple[str, str]]:
    """(observation, action) of every turn of an episode played with these actions. Raises ValueError where it does not end well."""
    pairs, turn = [], episode.first
    for action in actions:
        if turn.terminated or turn.truncated:
            raise ValueError(f"the episode ended before {action}")
        pairs.append((str(turn.observation), action))
        turn = episode.play(action)
    if not turn.terminated or turn.reward <= 0:
        raise ValueError(f"the demonstration earns nothing: {actions}")
    return pairs
