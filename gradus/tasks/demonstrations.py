"""Demonstrations: episodes played with given actions, as training data and as proof that a problem can be solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gradus.types.parts import Turn


class Playable(Protocol):
    """An episode with a synchronous `play`."""

    first: Turn

    def play(self, action: str) -> Turn: ...


def demonstrated(episode: Playable, actions: Sequence[str]) -> list[tuple[str, str]]:
    """(observation, action) of every turn of an episode played with these actions. Raises ValueError if it earns no reward at its end."""
    pairs, turn = [], episode.first
    for action in actions:
        if turn.terminated or turn.truncated:
            raise ValueError(f"the episode ended before {action}")
        pairs.append((str(turn.observation), action))
        turn = episode.play(action)
    if not turn.terminated or turn.reward <= 0:
        raise ValueError(f"the demonstration earns nothing: {actions}")
    return pairs
