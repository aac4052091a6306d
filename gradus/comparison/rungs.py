"""The decisions of a race: the rungs, their lengths, and the contestants that a rung drops. These functions depend only on scores and execute no run.

Successive halving (Jamieson and Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, arXiv:1502.07943): every contestant trains
a little, then the better half trains twice as long. This repeats until two contestants are left. As in racing (Maron and Moore, Hoeffding
Races, NIPS 1993; Birattari and others, A Racing Algorithm for Configuring Metaheuristics, GECCO 2002), a rung also drops every contestant whose
interval is below the interval of the leader. The race ends when one contestant is left.

Gradus separates two sources of error. A rung with one seed has intervals over held-out problems alone, without the randomness of training.
So a rung with one seed keeps at least a quarter of its contestants, and at least two. Rungs with at most `LATE` contestants have several seeds, and their
intervals contain both sources. All intervals of a rung are corrected for the number of intervals (Bonferroni).

Not used: Hyperband (Li and others, arXiv:1603.06560) runs several such races, each with a different first rung, so it needs several budgets.
ASHA (Li and others, arXiv:1810.05934) promotes contestants before a rung is complete, so its result depends on the order in which runs end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradus.comparison.statistics import Difference, difference, over_problems

FACTOR = 2  # the runs of a rung are longer by this factor than in the rung before, and the number of contestants is smaller by this factor
LATE = 4  # a rung with at most this many contestants has several seeds
LEVEL = 0.95  # confidence level of all intervals of a rung together

Scores = Mapping[str, np.ndarray | str]
"""By contestant: float64 [seeds, problems], or the reason why its run failed."""


@dataclass(frozen=True)
class Rung:
    """A planned rung: the largest number of contestants, the seeds of each, and its length as a share of a full run."""

    arms: int
    seeds: int
    share: float


@dataclass(frozen=True)
class Loss:
    """A contestant that left the race: rung (from 1), rank in the rung, score, difference to the leader with its interval, and reason."""

    name: str
    rung: int
    reason: str
    place: int | None = None
    score: float | None = None
    against: str | None = None
    behind: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A rung: its contestants from best to worst, the remaining contestants, and the dropped contestants."""

    order: tuple[str, ...]
    kept: tuple[str, ...]
    lost: tuple[Loss, ...]
    scores: Mapping[str, float]


@dataclass
class Outcome:
    """A race: the contestants that are left, from best to worst, and the verdicts.

    `spent`: whether the budget ended the race before its last rung.
    """

    left: tuple[str, ...]
    verdicts: list[Verdict] = field(default_factory=list)
    spent: bool = False

    @property
    def winner(self) -> str | None:
        return self.left[0] if self.left else None

    @property
    def lost(self) -> list[Loss]:
        """All losses, the last one first."""
        return [loss for verdict in reversed(self.verdicts) for loss in verdict.lost]


def rungs_of(contestants: int, seeds: int = 3) -> tuple[Rung, ...]:
    """The rungs of a race. Compared with the rung before, each rung has half the contestants and twice the length, until two contestants are left.

    >>> [(rung.arms, rung.seeds, rung.share) for rung in rungs_of(10)]
    [(10, 1, 0.125), (5, 1, 0.25), (3, 3, 0.5), (2, 3, 1.0)]
    """
    sizes = [contestants]
    while sizes[-1] > FACTOR:
        sizes.append(math.ceil(sizes[-1] / FACTOR))
    return tuple(Rung(n, seeds if n <= LATE else 1, float(FACTOR ** (i + 1 - len(sizes)))) for i, n in enumerate(sizes))


def runs_of(rungs: Sequence[Rung]) -> int:
    """The largest number of runs in a race. Each start and each continuation counts."""
    return sum(rung.arms * rung.seeds for rung in rungs)


def cost(rungs: Sequence[Rung], *, arms: int | None = None, reached: float = 0.0, seeds: int = 0, extra: float = 0.0) -> tuple[float, float]:
    """(a, b): the rungs cost a R + b if a full run has the length R.

    A rung has A contestants and S seeds. The rung before trained s of these seeds to the length r'. With the length r, the rung costs

        A (s (r - r') + (S - s) r) + A S extra        r = share R

    Args: `arms`: contestants now (None: as planned). `reached`, `seeds`: r' and s of the rung before. `extra`: the cost of each start or continuation of a
    run in addition to training.
    """
    slope, fixed, before = 0.0, 0.0, 0.0
    for number, rung in enumerate(rungs):
        count = rung.arms if arms is None else min(arms, rung.arms)
        old = min(seeds, rung.seeds)
        slope += count * (old * (rung.share - before) + (rung.seeds - old) * rung.share)
        fixed += count * rung.seeds * extra - (count * old * reached if number == 0 else 0.0)
        before, seeds = rung.share, rung.seeds
    return slope, fixed


def affordable(rungs: Sequence[Rung], left: float, **how: Any) -> float:
    """The length of a full run if the rungs cost exactly the rest of the budget. The result is below 0 if the rest is less than the extra cost.

    Args: how: as for `cost`.

    >>> affordable(rungs_of(2, seeds=1), 100.0)
    50.0
    """
    slope, fixed = cost(rungs, **how)
    return (left - fixed) / slope


def judged(number: int, keep: int, scores: Scores, sign: int = 1) -> Verdict:
    """The verdict of rung `number` (from 1), which keeps at most `keep` contestants.

    Args: sign: 1 if a higher score is better, -1 if a lower score is better.
    """
    failed = {name: found for name, found in scores.items() if isinstance(found, str)}
    found = {name: sign * np.asarray(values, np.float64) for name, values in scores.items() if not isinstance(values, str)}
    lost = [Loss(name, number, f"failed: {reason}") for name, reason in failed.items()]
    if not found:
        return Verdict((), (), tuple(lost), {})
    means = {name: float(values.mean()) for name, values in found.items()}
    order = tuple(sorted(found, key=lambda name: -means[name]))
    leader, seeds = order[0], found[order[0]].shape[0]
    safe = 1 if seeds > 1 else max(2, math.ceil(len(order) / FACTOR**2))
    kept, level = [leader], 1 - (1 - LEVEL) / max(len(order) - 1, 1)
    for place, name in enumerate(order[1:], start=2):
        gap = gap_of(found[leader], found[name], level)
        clear = gap.low is not None and gap.low > 0
        if place <= keep and (not clear or place <= safe):
            kept.append(name)
            continue
        rank = "in the lower half" if keep > 1 else "second"
        reason = "significantly below the leader" if clear else f"{rank}, without a significant difference"
        lost.append(Loss(name, number, reason, place, sign * means[name], leader, gap.mean, gap.low, gap.high))
    return Verdict(order, tuple(kept), tuple(lost), {name: sign * means[name] for name in order})


def gap_of(a: np.ndarray, b: np.ndarray, level: float) -> Difference:
    """The difference of two contestants with its interval. The interval is over seeds and problems; with a single seed, it is over problems alone."""
    return difference(a, b, level) if len(a) > 1 else over_problems(a[0], b[0], level)


def hold(names: Sequence[str], rungs: Sequence[Rung], scores: Callable[[int, Rung, Sequence[str]], Scores | None], sign: int = 1) -> Outcome:
    """Runs the race.

    Args: `scores`: a function that trains the contestants of a rung (number from 0). The function returns the scores of these contestants, or None if the
    budget is spent.
    """
    outcome = Outcome(tuple(names))
    for number, rung in enumerate(rungs):
        found = scores(number, rung, outcome.left)
        if found is None:
            outcome.spent = True
            break
        keep = rungs[number + 1].arms if number + 1 < len(rungs) else 1
        verdict = judged(number + 1, keep, found, sign)
        outcome.verdicts.append(verdict)
        outcome.left = verdict.kept
        if len(verdict.kept) < 2:
            break
    return outcome
