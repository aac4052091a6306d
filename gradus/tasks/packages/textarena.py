"""Games for one player of the package textarena, named `textarena:GAME`: Wordle, Minesweeper, Sokoban, 2048, Blackjack and others.

A problem is the seed of a game. Only the seed and the actions determine an episode, as in textarena itself. The games draw from Python's global
random generator. So every episode has its own state of this generator, and the caller's state does not change.
"""

from __future__ import annotations

import copy
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gradus.tasks.packages import imported
from gradus.tasks.packages.options import Pairs, pairs_of, values
from gradus.tasks.packages.private_random import PrivateRandom
from gradus.types import Frozen, Key, Problem, Sampling, UserError
from gradus.types.errors import nearest
from gradus.types.parts import Task, Turn, World

TAIL = 1000  # characters of an action that a game reads, from its end
HELD_OUT = 1 << 31  # seeds from here on are held out


def task(name: str, config: str = "", max_tokens: int = 64) -> Task:
    """Play the game `name` for one player. `config`: the settings of the game, key=value,key=value or a JSON object; `max_tokens`: the limit of an
    action, in tokens.

    The game gives its reward at the end of the episode; the reward for a win is 1. If the game cannot be played here, raises UserError with the reason.
    """
    environment = TextArena(name, pairs_of(f"textarena:{name}", config))
    environment.begin(0)
    source = Seeds(environment)
    return Task(
        f"textarena:{name}",
        source,
        replace(source, held_out=True),
        environment=environment,
        about=f"the game {name} of the package textarena for one player; a problem is its seed",
        sampling=Sampling(max_tokens=max_tokens),
    )


def names() -> list[str]:
    """Returns the games for one player, in their plain variant."""
    return list(ONE_PLAYER)


@dataclass(frozen=True)
class TextArena:
    """Plays a game of textarena from the seed `problem.meta["seed"]`. The problem's question contains the first observation."""

    game: str
    config: Pairs = ()  # settings of the game that replace its registered settings

    def start(self, problem: Problem, key: Key, world: World) -> Match:
        return self.begin(int(problem.meta["seed"]))

    def begin(self, seed: int) -> Match:
        """Returns a new match. Raises UserError for an unknown game, a game for several players, or a game whose data or network is missing."""
        env = copy_of(made(self.game, self.config))
        own = PrivateRandom(seed)
        with apart(own):
            env.reset(num_players=1, seed=seed)
        return Match(env, own, seed)


@cache
def made(game: str, config: Pairs) -> Any:
    """Returns the game. The game is made once, because some games need several seconds to read word lists. Raises UserError if the game cannot be played here
    by one player.
    """
    textarena = imported("textarena")
    if game not in textarena.envs.registration.ENV_REGISTRY:
        near = nearest(game, textarena.envs.registration.ENV_REGISTRY)
        raise UserError(f'unknown game of the package textarena "{game}"{near}; games for one player are {", ".join(ONE_PLAYER)}')
    try:
        with apart(PrivateRandom(0)):
            env = textarena.make(game, **values(config))
            refuse_agents(game, vars(unwrapped(env)).values(), textarena)
            tried = copy_of(env)
            tried.reset(num_players=1, seed=0)
    except UserError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        remedy = f"games for one player are {', '.join(ONE_PLAYER)}" if not config else "check the settings of --task.config"
        raise UserError(
            f"the game {game} of the package textarena cannot be played here by one player: {type(error).__name__}: {text}; {remedy}"
        ) from error
    if not isinstance(unwrapped(tried).state, textarena.SinglePlayerState):
        raise UserError(f"the game {game} of the package textarena is for several players; choose a game for one player: {', '.join(ONE_PLAYER)}")
    return env


def refuse_agents(game: str, parts: Iterable[Any], textarena: Any) -> None:
    """Raises UserError for a game that contains its own language model."""
    if any(isinstance(part, textarena.Agent) for part in parts):
        raise UserError(
            f"the game {game} of the package textarena uses a language model over the network, so its episodes cannot be repeated; choose another game for one "
            f"player: {', '.join(ONE_PLAYER)}"
        )


def copy_of(env: Any) -> Any:
    """Returns a copy of `env`. The copy and `env` share only the large dictionary of English, because the dictionary does not change."""
    shared = [value for value in vars(unwrapped(env)).values() if type(value).__name__ == "EnglishDictionary"]
    return copy.deepcopy(env, {id(value): value for value in shared})


class Match:
    """One episode, with its own random generators."""

    def __init__(self, env: Any, own: PrivateRandom, seed: int) -> None:
        self.env, self.inner, self.random = env, unwrapped(env), own
        self.played = hashlib.blake2b(str(seed).encode(), digest_size=12)
        self.opening = self._observed()
        self.first = Turn("", state=self.played.hexdigest())

    async def step(self, action: str) -> Turn:
        """Returns the game's turn after one action. A game ends by its own rules; most games end at the second illegal action in a row."""
        action = action[-TAIL:]
        self.played.update(f"\n{action}".encode("utf-8", "surrogatepass"))
        with apart(self.random):
            done, _ = self.env.step(action)
            told = self._observed()
        game = self.inner.state
        if not done:
            return Turn(told, state=self.played.hexdigest(), valid=not game.error_count)
        rewards, info = self.env.close()
        ending = str(info[0].get("reason") or "")
        valid = not info[0]["invalid_move"]
        return Turn("\n".join(filter(None, (told, ending))), rewards[0], terminated=True, state=self.played.hexdigest(), valid=valid)

    def _observed(self) -> str:
        """Returns the messages since the last observation, without the player's own action."""
        kinds = imported("textarena").ObservationType
        _, messages = self.inner.get_observation()
        return "\n".join(str(text).strip("\n") for _, text, kind in messages if kind != kinds.PLAYER_ACTION)


@dataclass(frozen=True)
class Seeds:
    """An endless sequence of a game's problems; problem i is a function of (i, key). Training and held-out problems have different seeds.
    """

    environment: TextArena
    held_out: bool = False
    size: None = None

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Returns the problems of these indices. The question is the game's first observation."""
        return [self._problem(key.fold("textarena", self.environment.game, index).random().randrange(HELD_OUT)) for index in indices]

    def _problem(self, seed: int) -> Problem:
        seed += HELD_OUT * self.held_out
        name = f"textarena:{self.environment.game}"
        question = self.environment.begin(seed).opening
        return Problem(f"{name}-{seed}", name, messages=({"role": "user", "content": question},), meta=Frozen(seed=seed))


@contextmanager
def apart(own: PrivateRandom) -> Iterator[None]:
    """Runs the block with the generators of an episode. Text that the block prints is dropped. A download of data raises UserError."""
    nltk = imported("nltk", "textarena")
    download = nltk.download
    nltk.download = refuse_download
    try:
        with own.lent(), redirect_stdout(io.StringIO()):
            yield
    finally:
        nltk.download = download


def refuse_download(name: str, *_: Any, **__: Any) -> bool:
    """Replaces nltk's download, which waits for a network. Raises UserError unless the data are on this machine."""
    nltk = imported("nltk", "textarena")
    for kind in ("corpora", "taggers", "tokenizers"):
        for form in (name, f"{name}.zip"):
            try:
                nltk.data.find(f"{kind}/{form}")
            except LookupError:
                continue
            return True
    raise UserError(
        f'this game of the package textarena reads the data "{name}" of nltk, which is not on this machine; download this data with: '
        "python -m nltk.downloader words averaged_perceptron_tagger_eng"
    )


def unwrapped(env: Any) -> Any:
    """Returns the game inside its wrappers of observations and actions."""
    inner = env
    while hasattr(type(inner), "is_wrapped_with"):
        inner = inner.env
    return inner


ONE_PLAYER = (
    "2048-v0",
    "Bandit-v0",
    "Blackjack-v0",
    "Crosswords-v0",
    "FifteenPuzzle-v0",
    "FrozenLake-v0",
    "GuessTheNumber-v0",
    "Hangman-v0",
    "LightsOut-v0",
    "LogicPuzzle-v0",
    "Mastermind-v0",
    "Minesweeper-v0",
    "PegJump-v0",
    "RushHour-v0",
    "Secretary-v0",
    "Sokoban-v0",
    "Sudoku-v0",
    "TowerOfHanoi-v0",
    "WordLadder-v0",
    "WordSearch-v0",
    "Wordle-v0",
)
"""Games for one player that follow the contract of an environment, in their plain variant. The last three and Hangman need data of nltk."""
