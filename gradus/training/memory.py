"""The state of stateful parts, stored by their place in the recipe and passed to them as last argument."""

from __future__ import annotations

import copy
import inspect
from typing import Any

from gradus.runtime.user_code import asked
from gradus.types.returned import RETURNED, check_learned, check_state, remembers, without_state


class Memory:
    """The state of every stateful part, by its place in the recipe. A part without `start` is called without a state."""

    def __init__(self, states: dict[str, Any] | None = None) -> None:
        self.states = dict(states or {})

    def state(self, place: str, part: Any) -> Any:
        """The part's state; made by its `start` on first use. A part replaced by another of its class keeps the state."""
        entry = self.states.get(place)
        if entry is None or entry["part"] != type(part).__name__:
            with asked(part, "start"):
                state = part.start()
            check_state(part, "start", state)
            entry = self.states[place] = {"part": type(part).__name__, "state": state}
        return entry["state"]

    async def call(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """The method's value, checked; a stateful part gets its state last, and the state that it returns last is kept."""
        with asked(part, method):
            value = getattr(part, method)(*self._given(place, part, arguments))
            value = await value if inspect.isawaitable(value) else value
        return self._kept(place, part, method, value, arguments)

    def turn(self, schedule: Any, now: Any, recipe: Any) -> tuple[Any, tuple[Any, ...]]:
        """A schedule's recipe and events of a step, checked; its new state is kept."""
        arguments = (now, recipe)
        with asked(schedule, "at"):
            value = schedule.at(*self._given("schedule", schedule, arguments))
        if not remembers(schedule) and isinstance(value, type(recipe)):
            value = (value, ())
        return self._kept("schedule", schedule, "at", value, arguments)

    def _given(self, place: str, part: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*arguments, self.state(place, part)) if remembers(part) else arguments

    def _kept(self, place: str, part: Any, method: str, value: Any, arguments: tuple[Any, ...]) -> Any:
        value, state = without_state(part, method, value) if remembers(part) else (value, None)
        RETURNED[method][0](part, value, *arguments)
        if remembers(part):
            self.states[place]["state"] = state
        return value

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
            if remembers(part) and hasattr(part, "learn"):
                state = self.state(place, part)
                with asked(part, "learn"):
                    learned = part.learn(groups, dropped, world, state)
                    learned = await learned if inspect.isawaitable(learned) else learned
                check_learned(part, learned, state)
                self.states[place]["state"] = learned
