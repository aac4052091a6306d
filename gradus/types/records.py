"""The records of the training loop: problem, request, context, trajectory, group. All are frozen; the arrays of a context are read-only.

A *context* is one contiguous token sequence of a model. An *action* is one choice of a player: a token of a language model, a noise step or
a whole sample of a flow generator. After the rollout all arrays are per action and have length A.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from gradus.types.frozen import Frozen

Message: TypeAlias = Mapping[str, Any]
"""A chat message: {"role": "user", "content": "..."}."""


class NotApplicable(enum.Enum):
    """The value of a reward component that does not apply to a trajectory. The combined reward leaves it out; it never counts as zero."""

    NOT_APPLICABLE = "not applicable"


NOT_APPLICABLE = NotApplicable.NOT_APPLICABLE


class FailureKind(enum.Enum):
    """Why a reward is missing."""

    RAISED = "raised"  # the called code raised an exception
    TIMEOUT = "timed out"  # the call passed its time limit and was ended
    INVALID = "invalid"  # the returned value is not a reward
    MEMORY = "out of memory"  # the call asked for more memory than its limit
    DIED = "died"  # the process of the call ended, by itself or by a signal

    @property
    def chance(self) -> bool:
        """Whether clock or machine caused the failure, so that another attempt may succeed."""
        return self in (FailureKind.TIMEOUT, FailureKind.MEMORY, FailureKind.DIED)


@dataclass(frozen=True)
class Failed:
    """A missing reward. The trajectory is counted and never trained on."""

    reason: str
    kind: FailureKind = FailureKind.INVALID

    @property
    def told(self) -> str:
        """Kind and reason as one line of text; `read` is the inverse."""
        plain = self.kind is FailureKind.INVALID and Failed.read(self.reason) == self
        return self.reason if plain else f"{self.kind.value}: {self.reason}"

    @classmethod
    def read(cls, told: str) -> Failed:
        """The failure of a text made by `told`. A text without a kind is the reason of an invalid reward."""
        kind, colon, reason = told.partition(": ")
        known = {k.value: k for k in FailureKind}
        return cls(reason, known[kind]) if colon and kind in known else cls(told)


Outcome: TypeAlias = float | NotApplicable | Failed


SOURCES = ("policy", "expert", "teacher", "replay", "partner")
"""Where a trajectory may come from. A term of an objective reads those of one source."""


class Ended(enum.Enum):
    """Why a trajectory ended."""

    STOP = "stop"  # the model emitted its end token or a stop string
    LENGTH = "length"  # the limit on new tokens was reached
    CONTEXT = "context"  # the model's context was full
    ENVIRONMENT = "environment"  # the environment terminated the episode
    TRUNCATED = "truncated"  # the environment cut the episode (turn limit)
    FAILED = "failed"  # the environment or a tool raised


@dataclass(frozen=True)
class Problem:
    """One problem: chat `messages`, or raw `text` that the model continues. `answer`: the verifier's reference (any JSON value).

    `meta` holds difficulty, category, hints, a worked solution, demonstrations and the other columns of a data file.
    """

    id: str
    task: str
    messages: tuple[Message, ...] = ()
    text: str | None = None
    answer: Any = None
    meta: Mapping[str, Any] = field(default_factory=Frozen)
    plain: bool = False  # `messages` wraps one plain text: reward functions get prompt and completion as text, not as messages

    @property
    def question(self) -> str:
        """The text of the last user message, or the raw text."""
        return self.text if self.text is not None else str(self.messages[-1]["content"])

    @property
    def reference(self) -> str | None:
        """The answer, or the first of several, as text. None for no answer, a mapping, or an integer of more than 4,000 digits."""
        answer = next(iter(self.answer), None) if isinstance(self.answer, list | tuple) else self.answer
        if not isinstance(answer, str | int | float) or (isinstance(answer, int) and abs(answer) >= 10**4000):  # str() takes 4,300 digits
            return None
        return str(answer)


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling. Log-probabilities are always those of the full tempered distribution, before top-k, top-p and min-p."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off; keep tokens with p >= min_p * max p
    max_tokens: int | None = None  # new tokens at most; None: no limit of its own, so that of the setting (`Setting.default_tokens`), else 64
    stops: tuple[str, ...] = ()  # strings that end the completion; they stay part of it

    def __post_init__(self) -> None:
        from gradus.types.errors import UserError

        for ok, text in (
            (0 <= self.temperature < math.inf, f"temperature is {self.temperature}; it must be 0 (greedy) or more, and finite"),
            (self.top_k >= 0, f"top_k is {self.top_k}; it must be 0 (off) or more"),
            (0 < self.top_p <= 1, f"top_p is {self.top_p}; it must lie in (0, 1]"),
            (0 <= self.min_p < 1, f"min_p is {self.min_p}; it must lie in [0, 1)"),
            (self.max_tokens is None or self.max_tokens >= 1, f"max_tokens is {self.max_tokens}; it must be 1 or more"),
        ):
            if not ok:
                raise UserError(f"sampling: {text}")

    @property
    def limit(self) -> int:
        """The number of new tokens at most; 64 without a limit."""
        return 64 if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True, eq=False)
class Context:
    """One contiguous token sequence of a model, exactly as sampled.

    The full sequence is `prefix` (the first tokens of `parent`, stored once for all children) followed by `tokens`.
    `chosen` marks the own tokens that a player chose; it is False for prompt, tool and inserted tokens. A prompt has no chosen tokens.
    """

    tokens: np.ndarray  # int32 [T], own tokens
    chosen: np.ndarray  # bool [T]
    logprobs: np.ndarray | None = None  # float32 [A] nats under the sampling policy at `temperature`; None if the policy has none
    versions: np.ndarray | None = None  # int32 [A] number of updates of the weights that chose the action
    temperature: float = 1.0
    rewards: tuple[tuple[int, str, float], ...] = ()  # sparse: (action index in this context, component, value)
    streams: Mapping[str, np.ndarray] = field(default_factory=Frozen)  # arrays aligned with the actions [A, ...]: latents, turn, state
    parent: tuple[Context, int] | None = None  # the parent context, and the position in its full sequence where this one branches off
    ended: Ended = Ended.STOP  # why its last actions ended

    def __post_init__(self) -> None:
        for array in (self.tokens, self.chosen, self.logprobs, self.versions, *self.streams.values()):
            if array is not None:
                array.flags.writeable = False

    @cached_property
    def prefix(self) -> np.ndarray:
        """The inherited tokens, int32."""
        if self.parent is None:
            return np.zeros(0, dtype=np.int32)
        context, at = self.parent
        return context.sequence[:at]

    @cached_property
    def sequence(self) -> np.ndarray:
        """Prefix and own tokens, int32 [prefix + T]."""
        return np.concatenate([self.prefix, self.tokens]) if self.parent is not None else self.tokens

    @cached_property
    def actions(self) -> int:
        """The number of actions (A)."""
        return int(self.chosen.sum())

    @cached_property
    def finite(self) -> bool:
        """Whether every behaviour log-probability is finite; True if the context has none."""
        return self.logprobs is None or bool(np.isfinite(self.logprobs).all())

    @cached_property
    def action_positions(self) -> np.ndarray:
        """The position of every action in `sequence`, int64 [A]."""
        return np.flatnonzero(self.chosen) + len(self.prefix)


def prompt_context(tokens: Sequence[int] | np.ndarray) -> Context:
    """A context of these tokens, none of them chosen."""
    array = np.array(tokens, dtype=np.int32)  # a copy: contexts freeze their arrays
    return Context(tokens=array, chosen=np.zeros(len(array), dtype=bool), logprobs=np.zeros(0, np.float32), versions=np.zeros(0, np.int32))


@dataclass(frozen=True)
class Request:
    """A request for `count` samples of a problem: from its own prompt, from other messages, or as continuations of a context.

    The draws of sample i have the key path (player, problem id, *tags, sample + i). Requests that agree in all of these draw alike.
    """

    problem: Problem
    count: int = 1
    player: str = "policy"
    prompt: tuple[Message, ...] | str | Context | None = None  # None: the problem's own
    at: int | None = None  # with a context: the continuation starts after this many tokens of its sequence; None: after all
    sampling: Sampling | None = None  # None: the world's
    tags: tuple[str | int, ...] = ()
    sample: int = 0  # index of the first sample
    trained: bool = True  # False: sampled to estimate a value only, never trained on
    how: Any = None  # how a policy without tokens draws, a part of the rollout; None: the policy's default


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One attempt at a problem: its contexts (several if the context was reset, summarised or folded) and its rewards."""

    id: str
    problem: Problem
    contexts: tuple[Context, ...]
    player: str = "policy"
    completion: str = ""  # text of the chosen tokens of the last context; for verifiers and people
    reward: Outcome | None = None  # the combined reward; None before judging
    components: Mapping[str, Outcome] = field(default_factory=Frozen)
    ended: Ended = Ended.STOP
    advantages: np.ndarray | None = None  # float64 [A over all contexts, in order]
    returns: np.ndarray | None = None  # float64 [A]
    source: str = "policy"  # one of SOURCES
    trained: bool = True
    weight: float = 1.0
    links: Mapping[str, Any] = field(default_factory=Frozen)  # episode; parent trajectory; role
    extra: Mapping[str, Any] = field(default_factory=Frozen)  # columns that a reward function logged; for people only

    @property
    def actions(self) -> int:
        return sum(c.actions for c in self.contexts)

    @property
    def value(self) -> float:
        """The combined reward as a number. Raises ValueError if it failed, does not apply or is missing."""
        if isinstance(self.reward, (int, float)):
            return float(self.reward)
        raise ValueError(f"trajectory {self.id} has no reward: {self.reward}")

    @property
    def failed(self) -> str | None:
        """The reason of the failure, or None. A missing or non-finite reward is a failure too."""
        if isinstance(self.reward, Failed):
            return self.reward.reason
        if self.reward is None or self.reward is NOT_APPLICABLE:
            return "no reward applied to this trajectory"
        return None if math.isfinite(self.reward) else f"reward is {self.reward}"

    @property
    def right(self) -> bool:
        """Whether the verifier (else the environment, else the reward) gave at least 1. False if the reward failed or is missing."""
        verdict = self.components.get("verified", self.components.get("environment", self.reward))
        return self.failed is None and isinstance(verdict, (int, float)) and verdict >= 1.0

    def stream(self, name: str) -> np.ndarray:
        """A stream over all contexts, [A, ...]."""
        return np.concatenate([c.streams[name] for c in self.contexts])

    def but(self, **changes: Any) -> Trajectory:
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Group:
    """Trajectories that are compared with each other. `pool`: the rewards of all trajectories sampled for the group, kept or not."""

    key: str
    trajectories: tuple[Trajectory, ...]
    pool: tuple[Outcome, ...] = ()
    aside: bool = False  # auxiliary: trained like other groups, but not counted in the step's reward and accuracy; set by the rollout

    @property
    def rewards(self) -> np.ndarray:
        """float64 [G]; only for groups whose failed trajectories were removed."""
        return np.array([t.value for t in self.trajectories], dtype=np.float64)

    @property
    def accuracy(self) -> float | None:
        """The share of right trajectories among those without a failure; None if all failed."""
        judged = [t.right for t in self.trajectories if t.failed is None]
        return sum(judged) / len(judged) if judged else None

    def but(self, **changes: Any) -> Group:
        return replace(self, **changes)


def without_aside(groups: Sequence[Group]) -> list[Group]:
    """The groups without the auxiliary ones, so that reward, accuracy and evaluation cover only the requested problems."""
    return [group for group in groups if not group.aside]
