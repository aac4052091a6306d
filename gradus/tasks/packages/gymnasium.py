"""Environments of the package gymnasium, `gymnasium:ID`, with observations and actions as text. `gymnasium:PACKAGE:ID` imports PACKAGE first.

https://github.com/Farama-Foundation/Gymnasium. An environment with numbered actions (Discrete) and small observations has a text form. For other environments a
user's class can define a text form.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.runtime.user_code import load_object
from gradus.tasks.packages import imported
from gradus.tasks.packages.gymnasium_arrays import acts_of, named, taken
from gradus.tasks.packages.gymnasium_text import Text, form_of
from gradus.tasks.packages.options import Pairs, pairs_of, shown, values
from gradus.tasks.packages.private_random import PrivateRandom
from gradus.tasks.packages.seeds import seeds
from gradus.types import Key, Problem, Sampling, UserError, unknown
from gradus.types.parts import Task, Turn, World
from gradus.types.spaces import Action, Box, Choice

LIMIT = 100  # turns of an episode if the environment has no limit
IDLE = 256  # environments that wait for the next episode, over all settings


def task(name: str, config: str = "", text: str = "", success: float | None = None, limit: int | None = None, arrays: bool = False) -> Task:
    """Makes the task of an environment of gymnasium. An episode counts as right if the environment's rewards add up to 1 or more.

    `config` contains the keywords of gymnasium.make: key=value,key=value or a JSON object. `text` names a text form as FILE.py:NAME. The text form is an object
    or a class with rules, say(observation, env) and read(reply, env). Without `text` a built-in form is used.

    `success` is the smallest return of a won episode. With `success`, the reward is 1 at the end of a won episode, else 0; without `success`, the rewards
    are the environment's. `limit` is the largest number of turns; then an episode is truncated. Without `limit`, the environment's limit applies, or 100
    turns if the environment has no limit. With `arrays`, observations are arrays and actions are numbers, for controllers. Raises UserError for an
    unknown id or keyword, for an environment without a text form, and, with `arrays`, for spaces that a controller cannot use.
    """
    full = f"gymnasium:{name}"
    world = Gymnasium(name, pairs_of(full, config), text, success, limit or LIMIT)
    if limit is not None and limit < 1:
        raise UserError(f"{full}: `limit` is {limit}; it must be 1 turn or more")
    if arrays and text:
        raise UserError(f"{full}: `arrays` is true and `text` is {text}, but arrays need no text form; leave out `arrays` or `text`")
    with borrowed(world) as env:
        first, _ = env.reset(seed=0)
        if arrays:
            world, rules = OfArrays(**vars(world), acts=acts_of(full, env.action_space)), "start"
            named(full, env.observation_space, first)
        else:
            form = world.form(env)
            form.say(first, env.unwrapped)
            rules = form.rules
        own = getattr(env.spec, "max_episode_steps", None) or getattr(env.unwrapped, "max_steps", None)
    source = seeds(full, rules)
    return Task(
        name=full,
        source=source,
        held_out=replace(source, held_out=True),
        environment=replace(world, limit=limit or own or LIMIT),
        about=f"{name} of the package gymnasium; a turn is a step",
        sampling=Sampling(max_tokens=64),
    )


def names() -> list[str]:
    """Returns the registered ids. Other packages register their ids on import. Some ids need further packages or a user's text form."""
    return sorted(imported("gymnasium").registry)


@dataclass(frozen=True)
class Gymnasium:
    """The settings of an environment. A problem's seed determines the start of an episode. The episode's key determines all random events after the start.
    """

    name: str
    config: Pairs = ()
    text: str = ""  # FILE.py:NAME of the text form; "": a built-in form
    success: float | None = None  # smallest return of a won episode; None: the environment's own rewards
    limit: int = LIMIT  # largest number of turns; then the episode is truncated

    def start(self, problem: Problem, key: Key, world: World) -> Play:
        return Play(self, int(problem.meta["seed"]), key)

    def form(self, env: Any) -> Text:
        """Returns the text form. Raises UserError if the form cannot be loaded or lacks a method."""
        if not self.text:
            return form_of(self.name, env.unwrapped)
        given = load_object(self.text, "text form")
        form: Any = given() if inspect.isclass(given) else given
        for name in ("rules", "say", "read"):
            if not hasattr(form, name):
                raise UserError(f"{self.text} has no {name}; a text form needs the attribute `rules` and the methods `say(observation, env)` and `read(reply, env)`")
        return form


@dataclass(frozen=True)
class OfArrays(Gymnasium):
    """An environment whose observations are arrays, for controllers."""

    acts: Choice | Box = Choice(("0", "1"))  # the actions of the environment
    shows: ClassVar[frozenset[str]] = frozenset({"array"})

    def start(self, problem: Problem, key: Key, world: World) -> Rows:  # type: ignore[override]
        return Rows(self, int(problem.meta["seed"]), key)


class Rows:
    """One episode whose observations are arrays. The episode's key also determines the start, so the episodes of one problem differ."""

    def __init__(self, settings: OfArrays, seed: int, key: Key) -> None:
        self.settings, self.turns, self.total = settings, 0, 0.0
        self.random = PrivateRandom(key.value)
        with self.random.lent():
            self.env, self._give_back = lent(self, settings)
            observation, _ = self.env.reset(seed=key.fold("start", seed).value % 2**31)
        self.first = Turn(self._shown(observation))

    def _shown(self, observation: Any) -> Any:
        return named(f"gymnasium:{self.settings.name}", self.env.observation_space, observation)

    async def step(self, action: Action) -> Turn:
        """Returns the turn that follows one action. An action outside the space uses up a turn and changes nothing."""
        self.turns += 1
        chosen = taken(self.env.action_space, self.settings.acts, action)
        if chosen is None:
            turn = Turn(self.first.observation, valid=False)
        else:
            with self.random.lent():
                observation, reward, terminated, truncated, _ = self.env.step(chosen)
            self.first = Turn(self._shown(observation))
            turn = Turn(self.first.observation, float(reward), bool(terminated), bool(truncated) and not terminated)
        over = self.turns >= self.settings.limit and not turn.terminated
        self.total += turn.reward
        turn = won(replace(turn, truncated=turn.truncated or over), self.total, self.settings.success)
        if turn.terminated or turn.truncated:
            self._give_back()
        return turn


def won(turn: Turn, total: float, success: float | None) -> Turn:
    """Without `success`, returns the turn unchanged. With `success`, the reward is 1 if the turn ends the episode and `total` is at least `success`, else 0."""
    return turn if success is None else replace(turn, reward=float((turn.terminated or turn.truncated) and total >= success))


class Play:
    """One episode."""

    def __init__(self, settings: Gymnasium, seed: int, key: Key) -> None:
        self.settings, self.turns, self.total = settings, 0, 0.0
        self.random = PrivateRandom(key.value)
        with self.random.lent():
            self.env, self._give_back = lent(self, settings)
            self.form = settings.form(self.env)
            self.observation, _ = self.env.reset(seed=seed)
            self.env.unwrapped.np_random = np.random.default_rng(key.value)
        self.first = Turn(self._said(), state=self._state())

    async def step(self, action: str) -> Turn:
        """Returns the turn that follows one reply. A reply without an action uses up a turn and changes nothing."""
        self.turns += 1
        with self.random.lent():
            chosen = self.form.read(action, self.env.unwrapped)
            if chosen is None:
                turn = Turn(f"no action: {self.form.rules}\n{self._said()}", state=self._state(), valid=False)
            else:
                self.observation, reward, terminated, truncated, _ = self.env.step(chosen)
                cut = bool(truncated) and not terminated  # both can be true at the last step
                turn = Turn(self._said(), float(reward), bool(terminated), cut, state=self._state())
        turn = replace(turn, truncated=turn.truncated or (self.turns >= self.settings.limit and not turn.terminated))
        turn = self._judged(turn)
        if turn.terminated or turn.truncated:
            self._give_back()
        return turn

    def _judged(self, turn: Turn) -> Turn:
        self.total += turn.reward
        return won(turn, self.total, self.settings.success)

    def _said(self) -> str:
        return self.form.say(self.observation, self.env.unwrapped)

    def _state(self) -> str | None:
        state = getattr(self.form, "state", None)
        return None if state is None else state(self.observation, self.env.unwrapped)


_idle: dict[tuple[str, Pairs], list[Any]] = {}


def lent(player: object, settings: Gymnasium) -> tuple[Any, weakref.finalize]:
    """Returns an idle or a new environment, and the function that gives it back. The environment is also given back if `player` is garbage-collected.
    """
    key = settings.name, settings.config
    waiting = _idle.setdefault(key, [])
    env = waiting.pop() if waiting else made(*key)
    return env, weakref.finalize(player, _give_back, key, env)


def _give_back(key: tuple[str, Pairs], env: Any) -> None:
    if sum(map(len, _idle.values())) < IDLE:
        _idle[key].append(env)
    else:
        env.close()


@contextmanager
def borrowed(settings: Gymnasium) -> Iterator[Any]:
    """Lends an environment for the time of a `with` block."""

    class Borrower: ...

    borrower = Borrower()
    with PrivateRandom(0).lent():
        env, give_back = lent(borrower, settings)
        yield env
    give_back()


def made(name: str, config: Pairs) -> Any:
    """Returns a new environment. Raises UserError if gymnasium cannot make the environment."""
    gymnasium, full = imported("gymnasium"), f"gymnasium:{name}"
    try:
        return gymnasium.make(name, disable_env_checker=True, **values(config))
    except gymnasium.error.UnregisteredEnv as error:
        known = [f"{name.rpartition(':')[0]}:{known}" if ":" in name else known for known in gymnasium.registry]
        if isinstance(error, gymnasium.error.VersionNotFound | gymnasium.error.DeprecatedEnv):
            raise UserError(f"{full}: {error}") from error
        remedy = "An id of another package is gymnasium:PACKAGE:ID, such as gymnasium:minigrid:MiniGrid-Empty-5x5-v0"
        raise unknown("id of gymnasium", name, known, remedy) from error
    except ModuleNotFoundError as error:
        package = name.partition(":")[0]
        raise UserError(f"{full}: the package {error.name or package} is not installed: pip install {error.name or package}") from error
    except Exception as error:  # the makers of environments raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        given = f" with {shown(config)}" if config else ""
        raise UserError(f"{full} cannot be made{given}: {reason}{_keywords(gymnasium, name, error)}") from error


def _keywords(gymnasium: Any, name: str, error: Exception) -> str:
    """Returns the end of a message: a list of the environment's keywords if `error` names an unknown keyword, else a general remedy."""
    if "unexpected keyword" not in str(error):
        return "; remove this cause, or choose another environment"
    entry = gymnasium.spec(name).entry_point
    maker = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    return f"; the known keywords are {', '.join(sorted(set(inspect.signature(maker).parameters) - {'self', 'render_mode', 'kwargs'}))}"
