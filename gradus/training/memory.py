"""What parts remember, kept by their place in the recipe and handed to them last."""

from __future__ import annotations

import copy
import inspect
from typing import Any

from gradus.runtime.user_code import asked
from gradus.types.returned import RETURNED, check_learned, check_state, remembers, without_state


class Memory:
    """The state of every part that has one, by its seam. A part without `start` is called plainly."""

    def __init__(self, states: dict[str, Any] | None = None) -> None:
        self.states = dict(states or {})

    def state(self, place: str, part: Any) -> Any:
        """The part's state; made by its `start` when first asked for. Replacing a part by one of its class keeps it."""
        entry = self.states.get(place)
        if entry is None or entry["part"] != type(part).__name__:
            with asked(part, "start"):
                state = part.start()
            check_state(part, "start", state)
            entry = self.states[place] = {"part": type(part).__name__, "state": state}
        return entry["state"]

    async def call(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """The method's value, checked; a stateful part gets its state last, and the state that it returns last is kept."""
        remembered = remembers(part)
        given = (*arguments, self.state(place, part)) if remembered else arguments
        with asked(part, method):
            value = getattr(part, method)(*given)
            value = await value if inspect.isawaitable(value) else value
        value, state = without_state(part, method, value) if remembered else (value, None)
        RETURNED[method][0](part, value, *arguments)
        if remembered:
            self.states[place]["state"] = state
        return value

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
            if remembers(part) and hasattr(part, "learn"):
                state = self.state(place, part)
                with asked(part, "learn"):
                    learned = part.learn(groups, dropped, world, state)
                    learned = await learned if inspect.isawaitable(learned) else learned
                check_learned(part, learned, state)
                self.states[place]["state"] = learned
