"""The states of stateful parts. A state is stored under the part's path in the recipe. The methods of the part get the state as the last argument.

A stateful part may be at any depth of the recipe (`gradus.training.nested_state`). During a call of the outer part, a `Bound` replaces each stateful part
within it. The methods of a `Bound` take no state and return no state. So the outer part can call a `Bound` like any other part.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gradus.runtime.user_code import asked
from gradus.training.nested_state import Bound, is_part, roots, stateful, stateful_within
from gradus.types import Frozen
from gradus.types.returned import RETURNED, check_learned, check_state, remembers, without_state


class Memory:
    """The state of every stateful part, by the part's path in the recipe. A part without `start` has no state."""

    def __init__(self, states: dict[str, Any] | None = None) -> None:
        self.states = dict(states or {})
        self._turns: dict[str, asyncio.Lock] = {}  # by path: a lock that orders the waiting calls of a part
        self._loop: Any = None  # the event loop of the locks

    def state(self, place: str, part: Any) -> Any:
        """Returns the state of the part at the path `place`. The part's method `start` makes the state at the first use.

        If a part of the same class replaces the part later, the state is kept.
        """
        entry = self.states.get(place)
        if entry is None or entry["part"] != type(part).__name__:
            with asked(part, "start"):
                state = part.start()
            check_state(part, "start", state)
            entry = self.states[place] = {"part": type(part).__name__, "state": state}
        return entry["state"]

    async def call(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """Calls a method and returns its checked value.

        A stateful part gets its state as the last argument, and returns the new state as the last value.
        """
        value = self.ask(place, self.inside(place, part), method, *arguments)
        return await value if inspect.isawaitable(value) else value

    async def peek(self, place: str, part: Any, method: str, *arguments: Any) -> Any:
        """Like `call`, but changes of state are discarded. Evaluations use this method."""
        return await self.apart(place).call(place, part, method, *arguments)

    async def answer(self, recipe: Any, requests: Any, world: Any) -> Any:
        """Returns the groups of the recipe's search. If the recipe has no search, returns the groups of its rollout at test time. Changes of state are
        discarded."""
        memory = self.apart("rollout")
        acting = memory.bound("rollout", recipe.search or recipe.rollout)
        return await memory.call("rollout", acting if recipe.search else getattr(acting, "test", acting), "run", requests, world)

    def turn(self, schedule: Any, now: Any, recipe: Any) -> tuple[Any, tuple[Any, ...]]:
        """Asks the schedule for a step, and returns its checked recipe and events. Keeps the schedule's new state."""
        return self.ask("schedule", self.inside("schedule", schedule), "at", now, recipe)

    def apart(self, place: str) -> Memory:
        """Returns a new memory. The new memory contains copies of the states of the part at the path `place` and of the parts within this part."""
        return Memory({path: copy.deepcopy(state) for path, state in self.states.items() if path == place or path.startswith(f"{place}.")})

    def ask(self, path: str, part: Any, method: str, *arguments: Any) -> Any:
        """Calls a method with the part's state, keeps the new state, and returns the checked value. For an async method, returns a coroutine."""
        if isinstance(part, Bound):
            return getattr(part, method)(*arguments)
        if inspect.iscoroutinefunction(getattr(part, method, None)):
            return self._awaited(path, part, method, arguments)
        with asked(part, method):
            value = getattr(part, method)(*self._given(path, part, arguments))
        return self._finished(path, part, method, value, arguments) if inspect.isawaitable(value) else self._kept(path, part, method, value, arguments)

    async def _awaited(self, path: str, part: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        if not remembers(part):
            return await self._finished(path, part, method, getattr(part, method)(*arguments), arguments)
        async with self._turn(path):
            return await self._finished(path, part, method, getattr(part, method)(*self._given(path, part, arguments)), arguments)

    async def _finished(self, path: str, part: Any, method: str, value: Any, arguments: tuple[Any, ...]) -> Any:
        with asked(part, method):
            value = await value
        return self._kept(path, part, method, value, arguments)

    def _given(self, path: str, part: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*arguments, self.state(path, part)) if remembers(part) else arguments

    def _kept(self, path: str, part: Any, method: str, value: Any, arguments: tuple[Any, ...]) -> Any:
        if method == "at" and not remembers(part) and isinstance(value, type(arguments[1])):
            value = (value, ())  # a recipe without events
        value, state = without_state(part, method, value) if remembers(part) else (value, None)
        if method in RETURNED:
            RETURNED[method][0](part, value, *arguments)
        if remembers(part):
            self.states[path]["state"] = state
        return value

    def _turn(self, path: str) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._turns = loop, {}
        return self._turns.setdefault(path, asyncio.Lock())

    def bound(self, path: str, part: Any) -> Any:
        """Replaces every stateful part within the part by a `Bound`, and also the part itself if it is stateful."""
        part = self.inside(path, part)
        return Bound(part, self, path) if is_part(part) and remembers(part) else part

    def inside(self, path: str, part: Any) -> Any:
        """Replaces every stateful part within the part by a `Bound`. Without stateful parts, returns the part itself."""
        if not any(True for _ in stateful_within(path, part)):
            return part
        if isinstance(part, Mapping):
            return Frozen({name: self.bound(f"{path}.{name}", value) for name, value in part.items()})
        if isinstance(part, tuple):
            return tuple(self.bound(f"{path}.{i}", value) for i, value in enumerate(part))
        new = object.__new__(type(part))
        for field in fields(part):
            value = getattr(part, field.name)
            object.__setattr__(new, field.name, self.bound(f"{path}.{field.name}", value) if field.compare else value)
        return new

    async def learn(self, recipe: Any, groups: Any, dropped: Any, world: Any) -> None:
        """Calls `learn` of every stateful part that has this method, with the groups that have credit. Leaves out the players' own selections."""
        for place, root in roots(recipe):
            if not place.endswith(".selection"):  # a player's selection learns from the groups of its player
                await self.learn_at(place, root, groups, dropped, world)

    async def learn_at(self, place: str, root: Any, groups: Any, dropped: Any, world: Any) -> None:
        """Calls `learn` of the part at the path `place`, and of every stateful part within this part, if the part has this method."""
        for path, part in stateful(place, root):
            if hasattr(part, "learn"):
                state = self.state(path, part)
                with asked(part, "learn"):
                    learned = self.inside(path, part).learn(groups, dropped, world, state)
                    learned = await learned if inspect.isawaitable(learned) else learned
                check_learned(part, learned, state)
                self.states[path]["state"] = learned
