"""Wants and signals of controllers: Q-values, drawn actions and single numbers. The module `types.signals` has the log-probability, the entropy and the
value. The weights and the stream `key` (one uint64 number per row, the same for all rows of a context)
determine a drawn action. So every reader of a context gets the same draw, as a `Want` with gradient or as a signal without gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from gradus.types.contexts import Context
from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Value, Want

if TYPE_CHECKING:
    from torch import Tensor

NEXT = "next."
"""The prefix of a stream with the observation after the action. The name of the observation's array follows it."""

TO_GO = "to_go"
"""The stream with the discounted sum of the rewards from the action to the end of its recorded episode."""


@dataclass(frozen=True)
class Q(Want):
    """The values of the taken action, one from every head of an ensemble. [A, heads]"""

    opens: ClassVar[frozenset[str]] = frozenset({"q"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.q()


@dataclass(frozen=True)
class QOfAll(Want):
    """The values of all actions of a `Choice`, from every head. [A, heads, n]"""

    opens: ClassVar[frozenset[str]] = frozenset({"q_of_all"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.q_of_all()


@dataclass(frozen=True)
class QOfCandidates(Want):
    """The values of candidate actions in the state of each row, from every head. [A, heads, n]

    The candidates are in the stream `name`: [A, n, d + 1], each action followed by its log-probability.
    """

    name: str = "candidates"
    opens: ClassVar[frozenset[str]] = frozenset({"q_of_candidates"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.q_of_candidates(self.name)


@dataclass(frozen=True)
class QOfUniform(Want):
    """The values that every head gives to `count` random actions. A last row has the log-density of these actions. [A, heads + 1, count]

    The actions are uniform in the Box. The stream `key` gives the draws.
    """

    count: int = 4
    opens: ClassVar[frozenset[str]] = frozenset({"q_of_candidates"})

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.q_of_uniform(self.count)


@dataclass(frozen=True)
class QSlope(Want):
    """The derivative of the Q-value with respect to the taken action.

    The Q-value is the minimum or the mean over the heads. The result has no gradient. [A, d]
    """

    reduce: Literal["least", "mean"] = "least"
    opens: ClassVar[frozenset[str]] = frozenset({"q_of_candidates"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.q_slope(self.reduce)


@dataclass(frozen=True)
class Drawn(Want):
    """An action that the policy draws, as a differentiable function of the policy's weights. [A, d]"""

    opens: ClassVar[frozenset[str]] = frozenset({"drawn"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.drawn()[0]


@dataclass(frozen=True)
class LogProbOfDrawn(Want):
    """The log-probability of the action of `Drawn`, in nats. The gradient passes through the action and the distribution. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"drawn"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.drawn()[1]


@dataclass(frozen=True)
class DrawnWithLogProb(Want):
    """The drawn action, followed by its log-probability. [A, d + 1]"""

    opens: ClassVar[frozenset[str]] = frozenset({"drawn"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        import torch

        action, logprob = opened.drawn()
        return torch.cat([action, logprob[:, None]], 1)


@dataclass(frozen=True)
class DrawnSeveral(Want):
    """`count` drawn actions per row, each followed by its log-probability. [A, count, d + 1]"""

    count: int = 4
    opens: ClassVar[frozenset[str]] = frozenset({"drawn"})

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.drawn_several(self.count)


@dataclass(frozen=True)
class Number(Want):
    """The single number that the player learns, repeated for every row. The number depends on no observation. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"number"})

    def rows(self, opened: Any, key: Key) -> Tensor:
        return opened.number()


def moved_on(context: Context) -> Context:
    """Replaces each observation of a context by the observation after the action, from the stream `next.NAME`. Raises ValueError if such a stream is missing."""
    after = {seen.name: context.streams[NEXT + seen.name] for seen in context.seen if NEXT + seen.name in context.streams}
    if not after or len(after) < len(context.seen):
        raise ValueError(
            f"a context needs a stream {NEXT}NAME for every observation NAME, but this context has the streams "
            f"{sorted(context.streams)}; learn from the rows of a TransitionReplay"
        )
    return replace(context, seen=tuple(replace(seen, rows=after[seen.name]) for seen in context.seen))


def with_streams(context: Context, **streams: np.ndarray) -> Context:
    """The context with the given streams. A stream replaces the context's stream of the same name."""
    return replace(context, streams=Frozen({**context.streams, **streams}))


@dataclass(frozen=True)
class NextAction(Signal):
    """An action that the player draws in the next state, and its log-probability. [A, d + 1]"""

    @property
    def want(self) -> Want:
        return DrawnWithLogProb()

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        return [with_streams(moved_on(c), key=_other(c, "next")) for c in contexts]


@dataclass(frozen=True)
class Candidates(Signal):
    """`count` actions that the player draws in the state before the action (`at` "now") or after it ("next"), each with its log-probability.

    [A, count, d + 1]
    """

    count: int = 4
    at: Literal["now", "next"] = "now"

    @property
    def want(self) -> Want:
        return DrawnSeveral(self.count)

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        return [with_streams(moved_on(c) if self.at == "next" else c, key=_other(c, f"candidates {self.at}")) for c in contexts]


@dataclass(frozen=True)
class QValues(Signal):
    """The values that all heads give to an action: the taken action in the present state, or the action of the signal `of` in the next state. [A, heads]"""

    of: Signal | None = None  # None: the taken action; NextAction(...): the action that `NextAction` draws in the next state

    @property
    def want(self) -> Want:
        return Q()

    @property
    def needs(self) -> tuple[Signal, ...]:
        return () if self.of is None else (self.of,)

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        if self.of is None:
            return contexts
        return [with_streams(moved_on(c), action=_without_last(rows)) for c, rows in zip(contexts, found[self.of], strict=True)]


@dataclass(frozen=True)
class NextQOfAll(Signal):
    """The values of every action of a `Choice` in the state after the action. [A, heads, n]"""

    @property
    def want(self) -> Want:
        return QOfAll()

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        return [moved_on(c) for c in contexts]


@dataclass(frozen=True)
class QGradient(Signal):
    """The derivative of the player's Q-value with respect to an action that `actor` draws in the state of each row. [A, d]"""

    actor: str = "policy"
    reduce: Literal["least", "mean"] = "least"

    @property
    def want(self) -> Want:
        return QSlope(self.reduce)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (DrawnAction(player=self.actor),)

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        drawn = found[DrawnAction(player=self.actor)]
        return [with_streams(c, action=_without_last(rows)) for c, rows in zip(contexts, drawn, strict=True)]


@dataclass(frozen=True)
class DrawnAction(Signal):
    """The action of `Drawn` with its log-probability, without gradient. [A, d + 1]"""

    @property
    def want(self) -> Want:
        return DrawnWithLogProb()


@dataclass(frozen=True)
class NumberOf(Signal):
    """The single number that the player learns, repeated for every row, without gradient. [A]"""

    @property
    def want(self) -> Want:
        return Number()


def check_arrays(part: Any, task: Any) -> None:
    """Raises UserError unless the task has an environment that shows arrays."""
    if "array" not in getattr(task.environment, "shows", ()):
        raise UserError(
            f"{type(part).__name__} is for environments that show arrays, but task {task.name} shows text; use a task for controllers, such as cartpole, "
            f"or set another part in place of {type(part).__name__}"
        )


def shows_more(context: Context) -> bool:
    """Whether the context shows an observation after its last action."""
    return bool(context.seen) and len(context.chosen) > 0 and not context.chosen[-1]


@dataclass(frozen=True)
class EndValues(Signal):
    """The value of the state after the last action. A context that shows this state gives one row; other contexts give no row."""

    aligned: ClassVar[bool] = False
    name: str = "value"

    @property
    def want(self) -> Want:
        return Value(self.name)

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        return [_at_the_end(c) if shows_more(c) else _nothing(c) for c in contexts]


def _at_the_end(context: Context) -> Context:
    """The context with a single action, which follows its last observation."""
    none: Frozen[np.ndarray] = Frozen()
    tokens, chosen = np.append(context.tokens, np.int32(0)), np.append(np.zeros(len(context.tokens), bool), True)
    return replace(context, tokens=tokens, chosen=chosen, logprobs=None, versions=None, rewards=(), streams=none)


def _nothing(context: Context) -> Context:
    none: Frozen[np.ndarray] = Frozen()
    return replace(context, chosen=np.zeros(len(context.tokens), bool), logprobs=None, versions=None, rewards=(), streams=none)


def _other(context: Context, name: str) -> np.ndarray:
    """Makes a new stream `key` for the rows of the context. Each `name` gives other draws."""
    value = Key(int(context.streams["key"][0])).fold(name).value if context.actions else 0
    return np.full(context.actions, value, np.uint64)


def _without_last(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows[:, :-1])
