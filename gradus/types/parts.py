"""The protocols of the parts, the task, the environment and the world.

A part is a frozen dataclass of typed, documented fields with one method. A stateful part has `start() -> state`; its method then takes the
state as last argument and returns it as last value. State is plain: numbers, strings, lists, dictionaries, NumPy arrays or tensors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.records import Context, Group, Message, Outcome, Problem, Request, Sampling, Trajectory
from gradus.types.signals import Signal, Want

Signals = Mapping[Signal, Mapping[str, np.ndarray]]
"""signal -> trajectory id -> rows, one per action of the trajectory (float32 [A, ...])."""


@runtime_checkable
class Source(Protocol):
    """A source of problems. `size` is None for a generator without end."""

    @property
    def size(self) -> int | None: ...

    def draw(self, indices: Sequence[int], level: int | None, key: Key) -> list[Problem]:
        """The problems at these indices (each a function of index, level and key alone)."""
        ...


@dataclass(frozen=True)
class Turn:
    """The answer of an environment to an action. Terminated or truncated, never both."""

    observation: str | tuple[Message, ...]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    player: str = "policy"
    state: str | None = None  # a key of the state in which the next action is taken; equal keys mean equal states
    valid: bool = True  # False: the action just taken was not legal
    info: Mapping[str, Any] = field(default_factory=Frozen)  # for people only; it has no effect


class Episode(Protocol):
    """One running episode. `first`: the observation before the first action."""

    first: Turn

    async def step(self, action: str) -> Turn: ...


@runtime_checkable
class Environment(Protocol):
    """The settings of an environment. Each `start` makes a new episode, whose randomness comes from `key`."""

    def start(self, problem: Problem, key: Key, world: World) -> Episode: ...


Verify = Callable[[Problem, str], Outcome]
"""A verifier: maps problem and completion to a reward (1.0 right, 0.0 wrong, partial credit between), or to Failed / NOT_APPLICABLE."""


@runtime_checkable
class Together(Protocol):
    """A verifier that judges many completions at a time. It runs them, so its verdicts are not a function of the run's seed."""

    def check(self) -> None:
        """Raises UserError if this machine cannot run the verifier."""
        ...

    async def together(self, trajectories: Sequence[Trajectory], world: World) -> list[Outcome]:
        """One outcome per trajectory. Outcomes that depend on the machine become facts of the step."""
        ...


@runtime_checkable
class OfSeveral(Protocol):
    """The verifier of several tasks."""

    def all(self) -> Sequence[Verify | None]:
        """The verifiers of all its tasks."""
        ...

    def of(self, problem: Problem) -> Verify | None:
        """The verifier of the problem's task."""
        ...


@dataclass(frozen=True)
class Task:
    """A task. `source` gives training problems, `held_out` evaluation problems (never the same), `verify` judges a completion.

    `provides`: the extra data of its problems (hints, solution, demonstrations, pairs, difficulty, tests), which a recipe may require.
    """

    name: str
    source: Source
    held_out: Source
    verify: Verify | None = None
    judge: Callable[[Trajectory], Outcome] | None = None  # judges a whole trajectory, for policies whose samples are not text
    environment: Environment | None = None
    provides: frozenset[str] = frozenset()
    about: str = ""
    system: str | None = None  # system message before the problem's messages
    sampling: Sampling = Sampling()
    level: int | None = None  # difficulty level of the drawn problems; None: no level is named
    policy: str = "lm"  # kind of policy that acts: lm, flow
    chance: float = 0.0  # accuracy of guessing

    def __post_init__(self) -> None:
        """A system message or an environment makes a conversation, so text prompts of data become user messages.

        Raises UserError if the prompts are to be raw.
        """
        if not self.system and self.environment is None:
            return
        for name in ("source", "held_out"):
            source = getattr(self, name)
            if isinstance(source, type) or not hasattr(source, "in_form"):
                continue
            if source.form == "raw":
                article, thing = ("a", "system message") if self.system else ("an", "environment")
                raise UserError(
                    f"task {self.name} has {article} {thing}, which raw prompts cannot have; leave --task.prompt raw out, or leave out the {thing}"
                )
            object.__setattr__(self, name, source.in_form("chat"))


class World(Protocol):
    """The operations open to a rollout, environment, reward or search. The world counts every token by purpose and player."""

    step: int
    steps: int  # training steps of the whole run
    progress: float  # share of the training steps that are done, in [0, 1]
    key: Key  # the key of seed, purpose and step
    seed: Key  # the run's key, the same at every step
    task: Task
    sampling: Sampling
    group: int  # samples per problem, from the setting

    def note(self, name: str, value: float) -> None:
        """Adds a number to the step's metrics. A metric is the mean of the numbers noted under its name."""
        ...

    def call(self, name: str) -> str:
        """The name of the next call of `name` in this step. A repeated step gets the same names."""
        ...

    def fact(self, call: str) -> str | None:
        """The decision recorded for this call when the step was done before (a time-out, a smaller batch); None: no decision."""
        ...

    def decide(self, call: str, reason: str) -> None:
        """Records a decision of clock or machine about this call. A repeated step obeys it."""
        ...

    def waiting(
        self, what: str, about: str | Callable[[], str] = "", abandon: Callable[[float], None] | None = None
    ) -> AbstractContextManager[None]:
        """A context in which the run waits for `what`, because of `about`. A long wait is reported by these names.

        `abandon`: called with the seconds waited if the run ends because of this wait.
        """
        ...

    async def more(self, count: int) -> list[Request]:
        """The curriculum's next `count` requests, or fewer if it has no more; none in evaluation."""
        ...

    def prompt(self, request: Request) -> Context:
        """The context that the request is sampled from: a prompt without chosen tokens, or the context to continue."""
        ...

    async def sample(self, requests: Sequence[Request]) -> list[list[Context]]:
        """`count` contexts per request. Requests that wait at the same time are sampled in one batch."""
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

        The tags distinguish forks of one problem at the same token. Forks with equal tags draw alike.
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
        """int32 tokens that close the assistant's last turn, give the observation and open the assistant's next turn."""
        ...

    def completion_tokens(self, text: str, player: str = "policy") -> np.ndarray:
        """int32 tokens of a given answer, as if the player had sampled it: its text and the end token."""
        ...

    def text(self, tokens: np.ndarray, player: str = "policy") -> str:
        """The text of tokens, without special tokens."""
        ...

    def context_length(self, player: str = "policy") -> int:
        """The longest sequence of the player, in tokens. A rollout ends when its context is full."""
        ...


class Curriculum(Protocol):
    """The choice of problems. It has a state, made by `start()`; `learn` may be left out."""

    def choose(self, source: Source, count: int, world: World, state: Any) -> tuple[list[Request], Any]:
        """(`count` requests for problems of the source, the new state)."""
        ...

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: Any) -> Any:
        """The new state after a step: `groups` are those that were trained on, `dropped` those that the selection left out."""
        ...


class Rollout(Protocol):
    """A procedure that makes trajectories. If training needs more than test time does, the property `test` is the rollout for test time."""

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Judged groups. A stateful rollout takes its state last and returns (groups, state)."""
        ...


@dataclass(frozen=True)
class Judgement:
    """The combined reward of a trajectory, its components, and rewards of single actions: (context, action, component, value).

    `extra`: further values for people, stored with the trajectory.
    """

    reward: Outcome
    components: Mapping[str, Outcome] = field(default_factory=Frozen)
    steps: tuple[tuple[int, int, str, float], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=Frozen)


class Reward(Protocol):
    """Judges trajectories. `needs`: the signals that `score` gets."""

    @property
    def needs(self) -> tuple[Signal, ...]: ...

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """One judgement per trajectory, in the order of the groups."""
        ...


class Selection(Protocol):
    """Decides which groups, or which trajectories of a group, are trained on."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """(kept, dropped)."""
        ...


@dataclass(frozen=True)
class Credited:
    """Advantages and returns of one trajectory, float64 [A] over its contexts in order. `returns` is None if no value is fitted to them."""

    advantages: np.ndarray
    returns: np.ndarray | None = None


class Search(Protocol):
    """A procedure that answers problems with a trained policy at test time. Its `run` makes it usable as a rollout."""

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """One judged answer to one problem."""
        ...

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """`request.count` judged answers per problem."""
        ...


class Credit(Protocol):
    """Gives every action its advantage. `needs`: the signals that `assign` gets."""

    @property
    def needs(self) -> tuple[Signal, ...]: ...

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        """One `Credited` per trajectory, in the order of the groups. Failed trajectories never reach a credit rule."""
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
