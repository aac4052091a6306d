"""Games of the package gem-llm, `gem:GAME`, such as `gem:GuessTheNumber-v0-easy`.

https://github.com/axon-rl/gem. The environments of the package draw from the global random generators. Here every episode has its own generators.
"""

from __future__ import annotations

import inspect
import io
import math
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Any

from gradus.tasks.packages import imported
from gradus.tasks.packages.options import Pairs, pairs_of, shown, values
from gradus.tasks.packages.private_random import PrivateRandom
from gradus.tasks.packages.seeds import seeds
from gradus.types import Key, Problem, Sampling, UserError, unknown
from gradus.types.parts import Task, Turn, World

SPACE = "game:"
OFFERED = ("Crosswords", "FifteenPuzzle", "Game2048", "GuessTheNumber", "Mastermind", "Minesweeper", "Sokoban", "Sudoku", "TowerofHanoi")
"""Games that need no download."""
BROKEN = ("Crosswords-v0-random", "FifteenPuzzle-v0-random")  # version 0.1.0 cannot make them
ELSEWHERE = {
    "rg": "name it reasoning_gym:{}",
    "math": "it reads a data set from a hub: give the data set as a task, OWNER/NAME",
    "code": "it reads a data set from a hub: give the data set as a task, OWNER/NAME",
    "logic": "it reads a data set from a hub: give the data set as a task, OWNER/NAME",
    "qa": "it reads a data set from a hub: give the data set as a task, OWNER/NAME",
    "eval": "it reads a data set from a hub: give the data set as a task, OWNER/NAME",
}
"""Kind of an environment that is not offered -> the remedy in the message."""


def task(name: str, config: str = "", success: float | None = None) -> Task:
    """Makes the task of a game of gem. The player writes an answer in \\boxed{}. An episode counts as right if the game's rewards add up to 1 or more.

    `config` contains the keywords of gem.make: key=value,key=value or a JSON object. `success` is the smallest return of a won episode. With
    `success`, the reward is 1 at the end of a won episode, else 0; without `success`, the rewards are the game's. Raises UserError for an unknown
    game or keyword, and for a game that downloads data.
    """
    game = game_named(name)
    full = f"gem:{game}"
    world = Gem(game, pairs_of(full, config), success)
    with PrivateRandom(0).lent():
        env = made(world)
    source = seeds(full, f"Play the game {game.partition('-')[0]}.")
    return Task(
        name=full,
        source=source,
        held_out=replace(source, held_out=True),
        environment=world,
        about=f"the game {game} of the package gem-llm, up to {getattr(env, 'max_turns', 'any number of')} turns",
        sampling=Sampling(max_tokens=256),
    )


def names() -> list[str]:
    """Returns the names of the games that need no download."""
    games = [name.removeprefix(SPACE) for name in _registry() if name.startswith(SPACE)]
    return sorted(game for game in games if game.partition("-")[0] in OFFERED and game not in BROKEN)


def game_named(name: str) -> str:
    """Returns the name of a game without `game:`. Raises UserError if the game does not exist or downloads data."""
    space, colon, rest = name.partition(":")
    if colon and space in ELSEWHERE and name in _registry():
        raise UserError(f"gem:{name} is not offered; {ELSEWHERE[space].format(rest)}")
    game = name.removeprefix(SPACE)
    if game in names():
        return game
    if game in BROKEN:
        raise UserError(f"gem:{game} is not offered, because gem-llm cannot make this game; choose another game (`gradus tasks gem` lists the games)")
    if SPACE + game in _registry():
        raise UserError(
            f"gem:{game} is not offered, because it downloads a list of words at every start; choose another game (`gradus tasks gem` lists the games)"
        )
    raise unknown("game of gem", name, names(), "List them with: gradus tasks gem")


def _registry() -> Mapping[str, Any]:
    registry: Mapping[str, Any] = imported("gem").envs.registration.ENV_REGISTRY
    return registry


@dataclass(frozen=True)
class Gem:
    """The settings of a game. A problem's seed determines the start of an episode. The episode's key determines all random events after the start."""

    name: str
    config: Pairs = ()
    success: float | None = None  # smallest return of a won episode; None: the game's own rewards

    def start(self, problem: Problem, key: Key, world: World) -> Play:
        return Play(self, int(problem.meta["seed"]), key)


class Play:
    """One episode."""

    def __init__(self, settings: Gem, seed: int, key: Key) -> None:
        self.settings, self.total = settings, 0.0
        with PrivateRandom(seed).lent(), redirect_stdout(io.StringIO()):
            self.env = made(settings)
            observation, info = self.env.reset(seed=seed)  # `reset` seeds the generators again
        self.random = PrivateRandom(key.value)
        self.first = Turn(said(observation, info))

    async def step(self, action: str) -> Turn:
        """Returns the game's turn after one reply of the player. A reply without an answer in the required form ends the episode."""
        with self.random.lent(), redirect_stdout(io.StringIO()):
            observation, reward, terminated, truncated, info = self.env.step(action)
        over = bool(terminated or truncated)
        valid = not math.isclose(reward, imported("gem.utils.constants", "gem").LanguageGameReward.format_error_reward)
        self.total += float(reward)
        if self.settings.success is not None:
            reward = float(over and self.total >= self.settings.success)
        # at the limit of turns a game reports both ends; then the episode counts as truncated
        return Turn(observation if over else said(observation, info), float(reward), over and not truncated, bool(truncated), valid=valid)


def said(observation: str, info: Mapping[str, Any]) -> str:
    """Returns an observation with the parts of `info` that belong to the observation, such as the board."""
    return "\n".join(part.strip("\n") for part in (info.get("prefix"), observation, info.get("suffix")) if part)


def made(settings: Gem) -> Any:
    """Returns a new game. Raises UserError if the package cannot make the game."""
    full, given = f"gem:{settings.name}", values(settings.config)
    registration = imported("gem").envs.registration
    module, _, kind = _registry()[SPACE + settings.name].entry_point.partition(":")
    known = set(inspect.signature(getattr(imported(module, "gem"), kind)).parameters) - {"_", "kwargs"}
    for name in given:  # a game takes unknown keywords and drops them
        if name not in known:
            raise unknown(f"keyword of {full}", name, known, "Set keywords with --task.config key=value,key=value")
    try:
        return registration.make(SPACE + settings.name, **given)
    except Exception as error:  # games check their values by assertions
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{full} cannot be made{f' with {shown(settings.config)}' if given else ''}: {reason}; "
            f"{'change --task.config' if given else 'choose another game'}"
        ) from error
