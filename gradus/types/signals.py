"""A `Signal` or a `Want` names an output of a model. A part lists in `needs` the outputs that it reads without gradient (`Signal`); an objective lists in
`wants` the outputs that it reads with gradient (`Want`).

A `Signal` or `Want` gives one row per action, in the order of the actions of the given contexts. A new reader is a `Want` with the method `rows`, which
reduces the
output of a forward pass to these rows. `Read(reads=...)` makes a `Signal` from a `Want`. `types.readers` has more readers. `Signal` and `Want` objects are
hashable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from gradus.types.contexts import Context
from gradus.types.errors import UserError
from gradus.types.keys import Key

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Opened(Protocol):
    """The outputs of one forward pass for the A actions of its contexts. The first call of a method computes its result, and later calls return the same result.

    Each policy has only the methods of its abilities (`Policy.can`). Language models have the methods from `logprobs` to `head_row`. Flow generators have
    `logprobs`, `velocity` and `matching`. Masked models have `denoised`.
    """

    @property
    def contexts(self) -> Sequence[Context]: ...

    @property
    def layers(self) -> int:
        """The number of layers."""
        ...

    def logprobs(self) -> Tensor:
        """The log-probability of every action, in nats, at the temperature of its context. [A]"""
        ...

    def entropy(self) -> Tensor:
        """The entropy of the distribution of every action, in nats. [A]"""
        ...

    def hidden(self, layer: int = -1) -> Tensor:
        """The hidden state before every action. `layer` 0: the embedding; i: the output of layer i; -1: the input of the output head. [A, d]"""
        ...

    def states(self, layer: int = -1) -> tuple[Tensor, Tensor]:
        """The hidden states of all tokens of all sequences [T, d], and for every token the index of its context [T]."""
        ...

    def logits(self) -> Iterator[tuple[slice, Tensor]]:
        """Gives (actions, logits [a, V] at temperature) chunk by chunk, so that memory never contains all logits. For gradients use `reduced`."""
        ...

    def reduced(self, reduce: Callable[[slice, Tensor], Tensor]) -> Tensor:
        """The rows [A, ...] that `reduce` computes from each chunk (actions, logits [a, V]). The backward pass computes each chunk again."""
        ...

    def divergence(self, player: str, direction: Literal["reverse", "forward"]) -> Tensor:
        """KL(p || q) ("reverse") or KL(q || p) ("forward") over the whole vocabulary, in nats. Here p is the distribution of this model, and q is the
        distribution of `player`, without gradient. [A]
        """
        ...

    def attention(self, layers: Sequence[int]) -> Iterator[Tensor]:
        """Gives the attention weights [layers, heads, T, T] of one context after the other, without gradient."""
        ...

    def head(self, name: str) -> Tensor:
        """The output of the head `name` for every action. A head over the vocabulary gives the entry of the taken action. [A]"""
        ...

    def head_row(self, name: str) -> Tensor:
        """Before every action, all entries of the head `name` over the vocabulary. [A, V]"""
        ...

    def velocity(self) -> Tensor:
        """The network's output at every kept step of a flow generator. [A, d]"""
        ...

    def matching(self, draws: int) -> tuple[Tensor, Tensor, Tensor]:
        """Flow-matching error [A, draws], velocity [A, draws, d] and time [A, draws]. The key of each sample determines its pairs of time and noise."""
        ...

    def denoised(self, masks: Any, key: Key) -> Tensor:
        """A masked model's estimate of every action's log-probability, in nats, as K terms: one per pass of `types.masks.Masks`. [A, K]"""
        ...


class View(Protocol):
    """Changes the tokens or media that a model reads before the same actions: other media, masked patches, or a privileged prompt. Equal views give equal contexts.

    If a view has the class attribute `later` = True, the view moves each action to a later token. Then the row of the action is read after the action.
    """

    def of(self, context: Context, key: Key) -> Context:
        """Returns a context with the same actions in the same order. `key` gives the random draws and differs between contexts."""
        ...


def seen_through(view: View, contexts: Sequence[Context], key: Key) -> list[Context]:
    """Applies a view to the contexts. Raises UserError if the view changes the actions.

    The prompt of a context (the tokens before its first action) determines the key of the context. So every reader of a step gets the same view, and
    all answers to one prompt see the same changed prompt.
    """
    out = []
    for context in contexts:
        prompt = int(context.action_positions[0]) if context.actions else len(context.sequence)
        digest = hashlib.blake2b(context.beginning(prompt), digest_size=8).hexdigest()
        seen = view.of(context, key.fold("view", digest))
        given, due = seen.sequence[seen.action_positions].tolist(), context.sequence[context.action_positions].tolist()
        if given != due and not (len(given) == len(due) and getattr(view, "later", False)):
            changed = f"{type(view).__name__}.of changed the actions of a context ({len(due)} actions before, {len(given)} actions after)"
            raise UserError(f"{changed}; keep the actions, and change only the tokens before and between the actions")
        out.append(seen)
    return out


@dataclass(frozen=True)
class Want:
    """An output that is read with gradient: one row per action.

    `compared`: whether `Batch.old` keeps the rows from the start of the update. Such rows are kept only in updates with several optimiser steps.
    """

    compared: ClassVar[bool] = False  # some classes make this a property, because its value depends on a field
    redrawn: ClassVar[bool] = False  # True: each epoch of an update has its own draws; its key comes from `types.masks.of_move`
    opens: ClassVar[frozenset[str]] = frozenset()  # abilities that the policy needs (`Policy.can`)

    @property
    def needed(self) -> frozenset[str]:
        """The abilities of a policy that this `Want` needs: the abilities in `opens`. A field can add further abilities, such as the name of a head."""
        return self.opens

    @property
    def view(self) -> View | None:
        """The view through which the contexts are read; None: as sampled."""
        return None

    def rows(self, opened: Opened, key: Key) -> Tensor:
        """Returns the rows, [A] or [A, ...]. Equal keys give equal random draws."""
        raise NotImplementedError(f"{type(self).__name__} has no method `rows`")


@dataclass(frozen=True)
class Signal:
    """An output of `player`, read in a forward pass without gradient.

    With `fresh`, the player reads with its weights at the start of the update; without `fresh`, with its weights at the time of the reward. If `aligned` is
    True, there is one row per action. If `aligned` is False, `seen_by` decides the number of rows.
    """

    aligned: ClassVar[bool] = True
    player: str = "policy"
    fresh: bool = False

    @property
    def want(self) -> Want:
        """The rows to read."""
        raise NotImplementedError(f"{type(self).__name__} has no property `want`")

    @property
    def needs(self) -> tuple[Signal, ...]:
        """Signals that must be read first, because `seen_by` uses them."""
        return ()

    def seen_by(self, contexts: Sequence[Context], found: Mapping[Signal, Sequence[np.ndarray]], key: Key) -> Sequence[Context]:
        """Returns the contexts that the player reads in place of `contexts`. The actions stay the same. `found`: for each signal in `needs`, its rows per context.

        The field `view` of the `Want` is applied to the result.
        """
        return contexts


def needed_first(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """Returns the signals and all signals that they need. Each signal occurs once. It comes after the signals that it needs. Raises UserError if signals need
    each other in a circle."""
    out: dict[Signal, None] = {}

    def visit(signal: Signal, path: tuple[Signal, ...]) -> None:
        if signal in path:
            names = " needs ".join(type(s).__name__ for s in (*path[path.index(signal) :], signal))
            raise UserError(f"signals depend on each other in a circle: {names}; remove one of these dependencies")
        if signal not in out:
            for need in signal.needs:
                visit(need, (*path, signal))
            out[signal] = None

    for signal in signals:
        visit(signal, ())
    return tuple(out)


# readers of language models


@dataclass(frozen=True)
class LogProb(Want):
    """The log-probability of the action, in nats. [A]"""

    compared: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"logprobs"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.logprobs()


@dataclass(frozen=True)
class EntropyOf(Want):
    """The entropy of the distribution from which the action is drawn, in nats. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"entropy"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.entropy()


@dataclass(frozen=True)
class Value(Want):
    """The output of the head `name` before the action. A head over the vocabulary gives the entry of the taken action. [A]"""

    name: str = "value"

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({f"head:{self.name}"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.head(self.name)


@dataclass(frozen=True)
class HeadRow(Want):
    """All entries of the head `name` over the vocabulary, before the action. [A, V]"""

    name: str = "value"

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({f"row:{self.name}"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.head_row(self.name)


@dataclass(frozen=True)
class Viewed(Want):
    """The rows of `reads` for the contexts under the view `through`. So one objective can read both LogProb() and Viewed(LogProb(), Masked(0.6))."""

    reads: Want
    through: View

    @property
    def compared(self) -> bool:  # type: ignore[override]
        return self.reads.compared

    @property
    def needed(self) -> frozenset[str]:
        return self.reads.needed

    @property
    def view(self) -> View:
        return self.through

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return self.reads.rows(opened, key)


@dataclass(frozen=True)
class Velocity(Want):
    """The network's output at the action of a flow generator. [A, d]"""

    opens: ClassVar[frozenset[str]] = frozenset({"velocity"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.velocity()


@dataclass(frozen=True)
class MatchingError(Want):
    """The flow-matching error of a finished sample at `draws` pairs (time, noise), averaged over the dimensions. [A, draws]

    The pairs depend only on the sample's key, so every reader gets the same pairs.
    """

    draws: int = 1
    compared: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"matching"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.matching(self.draws)[0]


@dataclass(frozen=True)
class MatchingVelocity(Want):
    """The network's output at the pairs (time, noise) of `MatchingError(draws)`. [A, draws, d]"""

    draws: int = 1
    opens: ClassVar[frozenset[str]] = frozenset({"matching"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.matching(self.draws)[1]


@dataclass(frozen=True)
class MatchingTime(Want):
    """The times of the pairs of `MatchingError(draws)`, in (0, 1); 1 is noise. No gradient. [A, draws]"""

    draws: int = 1
    opens: ClassVar[frozenset[str]] = frozenset({"matching"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.matching(self.draws)[2]


@dataclass(frozen=True)
class Read(Signal):
    """Any `Want` as a `Signal`: `Read(Hidden(), player="reference")`."""

    reads: Want = LogProb()

    @property
    def want(self) -> Want:
        return self.reads


@dataclass(frozen=True)
class LogProbs(Signal):
    """The log-probability of every action, in nats, at the temperature of the context. [A]"""

    @property
    def want(self) -> Want:
        return LogProb()


@dataclass(frozen=True)
class Entropy(Signal):
    """The entropy of the distribution from which every action is drawn, in nats. [A]"""

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
    """The network's output at the pairs (time, noise) of `MatchingError(draws)`. [A, draws, d]"""

    draws: int = 1

    @property
    def want(self) -> Want:
        return MatchingVelocity(self.draws)
