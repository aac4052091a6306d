"""Signals are what a part `needs` to read (no gradient); wants are what an objective reads with gradient. Both are small constants, hashable.

A reader gives one row an action, in the order of the actions of the contexts that it was asked about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Signal:
    """Read from `player` in a forward pass without gradient.

    `fresh`: read with the weights at the start of the update; else as they were when the trajectories were judged.
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
    """The value head's estimate before every action; `after_last` adds nothing to the rows but is kept for bootstrapping truncated ends. [A]"""


@dataclass(frozen=True)
class Prediction(Signal):
    """What the network predicts for every action, for policies whose actions are vectors. [A, d]"""


@dataclass(frozen=True)
class Want:
    """A row an action, with gradient."""


@dataclass(frozen=True)
class LogProb(Want):
    """Log-probability of the action, nats. [A]"""


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
    """Flow-matching error of a finished sample at `draws` keyed (time, noise) pairs, mean over dimensions. [A, draws]"""

    draws: int = 1
