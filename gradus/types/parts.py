"""The protocols of the parts, and what they meet: a task, an environment, the world.

A part is a frozen dataclass of typed, documented fields with one method. A part that remembers has `start() -> state`; its method then
takes the state last and returns it last. State is plain: numbers, strings, lists, dictionaries, NumPy arrays or tensors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.records import Context, Group, Message, Outcome, Problem, Request, Sampling, Trajectory
from gradus.types.signals import Signal, Want

Signals = Mapping[Signal, Mapping[str, np.ndarray]]
"""signal -> trajectory id -> rows, one an action of the trajectory (float32 [A, ...])."""


@runtime_checkable
class Source(Protocol):
    """Where problems come from. `size` is None for a generator without end."""

    @property
    def size(self) -> int | None: ...

    def draw(self, indices: Sequence[int], level: int | None, key: Key) -> list[Problem]:
        """The problems at these indices (each a function of index, level and key alone)."""
        ...


@dataclass(frozen=True)
class Turn:
    """What an environment answers. Terminated or truncated, never both."""

    observation: str | tuple[Message, ...]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    player: str = "policy"
    state: str | None = None  # a key of the state in which the next action is taken; equal keys mean equal states
    valid: bool = True  # False: the action just taken was not a legal one
    info: Mapping[str, Any] = field(default_factory=Frozen)  # for people only; steers nothing


class Episode(Protocol):
    """One running episode. `first` is what the player sees before its first action."""

    first: Turn

    async def step(self, action: str) -> Turn: ...


@runtime_checkable
class Environment(Protocol):
    """Settings only; each `start` makes an episode of its own whose randomness comes from `key`."""

    def start(self, problem: Problem, key: Key, world: World) -> Episode: ...


Verify = Callable[[Problem, str], Outcome]
"""The task's verifier: problem and completion to a reward (1.0 right, 0.0 wrong, partial credit between), or Failed / NOT_APPLICABLE."""


@runtime_checkable
class Together(Protocol):
    """A verifier that judges many completions at a time, and whose verdicts are no function of the run's seed, since it runs what was written."""

    def check(self) -> None:
        """Raises UserError where this machine lacks what it needs."""
        ...

    async def together(self, trajectories: Sequence[Trajectory], world: World) -> list[Outcome]:
        """One outcome for each; what it decides is a fact of the step."""
        ...


@runtime_checkable
class OfSeveral(Protocol):
    """The verifier of several tasks."""

    def all(self) -> Sequence[Verify | None]:
        """Those of all its tasks."""
        ...

    def of(self, problem: Problem) -> Verify | None:
        """The verifier of the task that a problem is of."""
        ...


@dataclass(frozen=True)
class Task:
    """What is learned. `source` gives training problems, `held_out` those of evaluation (never the same), `verify` judges a completion.

    `provides` names what its problems carry (hints, solution, demonstrations, pairs, difficulty, tests); recipes may require some.
    """

    name: str
    source: Source
    held_out: Source
    verify: Verify | None = None
    judge: Callable[[Trajectory], Outcome] | None = None  # judges a whole trajectory, for policies whose samples are not text
    environment: Environment | None = None
    provides: frozenset[str] = frozenset()
    about: str = ""
    system: str | None = None  # system message put in front
    sampling: Sampling = Sampling()
    level: int | None = None  # the named level of difficulty that is drawn
    policy: str = "lm"  # what kind of policy acts: lm, flow
    chance: float = 0.0  # accuracy of guessing


class World(Protocol):
    """All that a rollout, environment, reward or search may do. It counts every token by purpose and player."""

    step: int
    progress: float  # share of the training that is over, in [0, 1]
    key: Key  # folds seed, purpose and step
    seed: Key  # the run's own, the same at every step
    task: Task
    sampling: Sampling
    group: int  # samples a problem, of the setting

    def note(self, name: str, value: float) -> None:
        """A number for the step's metrics, which show the mean of all that were noted under a name."""
        ...

    def call(self, name: str) -> str:
        """A name for one more call of `name` in this step: the same when the step is done again."""
        ...

    def fact(self, call: str) -> str | None:
        """How the clock ended this call when the step was done before; None where it did not."""
        ...

    def decide(self, call: str, reason: str) -> None:
        """The clock ended this call: a fact of the step, obeyed when it is done again."""
        ...

    def waiting(
        self, what: str, about: str | Callable[[], str] = "", abandon: Callable[[float], None] | None = None
    ) -> AbstractContextManager[None]:
        """While this is entered, the world waits for `what`, because of `about`: it is named where that takes long.

        `abandon`: called with the seconds where the run is ended because this did not come.
        """
        ...

    async def more(self, count: int) -> list[Request]:
        """The curriculum's next `count` requests, or fewer where it has no more; none in evaluation."""
        ...

    def prompt(self, request: Request) -> Context:
        """What the request is sampled from: a context in which nothing is chosen, or the one that it goes on from."""
        ...

    async def sample(self, requests: Sequence[Request]) -> list[list[Context]]:
        """`count` contexts for each request; batched over everything that is waiting."""
        ...

    async def fork(
        self,
        context: Context,
        at: int,
        count: int,
        *,
        problem: Problem,
        tags: tuple[str | int, ...],
        sampling: Sampling | None = None,
        player: str = "policy",
        trained: bool = True,
    ) -> list[Context]:
        """`count` continuations of the first `at` tokens of the context's sequence.

        The tags tell apart the samples of one problem that are forked at the same token: with equal tags they draw alike.
        """
        ...

    async def score(self, contexts: Sequence[Context], want: Want, player: str = "policy") -> list[np.ndarray]:
        """Rows of `want` for every action of each context, without gradient."""
        ...

    async def judge(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with rewards and components filled in by the recipe's reward."""
        ...

    def tokens(self, prompt: str | Sequence[Message], player: str = "policy") -> np.ndarray:
        """int32 tokens of raw text, or of messages under the player's chat template with the opening of the assistant's turn."""
        ...

    def follow(self, observation: str | Sequence[Message], player: str = "policy") -> np.ndarray:
        """int32 tokens that close the assistant's turn just sampled, give the observation and open the next assistant's turn."""
        ...

    def completion_tokens(self, text: str, player: str = "policy") -> np.ndarray:
        """int32 tokens of an answer that is given, as the player would have sampled it: its text and the end token."""
        ...

    def text(self, tokens: np.ndarray, player: str = "policy") -> str:
        """The text of tokens, special tokens left out."""
        ...

    def context_length(self, player: str = "policy") -> int:
        """The longest sequence that the player can hold, in tokens: a rollout whose context is full ends instead of asking for more."""
        ...


class Curriculum(Protocol):
    def choose(self, source: Source, count: int, world: World, state: Any) -> tuple[list[Request], Any]: ...
    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: Any) -> Any: ...


class Rollout(Protocol):
    """How trajectories are made. A rollout that does more while training than at test time has a property `test`: the rollout used there."""

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Judged groups. With state: takes it last and returns (groups, state)."""
        ...


@dataclass(frozen=True)
class Judgement:
    """The combined reward of a trajectory, its components, and rewards that fall at single actions: (context, action, component, value)."""

    reward: Outcome
    components: Mapping[str, Outcome] = field(default_factory=Frozen)
    steps: tuple[tuple[int, int, str, float], ...] = ()


class Reward(Protocol):
    @property
    def needs(self) -> tuple[Signal, ...]: ...

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """One judgement a trajectory, in the order of the groups."""
        ...


class Selection(Protocol):
    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """(kept, dropped)."""
        ...


@dataclass(frozen=True)
class Credited:
    """Advantages and returns of one trajectory, float64 [A] over its contexts in order. returns None: nothing regresses on them."""

    advantages: np.ndarray
    returns: np.ndarray | None = None


class Search(Protocol):
    """How a trained policy is used at test time. With `run` it stands wherever a rollout can."""

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """One judged answer to one problem."""
        ...

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """`request.count` judged answers to each problem."""
        ...


class Credit(Protocol):
    @property
    def needs(self) -> tuple[Signal, ...]: ...

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        """One for every trajectory, in the order of the groups. Trajectories that failed never reach a credit rule."""
        ...


class Update(Protocol):
    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Any], step: int, key: Key) -> dict[str, float]:
        """Moves the players that have a batch. Returns the step's metrics."""
        ...


class Schedule(Protocol):
    def at(self, step: int, recipe: Any) -> Any:
        """The recipe of a step."""
        ...


class Study(Protocol):
    """Evaluation while training. It may have a `reward` of its own, and `target` or `patience`, which end a run early."""

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]: ...


class Optimizer(Protocol):
    """Makes PyTorch's optimizer. The learner sets its rate at every step, and clips the gradient, by these numbers."""

    @property
    def lr(self) -> float | None: ...
    @property
    def clip(self) -> float | None: ...
    @property
    def warmup(self) -> int | None: ...
    @property
    def decay(self) -> str: ...
    @property
    def final(self) -> float: ...

    def build(self, parameters: Any) -> Any: ...


RewardFunction = Callable[..., "Sequence[float | None] | Awaitable[Sequence[float | None]]"]
"""TRL's signature: prompts, completions, completion_ids, data columns as keywords, **kwargs."""

__all__ = [
    "Credit",
    "Credited",
    "Curriculum",
    "Environment",
    "Episode",
    "Judgement",
    "OfSeveral",
    "Optimizer",
    "Reward",
    "RewardFunction",
    "Rollout",
    "Schedule",
    "Search",
    "Selection",
    "Signals",
    "Source",
    "Study",
    "Task",
    "Together",
    "Trajectory",
    "Turn",
    "Update",
    "Verify",
    "World",
]
