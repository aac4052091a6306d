"""The state of stateful parts, stored by their place in the recipe and passed to them as last argument."""

from __future__ import annotations

import copy
import inspect
from typing import Any


class Memory:
    """The state of every stateful part, by its place in the recipe. A part without `start` is called without a state."""

    def __init__(self, states: dict[str, Any] | None = None) -> None:
        self.states = dict(states or {})

    def state(self, place: str, part: Any) -> Any:
        """The part's state; made by its `start` on first use. A part replaced by another of its class keeps the state."""
        entry = self.states.get(place)
        if entry is None or entry["part"] != type(part).__name__:
            entry = self.states[place] = {"part": type(part).__name__, "state": part.start()}
        return entry["state"]

    async def call(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """The method's result. A stateful part gets its state as last argument, and the last value that it returns is stored."""
        function = getattr(part, method)
        if not hasattr(part, "start"):
            result = function(*arguments)
            return await result if inspect.isawaitable(result) else result
        result = function(*arguments, self.state(place, part))
        *values, state = await result if inspect.isawaitable(result) else result
        self.states[place]["state"] = state
        return values[0] if len(values) == 1 else tuple(values)

    async def peek(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """Like `call`, but changes of state are discarded: for evaluation, which reads the same state."""
        before = copy.deepcopy(self.states)
        try:
            return await self.call(place, part, method, *arguments)
        finally:
            self.states = before

    async def learn(self, recipe: Any, groups: Any, dropped: Any, world: Any) -> None:
        """Calls `learn` of every stateful part that has it, with the credited groups."""
        for place in ("curriculum", "rollout", "selection", "credit", "reward"):
            part = getattr(recipe, place)
            if hasattr(part, "start") and hasattr(part, "learn"):
                result = part.learn(groups, dropped, world, self.state(place, part))
                self.states[place]["state"] = await result if inspect.isawaitable(result) else result
