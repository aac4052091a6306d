"""What parts remember, kept by their place in the recipe and handed to them last."""

from __future__ import annotations

import copy
import inspect
from typing import Any


class Memory:
    """The state of every part that has one, by its seam. A part without `start` is called plainly."""

    def __init__(self, states: dict[str, Any] | None = None) -> None:
        self.states = dict(states or {})

    def state(self, place: str, part: Any) -> Any:
        """The part's state; made by its `start` when first asked for. Replacing a part by one of its class keeps it."""
        entry = self.states.get(place)
        if entry is None or entry["part"] != type(part).__name__:
            entry = self.states[place] = {"part": type(part).__name__, "state": part.start()}
        return entry["state"]

    async def call(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """The method's result; a stateful part gets its state last, and what it returns last is kept."""
        function = getattr(part, method)
        if not hasattr(part, "start"):
            result = function(*arguments)
            return await result if inspect.isawaitable(result) else result
        result = function(*arguments, self.state(place, part))
        *values, state = await result if inspect.isawaitable(result) else result
        self.states[place]["state"] = state
        return values[0] if len(values) == 1 else tuple(values)

    async def peek(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """Like `call`, but nothing that the part learns is kept: for evaluation, which reads the same state."""
        before = copy.deepcopy(self.states)
        try:
            return await self.call(place, part, method, *arguments)
        finally:
            self.states = before

    async def learn(self, recipe: Any, groups: Any, dropped: Any, world: Any) -> None:
        """Lets every part with state that wants to learn do so from the credited groups."""
        for place in ("curriculum", "rollout", "selection", "credit", "reward"):
            part = getattr(recipe, place)
            if hasattr(part, "start") and hasattr(part, "learn"):
                result = part.learn(groups, dropped, world, self.state(place, part))
                self.states[place]["state"] = await result if inspect.isawaitable(result) else result
