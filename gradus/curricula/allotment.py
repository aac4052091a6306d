"""Divides the answers of a step among its problems. The division depends on the right and wrong answers that each problem had before."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gradus.types import UserError
from gradus.types.ranges import check_ranges


class Allotment(Protocol):
    """Divides the answers of a step among the requested problems."""

    def divide(self, counts: np.ndarray, group: int, known: np.ndarray, passes: int) -> np.ndarray:
        """Returns the number of answers for each requested problem, int64 [n]. The sum is n * `group`, and each number is at least 1.

        `counts` [n, 2]: the numbers of right and wrong answers to the requested problems so far, [0, 0] for a problem without answers. `group`: answers per
        problem on average. `known` [m, 2]: the same numbers for all problems that have answers. `passes`: number of finished passes over the problems.
        """
        ...


def mixed_chance(rate: float, count: int) -> float:
    """Returns the probability that `count` answers with this success rate include both right and wrong answers: 1 - p^n - (1 - p)^n with p = `rate`,
    n = `count`.

    >>> mixed_chance(0.5, 2)
    0.5
    """
    return 1.0 - rate**count - (1.0 - rate) ** count


def gain_of_one_more(rate: float, count: int) -> float:
    """Returns the value of one more answer after `count` answers: the increase of `mixed_chance`, times p (1 - p)^2. Here p is the rate.

    >>> round(gain_of_one_more(0.1, 8), 5), round(gain_of_one_more(0.5, 8), 5)
    (0.00349, 0.00049)
    """
    return (rate**count * (1 - rate) + (1 - rate) ** count * rate) * rate * (1 - rate) ** 2


def answers_needed(rate: float, confidence: float) -> float:
    """Returns ln(1 - c) / ln max(p, 1 - p), where c is the confidence and p the rate.

    This is about the number of answers that include both right and wrong answers with probability c.
    """
    return float(np.log1p(-confidence) / np.log(max(rate, 1 - rate)))


def knapsack(rates: np.ndarray, counts: np.ndarray, more: int, high: int) -> np.ndarray:
    """Divides `more` further answers among the problems and returns the new counts. Each answer goes to the problem with the largest gain, up to `high`
    answers per problem.

    The gain of a further answer falls with the number of answers, so this division has the largest total gain. If gains are equal, the earlier problem gets
    the answer. If all problems have `high` answers, the remaining answers are not given.
    """
    out = counts.copy()
    heap = [(-gain_of_one_more(float(rates[i]), int(out[i])), i) for i in range(len(out)) if out[i] < high]
    heapq.heapify(heap)
    for _ in range(more if heap else 0):
        _, i = heapq.heappop(heap)
        out[i] += 1
        if out[i] < high:
            heapq.heappush(heap, (-gain_of_one_more(float(rates[i]), int(out[i])), i))
        if not heap:
            break
    return out


def levelled(counts: np.ndarray, more: int, high: int | None = None) -> np.ndarray:
    """Divides `more` further answers among the problems and returns the new counts. Each answer goes to the problem with the fewest answers, up to `high`
    (None: no limit) per problem.

    >>> levelled(np.array([2, 2, 5]), 5).tolist()
    [5, 4, 5]
    """
    out = counts.copy()
    for _ in range(more if len(out) else 0):
        i = int(np.argmin(out))
        if high is not None and out[i] >= high:
            break
        out[i] += 1
    return out


def difficulty_ranks(counts: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns the rank of each problem, [n] in [0, 1): the share of the `known` problems that have a larger share of right answers.

    A known problem with an equal share counts as one half. A problem is not compared with itself.

    Args: counts [n, 2] and known [m, 2]: right and wrong answers. A problem without an answer has the rank 0.
    """
    answers, all_answers = counts.sum(1), known.sum(1)
    shares = known[all_answers > 0, 0] / all_answers[all_answers > 0]
    if not len(shares):
        return np.zeros(len(counts))
    own = counts[:, 0] / np.where(answers > 0, answers, 1.0)
    above = (shares[None] > own[:, None]).sum(1) + np.maximum(0, (shares[None] == own[:, None]).sum(1) - 1) / 2
    return np.where(answers > 0, above / len(shares), 0.0)


def by_rank(ranks: np.ndarray, total: int, low: int, high: int) -> np.ndarray:
    """Divides `total` answers.

    Each problem first gets `low` answers. The rest is divided in proportion to the ranks, rounded down; no problem gets more than `high`.

    The remainder goes to the problems with the highest ranks, up to `high` answers per problem. Returns int64 [n].

    >>> by_rank(np.array([0.0, 0.25, 0.5, 0.75]), 32, 4, 12).tolist()
    [4, 6, 10, 12]
    """
    out = np.full(len(ranks), low, np.int64)
    spare = total - int(out.sum())
    if ranks.sum() > 0:
        out = np.minimum(out + np.floor(spare * ranks / ranks.sum() + 1e-9).astype(np.int64), high)
    for i in np.argsort(-ranks, kind="stable"):
        out[i] += min(max(0, total - int(out.sum())), max(0, high - int(out[i])))
    return out


@dataclass(frozen=True)
class ByRank:
    """Gives hard problems more answers than easy problems. The differences grow with the number of passes over the problems.

    In the first pass every problem gets `group` answers. After e passes a problem gets at least max(group - e * step, low) and at most min(group +
    e * step, high) answers.
    """

    low: int = 4
    high: int = 12
    step: int = 2  # in each pass the lower bound falls and the upper bound rises by this number of answers

    def __post_init__(self) -> None:
        check_ranges(self, low="[1, inf)", high="[1, inf)", step="[0, inf)")
        if self.low > self.high:
            raise UserError(f"ByRank.low is {self.low}, which is above ByRank.high ({self.high}); set `low` to {self.high} or less")

    def divide(self, counts: np.ndarray, group: int, known: np.ndarray, passes: int) -> np.ndarray:
        low = max(group - passes * self.step, min(self.low, group))
        high = min(group + passes * self.step, max(self.high, group))
        return by_rank(difficulty_ranks(counts, known), len(counts) * group, low, high)


@dataclass(frozen=True)
class Knapsack:
    """Gives each answer to the problem that gains most from one more answer (see `gain_of_one_more`).

    The gain is the rise of `mixed_chance` (the probability of a gradient), times p (1 - p)^2, where p is the share of right answers.

    A problem without an answer gets `group` answers, and every other problem gets at least `low`. Problems with 0 < p < 1 share the rest, up to `high` answers
    per problem. A problem with 0 < p < 1 needs the number of answers that `answers_needed` returns. If the rest is larger than the sum of these numbers, the
    surplus goes to the problems with p = 0 in equal parts. If answers are left after these rules, they go to the problems with the fewest answers.
    """

    low: int = 2
    high: int = 128
    confidence: float = 0.9  # the probability in `answers_needed`, for problems with 0 < p < 1

    def __post_init__(self) -> None:
        check_ranges(self, low="[1, inf)", high="[1, inf)", confidence="(0, 1)")
        if self.low > self.high:
            raise UserError(f"Knapsack.low is {self.low}, which is above Knapsack.high ({self.high}); set `low` to {self.high} or less")

    def divide(self, counts: np.ndarray, group: int, known: np.ndarray, passes: int) -> np.ndarray:
        answers = counts.sum(1)
        rates = counts[:, 0] / np.where(answers > 0, answers, 1.0)
        total, between, unsolved = len(counts) * group, (rates > 0) & (rates < 1), (answers > 0) & (rates == 0)
        out = np.where(answers > 0, min(self.low, group), group).astype(np.int64)
        needed = sum(int(min(self.high, answers_needed(float(p), self.confidence))) for p in rates[between])
        out[unsolved] = levelled(out[unsolved], max(0, total - int(out.sum()) - needed), self.high)
        out[between] = knapsack(rates[between], out[between], total - int(out.sum()), self.high)
        return levelled(out, total - int(out.sum()))
