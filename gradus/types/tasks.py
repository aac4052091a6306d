"""The protocols `Task` (a source of problems, an environment and a judge of answers) and `World` (the operations that a rollout can call)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from gradus.types.contexts import Context
from gradus.types.environments import Episode
from gradus.types.errors import UserError
from gradus.types.keys import Key
from gradus.types.records import Group, Outcome, Problem, Request, Sampling, Trajectory
from gradus.types.signals import Want
from gradus.types.spaces import Action, Box, Observation, Space, Text

T = TypeVar("T")


@runtime_checkable
class Source(Protocol):
    """A source of problems. `size` is None for an endless generator."""

    @property
    def size(self) -> int | None: ...

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """The problems at these indices. Each problem depends only on its index, the level and the key."""
        ...


@runtime_checkable
class Arms(Protocol):
    """A source with named kinds of problems, which are called arms, such as "countdown/3".

    A caller can request one arm. `Problem.meta["arm"]` names a problem's arm.
    """

    @property
    def arms(self) -> tuple[str, ...]: ...

    def draw_arm(self, arm: str, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """The problems of one arm at these indices."""
        ...


@dataclass(frozen=True, eq=False)
class Transitions:
    """Recorded steps of a behaviour policy in an environment: N rows in the order of time. Row i + 1 follows row i unless `ended[i]` is True."""

    observation: Mapping[str, np.ndarray]  # name -> [N, ...], before the action
    action: np.ndarray  # [N] index, or float32 [N, d]
    reward: np.ndarray  # float32 [N]
    next: Mapping[str, np.ndarray]  # name -> [N, ...], after the action
    done: np.ndarray  # bool [N]: terminated; a truncated episode is not done
    ended: np.ndarray  # bool [N]: the last row of its episode, terminated or truncated


Verify = Callable[[Problem, str], Outcome]
"""A verifier: maps problem and completion to a reward (1.0 right, 0.0 wrong, partial credit between), or to Failed / NOT_APPLICABLE."""


@runtime_checkable
class Together(Protocol):
    """A verifier that judges many completions together. The verifier executes the completions. So its verdicts also depend on the machine, not only on the
    run's seed."""

    def check(self) -> None:
        """Raises UserError if this machine cannot run the verifier."""
        ...

    async def together(self, trajectories: Sequence[Trajectory], world: World) -> list[Outcome]:
        """Returns one outcome per trajectory. An outcome that depends on the machine is recorded as a fact of the step."""
        ...


@runtime_checkable
class Apart(Protocol):
    """A verifier that judges each completion in another process."""

    async def apart(self, trajectories: Sequence[Trajectory], seconds: float, retries: int) -> list[Outcome]:
        """Returns one outcome per trajectory. A completion that is not judged within `seconds` is judged again, at most `retries` times, and then fails."""
        ...


@runtime_checkable
class OfSeveral(Protocol):
    """A verifier for the problems of several tasks."""

    def all(self) -> Sequence[Verify | None]:
        """The verifiers of all tasks."""
        ...

    def of(self, problem: Problem) -> Verify | None:
        """The verifier of the problem's task."""
        ...


@runtime_checkable
class Environment(Protocol):
    """The settings of an environment. Each call of `start` makes a new episode. The episode takes its random draws from `key`.

    An environment may have five attributes. `shows`: its kinds of observations: text, image, array; text if absent. `acts`: the `Space` of actions;
    Text if absent. `together`: the largest number of parallel episodes; None or absent: no limit. `forks`: whether its episodes are Forkable. `stops`:
    strings that end an action, such as the closing tag of a call; they stay part of the action.
    """

    def start(self, problem: Problem, key: Key, world: World) -> Episode | Awaitable[Episode]:
        """Makes a new episode. The method may be a coroutine."""
        ...


@dataclass(frozen=True)
class Task:
    """A task. `source` gives training problems, `held_out` gives evaluation problems (never a training problem), and `verify` judges a completion.

    `provides`: the kinds of extra data of its problems (hints, solution, demonstrations, pairs, difficulty, tests). A recipe may require them.
    """

    name: str
    source: Source
    held_out: Source
    verify: Verify | None = None
    judge: Callable[[Trajectory], Outcome] | None = None  # judges a complete trajectory, for policies whose samples are not text
    environment: Environment | None = None
    provides: frozenset[str] = frozenset()
    about: str = ""
    system: str | None = None  # system message before the problem's messages
    sampling: Sampling = Sampling()
    level: float | None = None  # difficulty level of the drawn problems; None: without a level
    policy: str = "lm"  # the kind of built-in model that a run without --model uses: lm, flow, masked
    shows: frozenset[str] = frozenset({"text"})  # kinds of inputs that a problem shows: text, image, audio, array, condition
    acts: Space = Text()  # the space of answers
    chance: float = 0.0  # accuracy of random guesses
    transitions: Transitions | None = None  # recorded steps for offline learning (`provides` then has "transitions")
    redraw: Callable[[Problem, str], Problem | None] | None = None  # (problem, description) -> the problem with new media and the same answer, if possible
    passages: Callable[[], Sequence[str]] | None = None  # gives the texts that a search tool searches
    reader: Callable[[Problem, Sequence[str]], str] | None = None  # a program that answers a problem from some passages
    pages: Callable[[], Mapping[str, str]] | None = None  # gives the pages that a browser reads: title -> text; titles in a text are links
    proposed: Callable[[Problem, str], Problem | None] | None = None  # (problem, written text) -> the new problem, if the text proposes one

    def __post_init__(self) -> None:
        """Turns text prompts of a data file into user messages if the task has a system message or an environment. Both need a conversation.

        Raises UserError if the user asked for raw prompts.
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
                    f"task {self.name} has {article} {thing}, which does not work with raw prompts; leave out --task.prompt raw, or leave out the {thing}"
                )
            object.__setattr__(self, name, source.in_form("chat"))


    @property
    def showing(self) -> frozenset[str]:
        """The kinds of inputs that the player reads: the environment's kinds; without an environment, the problem's kinds."""
        return self.shows if self.environment is None else frozenset(getattr(self.environment, "shows", self.shows))

    @property
    def acting(self) -> Space:
        """The space of the player's actions: the environment's space; without an environment, the space of answers."""
        return self.acts if self.environment is None else getattr(self.environment, "acts", self.acts)

    @property
    def unmarked(self) -> bool:
        """Whether the reward cannot mark an answer as right. The reward is then a score of a sample, or the return of an environment without a fixed
        scale.
        """
        return self.judge is not None or bool(getattr(self.environment, "unmarked", False))

    @property
    def of_text(self) -> bool:
        """Whether the player reads text, and answers with text or with the name of a choice."""
        return "text" in self.showing and not isinstance(self.acting, Box)


class World(Protocol):
    """The operations that a rollout, an environment, a reward or a search can call. It counts every token by purpose and player."""

    step: int
    steps: int  # training steps of the whole run
    progress: float  # finished share of the training steps, in [0, 1]
    key: Key  # the key of seed, purpose and step
    seed: Key  # the run's key, the same at every step
    task: Task
    sampling: Sampling
    group: int  # samples per problem, from the setting

    async def once(self, name: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the result of `make`, which runs only at the first call with this name in a step (for example encodings that all episodes share).

        Every call with this name returns the same object, so do not change it.
        """
        ...

    def note(self, name: str, value: float) -> None:
        """Adds a number to the step's metrics. The metric `name` is the mean of all numbers with this name."""
        ...

    def count(self, purpose: str, player: str, tokens: int) -> None:
        """Adds `tokens` to the number of tokens of a purpose. The metric is `tokens/PURPOSE`."""
        ...

    def call(self, name: str) -> str:
        """Returns a unique name for the next call of `name` in this step. If the step is repeated, its calls get the same names."""
        ...

    def fact(self, call: str) -> str | None:
        """Returns the decision that an earlier attempt of this step recorded for this call (a time-out, a smaller batch); None without a decision."""
        ...

    def decide(self, call: str, reason: str) -> None:
        """Records a decision about this call, because the decision depends on the clock or the machine. A repeated step follows the recorded decision."""
        ...

    def waiting(
        self, what: str, about: str | Callable[[], str] = "", abandon: Callable[[float], None] | None = None
    ) -> AbstractContextManager[None]:
        """A context manager around a wait. `what` names the awaited event, and `about` names the object of the wait. If the wait is long, the watchdog
        reports these names. If the run ends because of this wait, it calls `abandon` with the number of seconds waited.
        """
        ...

    async def more(self, count: int) -> list[Request]:
        """Returns the curriculum's next `count` requests, or fewer if the curriculum has no more. In an evaluation, the list is empty."""
        ...

    def prompt(self, request: Request) -> Context:
        """Returns the first context of the request: a prompt without chosen tokens, or the context to continue."""
        ...

    async def sample(self, requests: Sequence[Request]) -> list[list[Context]]:
        """Samples `count` contexts per request. All requests that wait at the same time are sampled in one batch."""
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
        """Samples `count` continuations of the first `at` tokens of the context's sequence.

        The tags distinguish forks of one problem at the same token. Forks with equal tags have equal draws.
        """
        ...

    async def score(self, contexts: Sequence[Context], want: Want, player: str = "policy") -> list[np.ndarray]:
        """Reads the rows of the `Want` for every action of each context, without gradient."""
        ...

    async def gradients(self, contexts: Sequence[Context], project: int | None = None, player: str = "policy") -> np.ndarray:
        """For each context, reads the gradient of the summed log-probability of its actions. Returns the norms [n] of the gradients, or random projections [n,
        project] of them, as float64.

        The projection is the same at every step. Each context needs one backward pass; the tokens are counted as "gradients".
        """
        ...

    def output_head(self, player: str = "policy") -> np.ndarray:
        """Returns the weights [V, d] of the output head. The last hidden state before an action, times these weights, gives the logits of the action."""
        ...

    async def judge(self, groups: Sequence[Group]) -> list[Group]:
        """Returns the groups with rewards and components, which the recipe's reward computes."""
        ...

    def also(self, groups: Sequence[Group]) -> None:
        """Adds auxiliary groups (of a sub-agent, of a probe), which may be trained or not. Reward, accuracy and evaluation ignore these groups."""
        ...

    def opening(self, prompt: Observation, player: str = "policy") -> Context:
        """Makes the player's context before its first action, from raw text, from messages, or from a first observation of arrays."""
        ...

    def follow(self, observation: Observation, after: Context, player: str = "policy") -> Context:
        """Makes a context to append to `after`. This context ends the last turn, shows the observation and opens the next turn. `after.then(piece)` appends
        the new context `piece`."""
        ...

    def told(self, action: Action, player: str = "policy") -> Context:
        """Makes a context to append from a given action. All tokens of this context are marked as chosen by the player, and have no log-probabilities.
        `context.then(piece)` appends the new context `piece`."""
        ...

    def said(self, context: Context, since: int, player: str = "policy") -> Action:
        """Reads the action from the sequence's tokens at index `since` and later. Returns the action in the form that an environment takes."""
        ...

    def text(self, tokens: np.ndarray, player: str = "policy") -> str:
        """The text of the tokens, without special tokens; empty if the player writes no text."""
        ...

    def context_length(self, player: str = "policy") -> int:
        """The length of the player's longest possible sequence, in tokens. A rollout ends when its context is full."""
        ...
