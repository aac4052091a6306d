"""Signals name model outputs that a part `needs` (no gradient); wants name those that an objective reads with gradient. Both are hashable.

A reader returns one row per action, in the order of the actions of the given contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Signal:
    """An output of `player`, read in a forward pass without gradient.

    `fresh`: read with the weights at the start of the update; else with the weights that judged the trajectories.
    """

    player: str = "policy"
    fresh: bool = False


@dataclass(frozen=True)
class LogProbs(Signal):
    """Log-probability of every action, nats, at the context's temperature. [A]"""


@dataclass(frozen=True)
class Entropy(Signal):
    """Entropy of the distribution at every action, nats. [A]"""


@dataclass(frozen=True)
class Values(Signal):
    """The value head's estimate before every action. [A]"""


@dataclass(frozen=True)
class Prediction(Signal):
    """The network's prediction for every action, for policies whose actions are vectors. [A, d]"""


@dataclass(frozen=True)
class MatchedVelocity(Signal):
    """The network's output at the times and noises of `MatchingError(draws)`. [A, draws, d]"""

    draws: int = 1


@dataclass(frozen=True)
class Want:
    """One row per action, with gradient. `compared`: an update of several optimiser steps keeps the rows of its start in `Batch.old`."""

    compared: ClassVar[bool] = False


@dataclass(frozen=True)
class LogProb(Want):
    """Log-probability of the action, nats. [A]"""

    compared: ClassVar[bool] = True


@dataclass(frozen=True)
class EntropyOf(Want):
    """Entropy at the action, nats. [A]"""


@dataclass(frozen=True)
class Value(Want):
    """The value head's estimate before the action. [A]"""


@dataclass(frozen=True)
class Velocity(Want):
    """The network's output at the action of a flow generator. [A, d]"""


@dataclass(frozen=True)
class MatchingError(Want):
    """Flow-matching error of a finished sample at `draws` (time, noise) pairs, mean over dimensions. [A, draws]

    The pairs are a function of the sample's key, so every reader gets the same pairs.
    """

    draws: int = 1
    compared: ClassVar[bool] = True


@dataclass(frozen=True)
class MatchingVelocity(Want):
    """The network's output at the pairs of `MatchingError(draws)`. [A, draws, d]"""

    draws: int = 1


@dataclass(frozen=True)
class MatchingTime(Want):
    """The times of the pairs of `MatchingError(draws)`, in (0, 1); 1 is noise. No gradient. [A, draws]"""

    draws: int = 1
