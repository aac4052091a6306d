"""Signals name model outputs that a part `needs` (no gradient); wants name those that an objective reads with gradient. Both are hashable.

A reader gives one row per action, in the order of the actions of the given contexts. A new reader is a `Want` with `rows`, which reduces
what one forward pass opens; `Read(want)` makes a signal of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from gradus.types.contexts import Context
from gradus.types.keys import Key

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Opened(Protocol):
    """What one forward pass shows of the A actions of its contexts. Each method is computed at its first call and kept."""

    @property
    def contexts(self) -> Sequence[Context]: ...

    def logprobs(self) -> Tensor:
        """Log-probability of every action, nats, at its context's temperature. [A]"""
        ...

    def entropy(self) -> Tensor:
        """Entropy at every action, nats. [A]"""
        ...

    def hidden(self, layer: int = -1) -> Tensor:
        """The hidden state from which every action was chosen; layer -1 is the input of the output head. [A, d]"""
        ...

    def states(self, layer: int = -1) -> tuple[Tensor, Tensor]:
        """The hidden state of every token of every sequence [T, d], and the index of its context [T]."""
        ...

    def logits(self) -> Iterator[tuple[slice, Tensor]]:
        """(actions, logits [a, V] at temperature) in chunks; the whole is never held."""
        ...

    def attention(self, layers: Sequence[int]) -> Iterator[Tensor]:
        """Attention weights of each context in turn, [layers, heads, T, T], without gradient."""
        ...

    def head(self, name: str) -> Tensor:
        """The output of a named head at every action. [A], or [A, n] for several numbers."""
        ...


class View(Protocol):
    """Another way to see the same actions: other media, masked patches, a privileged prompt."""

    def of(self, context: Context, key: Key) -> Context:
        """A context with the same actions in the same order."""
        ...


@dataclass(frozen=True)
class Want:
    """One row per action, with gradient. `compared`: an update of several optimiser steps keeps the rows of its start in `Batch.old`."""

    compared: ClassVar[bool] = False
    opens: ClassVar[frozenset[str]] = frozenset()  # abilities that the policy needs (`Policy.can`)

    @property
    def needed(self) -> frozenset[str]:
        """The abilities that this want needs; `opens`, and more for wants with fields (a head's name)."""
        return self.opens

    @property
    def view(self) -> View | None:
        """How the contexts are seen; None: as sampled."""
        return None

    def rows(self, opened: Opened, key: Key) -> Tensor:
        """[A] or [A, ...]. The key draws what is random: equal keys draw alike."""
        raise NotImplementedError(f"{type(self).__name__} has no method `rows`")


@dataclass(frozen=True)
class Signal:
    """An output of `player`, read in a forward pass without gradient.

    `fresh`: read with the weights at the start of the update; else with the weights that judged the trajectories.
    """

    player: str = "policy"
    fresh: bool = False

    @property
    def want(self) -> Want:
        """The rows to read."""
        raise NotImplementedError(f"{type(self).__name__} has no property `want`")

    @property
    def needs(self) -> tuple[Signal, ...]:
        """Signals that are read first, because `seen_by` uses them."""
        return ()

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        """The contexts as the player reads them, given the rows of `needs` per context."""
        view = self.want.view
        return contexts if view is None else [view.of(context, key) for context in contexts]


# readers of language models


@dataclass(frozen=True)
class LogProb(Want):
    """Log-probability of the action, nats. [A]"""

    compared: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"logprobs"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.logprobs()


@dataclass(frozen=True)
class EntropyOf(Want):
    """Entropy at the action, nats. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"entropy"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.entropy()


@dataclass(frozen=True)
class Value(Want):
    """The output of the head `name` before the action. [A]"""

    name: str = "value"

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({f"head:{self.name}"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.head(self.name)


@dataclass(frozen=True)
class Velocity(Want):
    """The network's output at the action of a flow generator. [A, d]"""

    opens: ClassVar[frozenset[str]] = frozenset({"velocity"})


@dataclass(frozen=True)
class MatchingError(Want):
    """Flow-matching error of a finished sample at `draws` (time, noise) pairs, mean over dimensions. [A, draws]

    The pairs are a function of the sample's key, so every reader gets the same pairs.
    """

    draws: int = 1
    compared: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"matching"})


@dataclass(frozen=True)
class MatchingVelocity(Want):
    """The network's output at the pairs of `MatchingError(draws)`. [A, draws, d]"""

    draws: int = 1
    opens: ClassVar[frozenset[str]] = frozenset({"matching"})


@dataclass(frozen=True)
class MatchingTime(Want):
    """The times of the pairs of `MatchingError(draws)`, in (0, 1); 1 is noise. No gradient. [A, draws]"""

    draws: int = 1
    opens: ClassVar[frozenset[str]] = frozenset({"matching"})


# signals


@dataclass(frozen=True)
class Read(Signal):
    """Any want as a signal: `Read(Hidden(), player="reference")`."""

    reads: Want = LogProb()

    @property
    def want(self) -> Want:
        return self.reads


@dataclass(frozen=True)
class LogProbs(Signal):
    """Log-probability of every action, nats, at the context's temperature. [A]"""

    @property
    def want(self) -> Want:
        return LogProb()


@dataclass(frozen=True)
class Entropy(Signal):
    """Entropy of the distribution at every action, nats. [A]"""

    @property
    def want(self) -> Want:
        return EntropyOf()


@dataclass(frozen=True)
class Values(Signal):
    """The output of the head `name` before every action. [A]"""

    name: str = "value"

    @property
    def want(self) -> Want:
        return Value(self.name)


@dataclass(frozen=True)
class Prediction(Signal):
    """The network's prediction for every action, for policies whose actions are vectors. [A, d]"""

    @property
    def want(self) -> Want:
        return Velocity()


@dataclass(frozen=True)
class MatchedVelocity(Signal):
    """The network's output at the times and noises of `MatchingError(draws)`. [A, draws, d]"""

    draws: int = 1

    @property
    def want(self) -> Want:
        return MatchingVelocity(self.draws)
