"""A worker without networks. The worker runs the episodes of a task's environment, and the task's verifiers.

The worker remembers only its running episodes. Each of these episodes can be played again from its problem, its key and its actions.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gradus.recipe.serialise import from_json
from gradus.runtime.user_code import raised_in
from gradus.systems.link import Message
from gradus.types import Key, Problem, UserError
from gradus.types.errors import RaisedElsewhere
from gradus.types.packing import packed, unpacked
from gradus.types.parts import Closing, Episode, Forkable, Joint, Turn
from gradus.workers.trl_signature import failure_of, outcome
from gradus.workers.worker import plain_outcome


class TaskWorker:
    """Answers messages with one environment and several verifiers."""

    verbs = frozenset({"begin", "start", "fork", "step", "end", "verify"})

    def __init__(self) -> None:
        self.environment: Any = None
        self.verifiers: list[Callable[..., Any]] = []
        self.episodes: dict[int, Any] = {}
        self.loop = asyncio.new_event_loop()

    def begin(self, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Message:
        """Loads the environment and the verifiers."""
        self.environment = from_json(document["environment"])
        self.verifiers = [from_json(each) for each in document["verifiers"]]
        return {}, {}

    def start(self, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Message:
        """Starts an episode, and returns its first turn."""
        problem, key = problem_from(document["problem"]), Key(document["key"])
        episode: Episode = self._done(lambda: self.environment.start(problem, key, Nowhere(self.environment)), self.environment)
        if isinstance(episode, Joint):
            raise UserError(f"several seats of {type(self.environment).__name__} act at the same time, which works only in one process; {REMEDY}")
        self.episodes[document["episode"]] = episode
        return {"turn": turn_document(episode.first, self.environment), "forks": isinstance(episode, Forkable)}, {}

    def fork(self, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Message:
        """Replaces an episode by its copy with other random draws."""
        episode = self.episodes[document["episode"]]
        self.episodes[document["episode"]] = self._done(lambda: episode.fork(Key(document["key"])), episode)
        return {"turn": None}, {}

    def step(self, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Message:
        """Executes an action, and returns the next turn."""
        episode = self.episodes[document["episode"]]
        turn = self._done(lambda: episode.step(unpacked(document["action"])), episode)
        return {"turn": turn_document(turn, self.environment)}, {}

    def end(self, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Message:
        """Closes and forgets an episode."""
        episode = self.episodes.pop(document["episode"], None)
        if isinstance(episode, Closing):
            self._done(episode.close, episode)
        return {}, {}

    def verify(self, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Message:
        """Judges one completion. Every exception of the verifier is a failure."""
        try:
            found = outcome(self.verifiers[document["verifier"]](problem_from(document["problem"]), document["completion"]))
        except BaseException as error:  # a verifier may raise anything
            found = failure_of(error, who="the verifier ")
        return {"outcome": plain_outcome(found)}, {}

    def _done(self, call: Callable[[], Any], part: Any) -> Any:
        """Returns the result of a call, which may be async. Raises RaisedElsewhere for an error of the environment."""
        try:
            made = call()
            return self.loop.run_until_complete(_awaited(made)) if inspect.isawaitable(made) else made
        except (UserError, MemoryError):
            raise
        except BaseException as error:  # includes sys.exit
            raise RaisedElsewhere(raised_in(error, part)) from error


REMEDY = "leave out --system.environments"
"""The last part of every message about an environment that cannot run in other processes."""


class Nowhere:
    """The `World` of an environment in another process: it has no operations."""

    def __init__(self, environment: Any) -> None:
        self.__dict__["_environment"] = environment

    def __getattr__(self, name: str) -> Any:
        environment = type(self.__dict__["_environment"]).__name__
        raise UserError(f"{environment} uses world.{name}, which exists only in the training process; {REMEDY}")


def problem_document(problem: Problem) -> Any:
    """Returns a problem as JSON."""
    return packed({f.name: getattr(problem, f.name) for f in fields(Problem)})


def problem_from(document: Any) -> Problem:
    return Problem(**unpacked(document))


def turn_document(turn: Any, environment: Any) -> Any:
    """Returns a turn as JSON; an object that is no turn becomes its description. Raises UserError for an errand, because its episode cannot be sent."""
    if not isinstance(turn, Turn):
        return {"odd": f"a {type(turn).__name__}"}
    if turn.errand is not None:
        raise UserError(f"{type(environment).__name__} gives errands to sub-agents, which works only in one process; {REMEDY}")
    return packed({f.name: getattr(turn, f.name) for f in fields(Turn) if f.name != "errand"})


def turn_from(document: Any) -> Any:
    """Reads a turn that `turn_document` made. For an object that is no turn, returns its description."""
    return document["odd"] if "odd" in document else Turn(**unpacked(document))


async def _awaited(made: Any) -> Any:
    return await made
