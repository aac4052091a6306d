"""Plays episodes with given actions. The demonstrations are training data, and prove that a problem can be solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from gradus.types.parts import Turn


class Playable(Protocol):
    """An episode with a synchronous method `play`."""

    first: Turn

    def play(self, action: str) -> Turn: ...


def demonstrated(episode: Playable, actions: Sequence[str]) -> list[tuple[str, str]]:
    """Plays an episode with these actions and returns (observation, action) of every turn.

    Raises ValueError if the episode does not end with a reward above 0.
    """
    pairs, turn = [], episode.first
    for action in actions:
        if turn.terminated or turn.truncated:
            raise ValueError(f"the episode ended before the action {action} of the demonstration")
        pairs.append((str(turn.observation), action))
        turn = episode.play(action)
    if not turn.terminated or turn.reward <= 0:
        raise ValueError(f"the demonstration earns nothing: {actions}")
    return pairs


def rehearsed(
    episode: Playable, actions: Sequence[str], helpers: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """Plays an episode with sub-agents. The main agent plays `actions`, and each errand (the work of one sub-agent) plays its actions in `helpers`, in order.

    Returns (observation, action) for each turn of the main agent. After an errand, the observation is the finding of the errand. Also returns a mapping per
    errand with its `role`, `turn`, `prompt` and `demonstration`. Raises ValueError if an errand does not end, or if the episode does not end with a reward
    above 0.
    """
    pairs, errands, turn, left = [], list[dict[str, Any]](), episode.first, iter(helpers)
    for number, action in enumerate(actions):
        pairs.append((str(turn.observation), action))
        turn = episode.play(action)
        if turn.errand is None:
            continue
        inner: Any = turn.errand.episode
        seen, theirs = inner.first, list[tuple[str, str]]()
        for words in next(left):
            theirs.append((str(seen.observation), words))
            seen = inner.play(words)
        if not seen.terminated:
            raise ValueError(f"the errand that {action} starts does not end; give it more actions")
        errands.append({"role": turn.errand.role, "turn": number, "prompt": turn.errand.prompt, "demonstration": theirs})
        turn = replace(turn, observation=seen.observation)
    if not turn.terminated or turn.reward <= 0:
        raise ValueError(f"the demonstration earns nothing: {actions}")
    return pairs, errands
