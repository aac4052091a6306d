"""Scores of trajectories, links of a preference and likenesses of a pair, in plain loops over Python's floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gradus.objectives.flow_matching import Robust, Weighted
from gradus.objectives.preference import Logistic, Squared
from gradus.objectives.scores import LengthDiscounted, LogOdds, LogRatio, MeanLogProb
from tests.reference.given import Row
from tests.reference.pieces import Numbers, actions, sigmoid

# scores: of the trajectory that row indices make up


def log_ratio_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    return sum(now[i] - rows[i].reference for i in mine)


def discounted_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    """What all answers of the group have in length counts whole, and the rest alpha."""
    first = rows[mine[0]]
    others = [r.trajectory for r in rows if r.group == first.group and r.source == first.source]
    shared = min(others.count(t) for t in set(others))
    gaps = [now[i] - rows[i].reference for i in mine]
    return sum(gaps[:shared]) + part.alpha * sum(gaps[shared:])


def mean_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    return sum(now[i] for i in mine) / len(mine)


def odds_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    p = math.exp(mean_score(part, rows, mine, now))
    return math.log(p / (1 - p))


SCORES: Mapping[type, Callable[..., float]] = {
    LogRatio: log_ratio_score,
    MeanLogProb: mean_score,
    LogOdds: odds_score,
    LengthDiscounted: discounted_score,
}


def scores(part: Any, rows: list[Row], source: str, now: Numbers) -> dict[int, float]:
    """By trajectory."""
    ids = dict.fromkeys(r.trajectory for r in actions(rows, source))
    return {t: SCORES[type(part)](part, rows, [i for i, r in enumerate(rows) if r.trajectory == t], now) for t in ids}


def by_group(rows: list[Row], source: str) -> list[list[tuple[int, float]]]:
    """(trajectory, reward) of every group that has one of the source."""
    mine = actions(rows, source)
    return [list(dict.fromkeys((r.trajectory, r.reward) for r in mine if r.group == g)) for g in dict.fromkeys(r.group for r in mine)]


# links: of the scores of the better and of the worse


def logistic(part: Any, better: float, worse: float, beta: float) -> float:
    return -math.log(sigmoid(beta * (better - worse) - part.margin))


def squared(part: Any, better: float, worse: float, beta: float) -> float:
    return (better - worse - 1 / (2 * beta)) ** 2


LINKS: Mapping[type, Callable[..., float]] = {Logistic: logistic, Squared: squared}

# likenesses: of one pair


def weighted(part: Any, error: float, time: float) -> float:
    return -(time**part.power) * error


def robust(part: Any, error: float, time: float) -> float:
    return -time * (error + part.floor) ** part.power / part.power


LIKENESSES: Mapping[type, Callable[..., float]] = {Weighted: weighted, Robust: robust}
