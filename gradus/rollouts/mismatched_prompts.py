"""Two players score every answer under the prompt of another problem. The log-ratios of the two players are stored with the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.auto import rolled
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.types import Context, Frozen, Group, Request, prompt_context
from gradus.types.parts import Rollout, Task, World
from gradus.types.signals import LogProb

STREAM = "mismatched"


@dataclass(frozen=True)
class MismatchedPrompts:
    """Adds the stream "mismatched" to each trajectory: log pi - log pi_reference of its actions under the prompt of the next group.

    The sum over an answer is one sample of the log-ratio under a prompt of another problem. The mean over a batch estimates the
    overall shift of the policy. The last group takes the prompt of the first group. If a prompt is too long for the model's context, its beginning is
    cut off.
    """

    rollout: Rollout = DemonstratedPairs()
    player: str = "policy"
    reference: str = "reference"
    gives: ClassVar[frozenset[str]] = frozenset({"mismatched"})
    names_players: ClassVar[tuple[str, ...]] = ("player", "reference",)

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`. Every context that has actions gets the stream `mismatched`."""
        groups = await rolled(self.rollout, requests, world)
        own = [c for g in groups for t in g.trajectories for c in t.contexts if c.actions]
        limit = world.context_length(self.player)
        elsewhere = [
            exchanged(c, other, limit)
            for g, other in zip(groups, borrowed(groups), strict=True)
            for t in g.trajectories
            for c in t.contexts
            if c.actions
        ]
        ours, theirs = [await world.score(elsewhere, LogProb(), player) for player in (self.player, self.reference)]
        streamed = {id(c): replace(c, streams=Frozen({**c.streams, STREAM: a - b})) for c, a, b in zip(own, ours, theirs, strict=True)}
        return [
            g.but(trajectories=tuple(t.but(contexts=tuple(streamed.get(id(c), c) for c in t.contexts)) for t in g.trajectories))
            for g in groups
        ]


def borrowed(groups: Sequence[Group]) -> list[Context]:
    """Returns for every group the prompt of the next group that has an action. The last group gets the prompt of the first group.

    If no other group has an action, a group gets its own prompt. If no group has an action, the prompt is empty.
    """
    prompts = [next((opening(c) for t in g.trajectories for c in t.contexts if c.actions), None) for g in groups]
    circle = [*prompts[1:], *prompts]
    found = [next((p for p in circle[i : i + len(groups)] if p is not None), None) for i in range(len(groups))]
    return [prompt_context([]) if p is None else p for p in found]


def opening(context: Context) -> Context:
    """Returns the prompt before the first action, with its media and arrays."""
    return context.until(int(context.action_positions[0]))


def exchanged(context: Context, prompt: Context, limit: int) -> Context:
    """Puts another prompt before the first action of the context. If the result exceeds `limit` tokens, the prompt's beginning is cut off."""
    start = int(context.action_positions[0])
    tokens = context.sequence[start:]
    chosen = np.zeros(len(tokens), bool)
    chosen[context.action_positions - start] = True
    prompt = prompt.since(max(0, len(prompt.tokens) + len(tokens) - limit))
    seen = tuple(piece for s in context.shown if (piece := s.since(start)) is not None)
    return Context(tokens.copy(), chosen, temperature=context.temperature, parent=(prompt, len(prompt.tokens)), seen=seen)
