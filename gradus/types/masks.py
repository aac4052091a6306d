"""Estimates of log-probabilities from masked models. A law of masks decides which tokens of an answer are hidden in each forward pass, and gives each hidden
token a factor.

A masked model gives the probability of a hidden token from the visible tokens. So the log-probability of an answer is an estimate over random masks.
A law of masks draws K passes. The estimate of a token is the sum over the passes of factor * log p(token | visible tokens of the pass). Equal keys
draw equal masks, so the new, the old and the reference model are compared on the same masks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np

from gradus.types.errors import UserError, unknown
from gradus.types.keys import Key
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Want

if TYPE_CHECKING:
    from torch import Tensor


class Masks(Protocol):
    """A law of masks, which says how masks are drawn. It is a frozen dataclass. Equal laws with equal keys draw equal masks."""

    def draw(self, actions: int, shared: Key, own: Key) -> tuple[np.ndarray, np.ndarray]:
        """Draws the K passes of an answer with A tokens: (`hidden` bool [K, A], `factors` float64 [K, A]).

        `shared`: a key that is the same for all answers of the update; `own`: the key of this answer.
        """
        ...


ORDERS = ("entropy", "confidence", "random", "left")


@dataclass(frozen=True)
class Unmask:
    """How a masked model fills in an answer: it repeatedly chooses `per_step` of the hidden tokens by `order`, and draws them.

    "entropy": first the token with the lowest entropy. "confidence": first the token whose most likely value has the largest probability. "random":
    in random order. "left": from left to right.
    """

    order: Literal["entropy", "confidence", "random", "left"] = "entropy"
    per_step: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, per_step="[1, inf)")
        if self.order not in ORDERS:
            raise unknown("order", self.order, ORDERS, "In Unmask")


@dataclass(frozen=True)
class OneStep:
    """One pass with the whole answer hidden, so the estimate is log p(token | prompt). Reference: diffu-GRPO, arXiv:2504.12216."""

    def draw(self, actions: int, shared: Key, own: Key) -> tuple[np.ndarray, np.ndarray]:
        return np.ones((1, actions), bool), np.ones((1, actions))


@dataclass(frozen=True)
class Coupled:
    """Three passes: the first hides all tokens, the second hides the tokens of a random mask, and the third hides the tokens outside this mask. Reference:
    arXiv:2506.20639.

    Each token is in the mask with probability m. The probability m is drawn uniformly from [low, high], and is equal for all answers of the update. Each
    token is hidden in the
    first pass, and in one of the other two passes. For a token in the mask, v = log p / m. For any other token, v = log p / (1 - m). The estimate is
    (log p_all_hidden + v) / 2.
    """

    low: float = 0.2
    high: float = 0.8

    def __post_init__(self) -> None:
        check_ranges(self, low="(0, 1)", high="(0, 1)")
        if self.low > self.high:
            raise UserError(f"Coupled.low is {self.low} and Coupled.high is {self.high}; set `low` to {self.high} or less")

    def draw(self, actions: int, shared: Key, own: Key) -> tuple[np.ndarray, np.ndarray]:
        share = self.low + (self.high - self.low) * float(shared.fold("share").uniform())
        mask = own.fold("mask").uniform(actions) < share
        every = np.ones(actions, bool)
        factors = [np.full(actions, 0.5), np.full(actions, 0.5 / share), np.full(actions, 0.5 / (1 - share))]
        return np.stack([every, mask, ~mask]), np.stack(factors)


@dataclass(frozen=True)
class Quadrature:
    """The ELBO, which is the integral over t in (0, 1) of E[sum of hidden log p] / t, computed with Gauss-Legendre nodes. Reference: arXiv:2510.08554.

    The levels t are the fixed nodes; only the masks are random. At node t each token is hidden with probability t, in `draws` passes. The factor of a hidden
    token is (weight of the node) / (t * draws).
    """

    nodes: int = 3
    draws: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, nodes="[1, 64]", draws="[1, inf)")

    def draw(self, actions: int, shared: Key, own: Key) -> tuple[np.ndarray, np.ndarray]:
        levels, weights = (np.repeat(a, self.draws) for a in gauss(self.nodes))
        hidden = own.fold("mask").uniform(len(levels), actions) < levels[:, None]
        return hidden, np.repeat((weights / (levels * self.draws))[:, None], actions, 1)


@dataclass(frozen=True)
class RandomLevels:
    """The ELBO from `draws` random levels t, uniform in (0, 1], with one mask per level.

    Levels and masks are both random. The estimate is unbiased, but its variance is large.
    """

    draws: int = 3

    def __post_init__(self) -> None:
        check_ranges(self, draws="[1, inf)")

    def draw(self, actions: int, shared: Key, own: Key) -> tuple[np.ndarray, np.ndarray]:
        levels = 1 - own.fold("level").uniform(self.draws)  # in (0, 1]
        hidden = own.fold("mask").uniform(self.draws, actions) < levels[:, None]
        return hidden, np.repeat((1 / (levels * self.draws))[:, None], actions, 1)


@functools.cache
def gauss(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending Gauss-Legendre nodes in (0, 1), and weights that sum to 1. The quadrature is exact for polynomials up to degree 2 * `nodes` - 1.

    >>> [x.round(5).tolist() for x in gauss(2)]
    [[0.21132, 0.78868], [0.5, 0.5]]
    """
    at, weights = np.polynomial.legendre.leggauss(nodes)
    found = (at + 1) / 2, weights / 2
    for array in found:
        array.setflags(write=False)  # one array for all calls
    return found


@dataclass(frozen=True)
class Denoised(Want):
    """factor * log p(token | visible tokens of the pass), for every pass of `masks`; 0 for a visible token. The sum over the K passes estimates log p. [A, K]

    The temperature is 1. An update draws new masks in every epoch: epoch n uses the step's key and `move` n. If `move` is None, the given key itself draws
    the masks. If an objective uses the same key for the current and the old policy, both policies get equal masks. A signal must name its `move`.
    """

    masks: Masks = OneStep()
    move: int | None = None
    compared: ClassVar[bool] = True
    redrawn: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"denoised"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.denoised(self.masks, key if self.move is None else of_move(key, self.move))

    def at(self, move: int) -> Denoised:
        """The same `Want` with the masks of the epoch `move` of the update."""
        return replace(self, move=move)


def of_move(key: Key, move: int) -> Key:
    """Makes the key of epoch `move` from the step's key, for a `Want` that draws again in every epoch of an update."""
    return key.fold("move", move)
