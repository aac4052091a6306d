"""A curriculum that remembers how often each problem was answered right, predicts success rates, and chooses problems before any sampling."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from gradus.curricula.allotment import Allotment
from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.types import Group, Key, Problem, Request, UserError
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges


class Estimate(Protocol):
    """Predicts success rates from counts of right and wrong answers."""

    def expected(self, counts: np.ndarray) -> np.ndarray:
        """Returns the expected success rates [N]. `counts`: right and wrong answers [N, 2], float64; [0, 0] for a problem without answers."""
        ...

    def drawn(self, counts: np.ndarray, key: Key) -> np.ndarray:
        """Returns the success rates [N] that decide which problems are chosen. An estimate that is not random returns `expected`."""
        ...


class Choice(Protocol):
    """Chooses candidates by their predicted success rates."""

    def pick(self, rates: np.ndarray, count: int, key: Key) -> np.ndarray:
        """Returns the indices [count] of the chosen candidates, in ascending order; an index can occur twice. `rates`: [N] with N >= count."""
        ...


@dataclass(frozen=True)
class Posterior:
    """Keeps a Beta posterior over the success rate of each problem. The prediction is a draw from this posterior (Thompson sampling).

    The posterior is Beta(alpha + right, beta + wrong). A problem without an answer has the prior Beta(alpha, beta).
    """

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, alpha="(0, inf)", beta="(0, inf)")

    def expected(self, counts: np.ndarray) -> np.ndarray:
        """Returns the means of the posteriors [N]."""
        return np.asarray((self.alpha + counts[:, 0]) / (self.alpha + self.beta + counts.sum(1)))

    def drawn(self, counts: np.ndarray, key: Key) -> np.ndarray:
        """Returns one draw from each posterior [N]: the quantile at a uniform number that a key draws."""
        from scipy.special import betaincinv

        return np.asarray(betaincinv(self.alpha + counts[:, 0], self.beta + counts[:, 1], key.uniform(len(counts))))


@dataclass(frozen=True)
class Mean:
    """Predicts the share of right answers.

    A problem without an answer gets the mean share of all candidates that have an answer. If no candidate has an answer, the prediction is `first`.
    """

    first: float = 0.5  # the prediction if no candidate has an answer

    def __post_init__(self) -> None:
        check_ranges(self, first="[0, 1]")

    def expected(self, counts: np.ndarray) -> np.ndarray:
        """Returns the shares of right answers [N]."""
        answered = counts.sum(1) > 0
        shares = counts[:, 0] / np.where(answered, counts.sum(1), 1.0)
        return np.where(answered, shares, shares[answered].mean() if answered.any() else self.first)

    def drawn(self, counts: np.ndarray, key: Key) -> np.ndarray:
        """Returns `expected`."""
        return self.expected(counts)


@dataclass(frozen=True)
class Nearest:
    """Chooses the candidates with the predicted rates nearest to `target`. If candidates are equally near, the earlier candidates are chosen."""

    target: float = 0.5

    def __post_init__(self) -> None:
        check_ranges(self, target="[0, 1]")

    def pick(self, rates: np.ndarray, count: int, key: Key) -> np.ndarray:
        return np.sort(np.argsort(np.abs(rates - self.target), kind="stable")[:count])


@dataclass(frozen=True)
class InBand:
    """Chooses candidates at random among those with a predicted rate in [low, high].

    If this band has too few candidates, also chooses the candidates outside the band with the nearest rates.
    """

    low: float = 0.3
    high: float = 0.7

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1]", high="[0, 1]")
        if self.low > self.high:
            raise UserError(f"InBand.low is {self.low}, which is above InBand.high ({self.high}); set `low` to {self.high} or less")

    def pick(self, rates: np.ndarray, count: int, key: Key) -> np.ndarray:
        outside = np.maximum(0.0, np.maximum(self.low - rates, rates - self.high))
        return np.sort(np.lexsort((key.uniform(len(rates)), outside))[:count])


@dataclass(frozen=True)
class Proportional:
    """Draws a share of the problems with replacement, in proportion to a weight of the predicted rate p. The rest of the problems are the first candidates.

    The weight is p (1 - p) ("variance") or 1 - p ("failure"). If all weights are 0, no problem is drawn by weight.
    """

    weight: Literal["variance", "failure"] = "failure"
    share: float = 1.0  # of `count` problems, floor(share * count) are drawn by weight

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]")

    def pick(self, rates: np.ndarray, count: int, key: Key) -> np.ndarray:
        weights = rates * (1 - rates) if self.weight == "variance" else 1 - rates
        number = int(self.share * count) if weights.sum() > 0 else 0
        return np.sort(np.concatenate([drawn_by_weight(weights, number, key), np.arange(count - number)]))


def drawn_by_weight(weights: np.ndarray, count: int, key: Key) -> np.ndarray:
    """Draws `count` indices with replacement, in proportion to `weights` [N]. Weights must be at least 0. Returns int64 [count].

    Raises ValueError if `count` is above 0 and all weights are 0.
    """
    if not count:
        return np.zeros(0, dtype=np.int64)
    bounds = np.cumsum(weights)
    if not len(bounds) or not bounds[-1] > 0:
        raise ValueError("all weights are 0, so no index can be drawn; give at least one weight above 0")
    found = np.searchsorted(bounds, key.uniform(count) * bounds[-1], side="right")
    return np.minimum(found, np.flatnonzero(weights)[-1]).astype(np.int64)  # the product may be rounded up to the last bound


def answered(groups: Sequence[Group]) -> dict[str, np.ndarray]:
    """Maps every problem to the numbers of its right and wrong answers [2], float64. Failed, given and untrained answers do not count."""
    found: dict[str, np.ndarray] = {}
    for t in (t for group in groups for t in group.trajectories):
        if t.failed is None and t.trained and t.source == "policy":
            found.setdefault(t.problem.id, np.zeros(2))[0 if t.right else 1] += 1
    return found


def ranks(values: np.ndarray) -> np.ndarray:
    """Returns the rank of each value [N], from 0 on. Equal values all get the mean of their ranks."""
    ordered = np.sort(values)
    return np.asarray((np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / 2)


def rank_correlation(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float | None:
    """Returns Spearman's rank correlation.

    Returns None if all values of `first` or all values of `second` are equal, because the correlation is then undefined.

    >>> rank_correlation([0.1, 0.5, 0.9], [0.0, 1.0, 0.5])
    0.5
    """
    if len(first) < 2:
        return None
    one, other = (ranks(np.asarray(values, dtype=np.float64)) for values in (first, second))
    one, other = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / scale if scale else None


def candidates(source: Source, count: int, world: World, *, factor: int, first: int, size: int | None) -> tuple[list[Problem], int]:
    """Returns the candidates of a request for `count` problems, and the number of problems that the request takes from the order.

    The candidates are the next `factor` * `count` problems in the order of `ShuffledEpochs`, from index `first` on. A problem occurs only once among the
    candidates, unless there are fewer than `count` problems. `size`: number of problems of a pass; None: every problem is new.
    """
    number = count * factor if size is None else min(count * factor, max(size, count))
    order = sweep_order(size, range(first, first + number), world.seed)
    once = list(dict.fromkeys(order))
    order = once if len(once) >= count else order
    return problems_at(source, order, world), number


@dataclass(frozen=True)
class SuccessRates:
    """Remembers the right and wrong answers to each problem, predicts the success rates of candidates, and requests the problems that `choice` selects.

    For a request for n problems, the candidates are the next `factor` * n problems in the order of `ShuffledEpochs`. A problem occurs only once among the
    candidates, unless there are fewer than n problems. With `factor` 1 all candidates are requested. No answer is sampled for candidates that are not chosen.
    After a step, the counts of its problems become keep * counts + (right, wrong). The problems of groups that the selection dropped are included. The counts
    of all other problems do not change.

    The metric `predicted_rate` is the mean expected rate of the requested problems. The metric `rank_correlation` is Spearman's correlation of the expected
    rates with the shares of right answers in the step. With `allot`, the metric `allotted_most` is the largest number of answers to a problem.
    """

    estimate: Estimate = Posterior()
    choice: Choice = Nearest()
    keep: float = 1.0  # the weight of earlier answers; 1: all answers have the same weight; 0: only answers of the last step with this problem count
    factor: int = 8  # candidates per requested problem
    pool: int | None = 256  # number of problems that are taken from an endless source; None: every problem is new
    group: int | None = None  # samples per problem; None: `group` of the setting
    allot: Allotment | None = None  # divides the samples among the problems; None: each problem gets `group`
    asks_right: ClassVar[str] = "ShuffledEpochs"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, keep="[0, 1]", factor="[1, inf)", pool="[1, inf)", group="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"drawn": 0, "counts": {}, "expected": {}}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains the number of candidates so far, the counts by problem, and the predictions of this step."""
        first, size = state["drawn"], self.pool if source.size is None else source.size
        problems, number = candidates(source, count, world, factor=self.factor, first=first, size=size)
        counts = counts_of(state["counts"], [p.id for p in problems])
        expected, key = self.estimate.expected(counts), world.seed.fold("rates", first)
        chosen = self.choice.pick(self.estimate.drawn(counts, key.fold("estimate")), count, key.fold("choice"))
        for i in chosen:
            world.note("predicted_rate", float(expected[i]))
        asked = {problems[i].id: float(expected[i]) for i in chosen}
        shares = self._shares(counts[chosen], self.group or world.group, state["counts"], first // (size or sys.maxsize), world)
        requests = [Request(problems[i], count=share) for i, share in zip(chosen, shares, strict=True)]
        return requests, {**state, "drawn": first + number, "expected": {**state["expected"], **asked}}

    def _shares(self, counts: np.ndarray, group: int, known: Mapping[str, Sequence[float]], passes: int, world: World) -> list[int]:
        """Returns the number of samples of each requested problem."""
        if self.allot is None or not len(counts):
            return [group] * len(counts)
        shares = [int(n) for n in self.allot.divide(counts, group, counts_of(known, list(known)), passes)]
        world.note("allotted_most", float(max(shares)))
        return shares

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state after a step: the answers of the step are added to the counts."""
        found = answered((*groups, *dropped))
        before = counts_of(state["counts"], list(found))
        after = {name: (self.keep * old + new).tolist() for (name, new), old in zip(found.items(), before, strict=True)}
        known = [name for name in found if name in state["expected"]]
        rates = [float(found[name][0] / found[name].sum()) for name in known]
        if (seen := rank_correlation([state["expected"][name] for name in known], rates)) is not None:
            world.note("rank_correlation", seen)
        return {**state, "counts": {**state["counts"], **after}, "expected": {}}


def counts_of(counts: Mapping[str, Sequence[float]], names: Sequence[str]) -> np.ndarray:
    """Returns the numbers of right and wrong answers [N, 2] to these problems, float64."""
    return np.array([counts.get(name, (0.0, 0.0)) for name in names], dtype=np.float64).reshape(-1, 2)
