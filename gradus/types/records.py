"""The records of the training loop: problem, request, context, trajectory, group. All records are frozen; the arrays of a context are read-only.

A *context* is one contiguous token sequence of a model. An *action* is one choice of a player: a token of a language model, or a noise step or a
whole sample of a flow generator. After the rollout all arrays have one row per action, so their length is A.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from gradus.types.contexts import Context, Ended
from gradus.types.frozen import Frozen
from gradus.types.media import Media, shown, words

Message: TypeAlias = Mapping[str, Any]
"""A chat message: {"role": "user", "content": "..."}; the content is text, or a tuple of parts with media (see `types.media`)."""


class NotApplicable(enum.Enum):
    """The value of a reward component that does not apply to a trajectory. The combined reward ignores this component, and never counts it as zero."""

    NOT_APPLICABLE = "not applicable"


NOT_APPLICABLE = NotApplicable.NOT_APPLICABLE


class FailureKind(enum.Enum):
    """The reason why a reward is missing."""

    RAISED = "raised"  # the called code raised an exception
    TIMEOUT = "timed out"  # the call exceeded its time limit and was ended
    INVALID = "invalid"  # the returned value is not a reward
    MEMORY = "out of memory"  # the call needed more memory than its limit
    DIED = "died"  # the process of the call ended, by itself or by a signal

    @property
    def chance(self) -> bool:
        """Whether the clock or the machine caused the failure. If so, another attempt may succeed."""
        return self in (FailureKind.TIMEOUT, FailureKind.MEMORY, FailureKind.DIED)


@dataclass(frozen=True)
class Failed:
    """A missing reward. The trajectory is counted, but no update uses it."""

    reason: str
    kind: FailureKind = FailureKind.INVALID

    @property
    def told(self) -> str:
        """The kind and the reason as one line of text; `read` is the inverse."""
        plain = self.kind is FailureKind.INVALID and Failed.read(self.reason) == self
        return self.reason if plain else f"{self.kind.value}: {self.reason}"

    @classmethod
    def read(cls, told: str) -> Failed:
        """The failure that a text from `told` describes. If the text has no kind, the kind is INVALID."""
        kind, colon, reason = told.partition(": ")
        known = {k.value: k for k in FailureKind}
        return cls(reason, known[kind]) if colon and kind in known else cls(told)


Outcome: TypeAlias = float | NotApplicable | Failed


SOURCES = ("policy", "expert", "teacher", "replay", "partner")
"""The possible sources of a trajectory. A term of an objective reads the trajectories of one source."""


@dataclass(frozen=True)
class Problem:
    """One problem: chat `messages`, or raw `text` that the model continues. `answer`: the reference answer for the verifier (any JSON value).

    `meta` contains the difficulty, the category, hints, a worked solution, demonstrations and any other columns of a data file.
    """

    id: str
    task: str
    messages: tuple[Message, ...] = ()
    text: str | None = None
    answer: Any = None
    meta: Mapping[str, Any] = field(default_factory=Frozen)
    plain: bool = False  # True: `messages` contains one plain text, and reward functions get prompt and completion as text, not as messages

    @property
    def question(self) -> str:
        """The text of the last user message, or the raw text."""
        return self.text if self.text is not None else words(self.messages[-1])

    @property
    def media(self) -> tuple[Media, ...]:
        """The media of the messages, in order."""
        return shown(self.messages)

    @property
    def reference(self) -> str | None:
        """The answer as text; the first answer if there are several. None in three cases: there is no answer, the answer is a mapping, or the answer is an
        integer with more than 4,000 digits."""
        answer = next(iter(self.answer), None) if isinstance(self.answer, list | tuple) else self.answer
        if not isinstance(answer, str | int | float) or (isinstance(answer, int) and abs(answer) >= 10**4000):  # str() takes 4,300 digits
            return None
        return str(answer)


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling. Log-probabilities always come from the full tempered distribution, before top-k, top-p and min-p."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off; keep tokens with p >= min_p * max p
    max_tokens: int | None = None  # largest number of new tokens; None: the limit of the setting (`Setting.default_tokens`), or 64 without such a limit
    stops: tuple[str, ...] = ()  # strings that end the completion; they stay part of it

    def __post_init__(self) -> None:
        from gradus.types.errors import UserError

        for ok, text in (
            (0 <= self.temperature < math.inf, f"`temperature` is {self.temperature}; it must be 0 (greedy) or more, and finite"),
            (self.top_k >= 0, f"`top_k` is {self.top_k}; it must be 0 (off) or more"),
            (0 < self.top_p <= 1, f"`top_p` is {self.top_p}; it must lie in (0, 1]"),
            (0 <= self.min_p < 1, f"`min_p` is {self.min_p}; it must lie in [0, 1)"),
            (self.max_tokens is None or self.max_tokens >= 1, f"`max_tokens` is {self.max_tokens}; it must be 1 or more"),
        ):
            if not ok:
                raise UserError(f"sampling: {text}")

    @property
    def limit(self) -> int:
        """The largest number of new tokens; 64 if `max_tokens` is None."""
        return 64 if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True)
class Request:
    """A request for `count` samples of a problem. The samples start from the problem's prompt, from other messages, or from a context that they
    continue.

    The key of the draws of sample i has the path (player, problem id, *tags, sample + i). Two samples with the same path have equal draws.
    """

    problem: Problem
    count: int = 1
    player: str = "policy"
    prompt: tuple[Message, ...] | str | Context | None = None  # None: the problem's prompt
    at: int | None = None  # if `prompt` is a context: the samples start after this number of its tokens; None: after all tokens
    sampling: Sampling | None = None  # None: the world's settings
    tags: tuple[str | int, ...] = ()
    sample: int = 0  # index of the first sample
    trained: bool = True  # False: the samples only serve to estimate a value, and no update uses them
    turns: int | None = None  # largest number of turns of an episode (`Episodes`); None: the limit of the rollout
    how: Any = None  # a rule for the draws, such as a token rule or a sampler; None: the policy's default


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One attempt at a problem: its contexts (several if the context was reset, summarised or folded) and its rewards."""

    id: str
    problem: Problem
    contexts: tuple[Context, ...]
    player: str = "policy"
    completion: str = ""  # text of the chosen tokens of the last context; for verifiers and users
    reward: Outcome | None = None  # the combined reward; None before judging
    components: Mapping[str, Outcome] = field(default_factory=Frozen)
    ended: Ended = Ended.STOP
    advantages: np.ndarray | None = None  # float64 [A over all contexts, in order]
    returns: np.ndarray | None = None  # float64 [A]
    source: str = "policy"  # one of SOURCES
    trained: bool = True
    weight: float = 1.0  # factor on the loss of all its actions
    weights: np.ndarray | None = None  # float64 [A], at least 0: factor on the loss of each action; None: all 1
    links: Mapping[str, Any] = field(default_factory=Frozen)  # episode; parent trajectory; role
    extra: Mapping[str, Any] = field(default_factory=Frozen)  # columns that a reward function logged; only for users

    @property
    def actions(self) -> int:
        return sum(c.actions for c in self.contexts)

    @property
    def value(self) -> float:
        """The combined reward as a number. Raises ValueError if the reward failed, does not apply or is missing."""
        if isinstance(self.reward, (int, float)):
            return float(self.reward)
        raise ValueError(f"trajectory {self.id} has no reward: {self.reward}")

    @property
    def failed(self) -> str | None:
        """The reason for the failure; None if there was no failure. A missing or non-finite reward is also a failure."""
        if isinstance(self.reward, Failed):
            return self.reward.reason
        if self.reward is None or self.reward is NOT_APPLICABLE:
            return "no reward applied to this trajectory"
        return None if math.isfinite(self.reward) else f"`reward` is {self.reward}"

    @property
    def right(self) -> bool:
        """Whether the answer is right: the verifier gave 1 or more. If there is no verifier, the environment decides. If there is no environment either, the
        reward decides.
        False if the reward failed or is missing."""
        verdict = self.components.get("verified", self.components.get("environment", self.reward))
        return self.failed is None and isinstance(verdict, (int, float)) and verdict >= 1.0

    def stream(self, name: str) -> np.ndarray:
        """The stream `name` of all contexts in order, [A, ...]."""
        return np.concatenate([c.streams[name] for c in self.contexts])

    def but(self, **changes: Any) -> Trajectory:
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Group:
    """Trajectories that are compared with each other.

    `pool`: the rewards of all sampled trajectories of the group, including trajectories that were not kept.
    """

    key: str
    trajectories: tuple[Trajectory, ...]
    pool: tuple[Outcome, ...] = ()
    aside: bool = False  # True: updates may use the group, but the step's reward and accuracy ignore it; the rollout sets this field

    @property
    def rewards(self) -> np.ndarray:
        """The rewards of the trajectories, float64 [G]. Raises ValueError if a trajectory failed."""
        return np.array([t.value for t in self.trajectories], dtype=np.float64)

    @property
    def accuracy(self) -> float | None:
        """The share of right trajectories among all trajectories that did not fail; None if all failed."""
        judged = [t.right for t in self.trajectories if t.failed is None]
        return sum(judged) / len(judged) if judged else None

    def but(self, **changes: Any) -> Group:
        return replace(self, **changes)


def without_aside(groups: Sequence[Group]) -> list[Group]:
    """Leaves out the auxiliary groups, so that reward, accuracy and evaluation cover only the requested problems."""
    return [group for group in groups if not group.aside]
