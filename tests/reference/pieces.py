"""Of which objectives are made, from their formulas, in plain loops over Python's floats: averages, ratios, trust regions, weights.

What the formulas hold without gradient is computed from `at`, the rest from `now`: a difference quotient in `now` alone is then the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradus.objectives.aggregation import ConstantLength, ConstantTotal, ContextMean, GroupMean, Joint, SequenceMean, SequenceSum, TokenMean
from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.ratios import OnPolicy, Probability, SequenceRatio, SequenceTokenRatio, TokenRatio
from gradus.objectives.terms import TruncatedImportance
from gradus.objectives.trust import CappedWeight, Clip, DualClip, Shaped, Unclipped, WeightedLikelihood
from gradus.papers.agents.aepo import OpenTop
from gradus.papers.agents.prompt_pg import BatchSum
from gradus.papers.data.clpo import ByDifficulty
from gradus.papers.guidance.chord_phi import Likelihood, Undecided
from gradus.papers.guidance.kdrl import WrongOnly
from gradus.papers.objectives.bapo import BalancedClip
from gradus.papers.objectives.capo import CountingClip
from gradus.papers.objectives.gppo import PreservingClip
from gradus.papers.objectives.group_relative_reinforce import MaskedReinforce
from gradus.papers.objectives.m2po import SecondMoment, SecondMomentClip
from gradus.papers.objectives.magistral import NormalisedClip
from gradus.papers.objectives.nft import ImplicitNegative
from gradus.papers.objectives.prioritized_kl import CertaintyWeight
from gradus.papers.objectives.sapo import SoftGate
from gradus.papers.rewards.stable_reinforce import PreClipped
from tests.reference.given import TAUS, VOCABULARY, Row

Numbers = list[float]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def kl(now: float, reference: float, estimator: str) -> float:
    """Schulman's three: with r = pi_ref / pi, -log r, (log r)^2 / 2, r - 1 - log r."""
    r = math.exp(reference) / math.exp(now)
    return {"k1": -math.log(r), "k2": math.log(r) ** 2 / 2, "k3": r - 1 - math.log(r)}[estimator]


# averages: the coefficient of row i, an action of `source`


def actions(rows: list[Row], source: str) -> list[Row]:
    return [r for r in rows if r.source == source]


def token_mean(part: Any, rows: list[Row], source: str, row: Row) -> float:
    if part.counted == "weighted":
        return 1 / sum(r.weighs for r in actions(rows, source))
    return 1 / len(actions(rows, source))


def sequence_mean(part: Any, rows: list[Row], source: str, row: Row) -> float:
    if part.counted == "weighted":
        mine = sum(r.weighs for r in rows if r.trajectory == row.trajectory)
        return 1 / len({r.trajectory for r in actions(rows, source) if r.weighs > 0}) / mine if mine else 0.0
    return sequence_sum(part, rows, source, row) / sum(r.trajectory == row.trajectory for r in rows)


def sequence_sum(part: Any, rows: list[Row], source: str, row: Row) -> float:
    return 1 / len({r.trajectory for r in actions(rows, source)})


def context_mean(part: Any, rows: list[Row], source: str, row: Row) -> float:
    return 1 / len({r.context for r in actions(rows, source)}) / sum(r.context == row.context for r in rows)


def group_mean(part: Any, rows: list[Row], source: str, row: Row) -> float:
    mine = actions(rows, source)
    return 1 / len({r.group for r in mine}) / sum(r.group == row.group for r in mine)


def constant_length(part: Any, rows: list[Row], source: str, row: Row) -> float:
    return sequence_sum(part, rows, source, row) / part.length


def constant_total(part: Any, rows: list[Row], source: str, row: Row) -> float:
    return 1 / part.total


def joint(part: Any, rows: list[Row], source: str, row: Row) -> float:
    as_one = [replace(r, source=source) for r in rows]
    return coefficient(part.average, as_one, source, replace(row, source=source))


def batch_sum(part: Any, rows: list[Row], source: str, row: Row) -> float:
    return 1.0


AVERAGES: Mapping[type, Callable[..., float]] = {
    TokenMean: token_mean,
    SequenceMean: sequence_mean,
    SequenceSum: sequence_sum,
    ContextMean: context_mean,
    GroupMean: group_mean,
    ConstantLength: constant_length,
    ConstantTotal: constant_total,
    Joint: joint,
    BatchSum: batch_sum,
}


def coefficient(part: Any, rows: list[Row], source: str, row: Row) -> float:
    return AVERAGES[type(part)](part, rows, source, row)


def averaged(part: Any, rows: list[Row], source: str, losses: Mapping[int, float]) -> float:
    """The sum over the actions of the source; losses by the row's place among all rows."""
    total = 0.0
    for i, row in enumerate(rows):
        if row.source == source:
            total += coefficient(part, rows, source, row) * losses[i]
    return total


# ratios: log of the ratio of row i


def compared(part: Any, row: Row) -> float:
    return row.behaviour if part.against == "behaviour" else row.old


def token_ratio(part: Any, rows: list[Row], i: int, now: Numbers, at: Numbers) -> float:
    return now[i] - compared(part, rows[i])


def sequence_ratio(part: Any, rows: list[Row], i: int, now: Numbers, at: Numbers) -> float:
    mine = [j for j, r in enumerate(rows) if r.trajectory == rows[i].trajectory]
    product = 1.0
    for j in mine:
        product *= math.exp(now[j]) / math.exp(compared(part, rows[j]))
    return math.log(product ** (1 / len(mine)))


def sequence_token_ratio(part: Any, rows: list[Row], i: int, now: Numbers, at: Numbers) -> float:
    return math.log(math.exp(sequence_ratio(part, rows, i, at, at)) * math.exp(now[i]) / math.exp(at[i]))


def probability(part: Any, rows: list[Row], i: int, now: Numbers, at: Numbers) -> float:
    return now[i]


def pre_clipped(part: Any, rows: list[Row], i: int, now: Numbers, at: Numbers) -> float:
    ratio = math.exp(now[i]) / math.exp(compared(part, rows[i]))
    return math.log(min(max(ratio, part.least), part.most))


def on_policy(part: Any, rows: list[Row], i: int, now: Numbers, at: Numbers) -> float:
    return now[i] - at[i]


RATIOS: Mapping[type, Callable[..., float]] = {
    TokenRatio: token_ratio,
    SequenceRatio: sequence_ratio,
    SequenceTokenRatio: sequence_token_ratio,
    Probability: probability,
    OnPolicy: on_policy,
    PreClipped: pre_clipped,
}

# trust: losses from log-ratios and advantages


def unclipped(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    return [-math.exp(x) * a for x, a in zip(now, advantages, strict=True)]


def clip(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    out = []
    for x, a in zip(now, advantages, strict=True):
        ratio = math.exp(x)
        held = min(max(ratio, 1 - part.low), 1 + part.high)
        out.append(-min(ratio * a, held * a))
    return out


def dual_clip(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    single = clip(part, now, at, advantages)
    return [-max(-loss, part.ceiling * a) if a < 0 else loss for loss, a in zip(single, advantages, strict=True)]


def capped_weight(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    out = []
    for x, y, a in zip(now, at, advantages, strict=True):
        weight = min(max(math.exp(y), part.floor), part.cap)
        out.append(-weight * a * (1 + (x - y)))
    return out


def shaped(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    return [-math.exp(x) / (math.exp(x) + part.gamma) * a for x, a in zip(now, advantages, strict=True)]


def harmful(at: Numbers, advantages: Numbers) -> list[int]:
    return [i for i, (y, a) in enumerate(zip(at, advantages, strict=True)) if (y > 0 and a > 0) or (y < 0 and a < 0)]


def second_moment(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    left = harmful(at, advantages)
    while left and sum(at[i] ** 2 for i in left) / len(left) > part.tau:
        left.remove(max(left, key=lambda i: (at[i] ** 2, i)))
    gone = set(harmful(at, advantages)) - set(left)
    return [0.0 if i in gone else loss for i, loss in enumerate(unclipped(part, now, at, advantages))]


def second_moment_clip(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    drifts = [abs(at[i]) for i in harmful(at, advantages)]

    def moment(cap: float) -> float:
        return sum(min(d, cap) ** 2 for d in drifts) / len(drifts)

    within = [d for d in drifts if moment(d) < part.tau]  # the last token at which the budget is not used up
    cap = (max(within) if within else 0.0) if drifts and moment(math.inf) > part.tau else math.inf
    bounds = Clip(max(part.low, 1 - math.exp(-cap)), max(part.high, math.exp(cap) - 1))
    held = [i for i in harmful(at, advantages) if math.exp(at[i]) < 1 - bounds.low + 1e-9 or math.exp(at[i]) > 1 + bounds.high - 1e-9]
    moved, still = (clip(bounds, where, at, advantages) for where in (now, at))
    return [still[i] if i in held else loss for i, loss in enumerate(moved)]


def implicit_negative(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    def share(log_ratio: float, rate: float) -> float:
        return (1 - rate * math.exp(min(log_ratio, part.limit))) / (1 - rate)

    out = []
    for x, y, a in zip(now, at, advantages, strict=True):
        rate = -a / (1 - a)  # of which -a are the odds
        if a >= 0:
            out.append(-a * min(x, part.limit))
        elif share(y, rate) >= part.floor:
            out.append(-math.log(share(x, rate)))
        else:  # the value of the bound, and the slope of the expression over the bound
            out.append(-math.log(part.floor) - (share(x, rate) - share(y, rate)) / part.floor)
    return out


def balanced_clip(part: Any, now: Numbers, at: Numbers, advantages: Numbers, weights: Numbers | None = None) -> Numbers:
    low, high, turn = part.low, part.high, 0

    def share() -> float:
        up = down = 0.0
        for y, a, w in zip(at, advantages, weights or [1.0] * len(at), strict=True):
            r, size = math.exp(y), abs(a) * w
            clipped = part.counted == "clipped"
            up += (min(r, high) if clipped else r * (r < high)) * size * (a > 0)
            down += (max(r, low) if clipped else r * (low < r < part.ceiling)) * size * (a < 0)
        return up / (up + down) if down > 0 else 1.0

    while share() < part.share and turn < 2:
        if (turn == 0) == (part.first == "high"):
            done, high = high >= part.high_max, min(high + part.high_step, part.high_max)
        else:
            done, low = low >= part.low_max, min(low + part.low_step, part.low_max)
        turn += done
    return dual_clip(DualClip(1 - low, high - 1, part.ceiling), now, at, advantages)


def masked_reinforce(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    out = []
    for x, y, a in zip(now, at, advantages, strict=True):
        r = math.exp(y)
        over, under, inside = r <= 1 + part.high, r >= 1 - part.low, 1 - part.low <= r <= 1 + part.high
        far = (a >= 0 and r <= 1 - part.far_low) or (a <= 0 and r >= 1 + part.far_high)
        good = {"none": True, "one_side": (a >= 0 and over) or (a <= 0 and under), "two_side": inside, "ring": inside or far}[part.mask]
        weight = {"none": 1.0, "ratio": r, "advantage": math.exp(a / part.temperature)}[part.weight]
        out.append(-weight * a * x if good else 0.0)
    return out


def soft_gate(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    out = []
    for x, a in zip(now, advantages, strict=True):
        tau = part.positive if a > 0 else part.negative
        out.append(-4 / tau * sigmoid(tau * (math.exp(x) - 1)) * a)
    return out


def preserving_clip(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    out = []
    for x, y, a in zip(now, at, advantages, strict=True):
        ratio, passed = math.exp(x), math.exp(x) / math.exp(y)  # passed: 1, with the gradient of log pi
        held = min(max(math.exp(y), 1 - part.low), 1 + part.high)
        out.append(-min(ratio * a, held * passed * a) if held != math.exp(y) else -ratio * a)
    return out


def open_top(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    out = []
    for x, y, a in zip(now, at, advantages, strict=True):
        ratio, top = math.exp(x), 1 + part.high
        if a > 0:
            out.append(-top * math.exp(x) / math.exp(y) * a if math.exp(y) > top else -ratio * a)
        else:
            out.append(-min(ratio * a, min(max(ratio, 1 - part.low), top) * a))
    return out


def weighted_likelihood(part: Any, now: Numbers, at: Numbers, advantages: Numbers) -> Numbers:
    return [-a * x for x, a in zip(now, advantages, strict=True)]


def normalised_clip(part: Any, now: Numbers, at: Numbers, advantages: Numbers, answers: Numbers | None = None) -> Numbers:
    """`answers`: the advantage of every answer of the mini-batch."""
    every = answers or advantages
    mean = sum(every) / len(every)
    size = math.sqrt(sum((a - mean) ** 2 for a in every) / len(every))
    return clip(part, now, at, [(a - mean) / size if size else 0.0 for a in advantages])


TRUSTS: Mapping[type, Callable[..., Numbers]] = {
    Unclipped: unclipped,
    Clip: clip,
    DualClip: dual_clip,
    CappedWeight: capped_weight,
    Shaped: shaped,
    SecondMoment: second_moment,
    SecondMomentClip: second_moment_clip,
    ImplicitNegative: implicit_negative,
    BalancedClip: balanced_clip,
    MaskedReinforce: masked_reinforce,
    SoftGate: soft_gate,
    PreservingClip: preserving_clip,
    OpenTop: open_top,
    WeightedLikelihood: weighted_likelihood,
    CountingClip: clip,
    NormalisedClip: normalised_clip,
}


def trusted(part: Any, now: Numbers, at: Numbers, rows: list[Row], places: list[int]) -> Numbers:
    """The losses of a trust region for the rows at these places; the weights of the actions, or the advantages of all answers, go to those that read them."""
    more: tuple[Numbers, ...] = ()
    if type(part) is BalancedClip:
        more = ([rows[i].weighs for i in places],)
    if type(part) is NormalisedClip:
        answers = [[r.advantage for r in rows if r.trajectory == t] for t in dict.fromkeys(r.trajectory for r in rows)]
        more = ([sum(answer) / len(answer) for answer in answers],)
    return TRUSTS[type(part)](part, now, at, [rows[i].advantage for i in places], *more)


# weights: of one action


def truncated(part: Any, row: Row) -> float:
    return min(math.exp(row.old) / math.exp(row.behaviour), part.cap)


def masked(part: Any, row: Row) -> float:
    ratio = math.exp(row.old) / math.exp(row.behaviour)
    floor = 1 / part.cap if part.floor is None else part.floor
    return ratio if floor <= ratio <= part.cap else 0.0


def likelihood(part: Any, row: Row) -> float:
    return math.exp(row.old)


def undecided(part: Any, row: Row) -> float:
    return math.exp(row.old) - math.exp(row.old) ** 2


def certainty(part: Any, row: Row) -> float:
    """The power of what the reference said: 1 + log(max q) / log V, or max q."""
    largest = row.largest[TAUS.index(part.tau)]
    base = {"share": 1 + math.log(largest) / math.log(VOCABULARY), "probability": largest}[part.certainty]
    return math.exp(part.exponent * math.log(base))


def by_difficulty(part: Any, row: Row) -> float:
    """The number of the row's label; 1 if the part has no such label."""
    return dict(part.factors_of).get(row.difficulty, 1.0)


def wrong_only(part: Any, row: Row) -> float:
    return 1.0 if row.reward <= 0 else 0.0


WEIGHTS: Mapping[type, Callable[..., float]] = {
    TruncatedImportance: truncated,
    MaskedImportance: masked,
    Likelihood: likelihood,
    Undecided: undecided,
    CertaintyWeight: certainty,
    ByDifficulty: by_difficulty,
    WrongOnly: wrong_only,
}
