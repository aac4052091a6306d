"""Objectives once more, from their formulas, in plain loops over Python's floats. Slow, and nothing of the library's arithmetic is used.

What the formulas hold without gradient is computed from `at`, the rest from `now`: a difference quotient in `now` alone is then the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradus.objectives.averages import ConstantLength, ContextMean, GroupMean, Joint, SequenceMean, SequenceSum, TokenMean
from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.kl import KL
from gradus.objectives.matching import MatchedPolicy, Robust, VelocityGap, Weighted
from gradus.objectives.preference import Logistic, Preference, Squared
from gradus.objectives.ranking import BradleyTerry, ImitationOfBest, Ranking
from gradus.objectives.ratios import Probability, SequenceRatio, SequenceTokenRatio, TokenRatio
from gradus.objectives.scores import LogOdds, LogRatio, MeanLogProb
from gradus.objectives.terms import EntropyBonus, Imitation, Policy, TruncatedImportance, ValueLoss
from gradus.objectives.transitions import TransitionKL
from gradus.objectives.trust import CappedWeight, Clip, DualClip, Shaped, Unclipped
from gradus.papers.bases.kto import Prospect
from gradus.papers.objectives.m2po import SecondMoment, SecondMomentClip
from gradus.papers.rewards.prime import Outcome
from tests.reference.given import Row

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
    return 1 / len(actions(rows, source))


def sequence_mean(part: Any, rows: list[Row], source: str, row: Row) -> float:
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


def joint(part: Any, rows: list[Row], source: str, row: Row) -> float:
    as_one = [replace(r, source=source) for r in rows]
    return coefficient(part.average, as_one, source, replace(row, source=source))


AVERAGES: Mapping[type, Callable[..., float]] = {
    TokenMean: token_mean,
    SequenceMean: sequence_mean,
    SequenceSum: sequence_sum,
    ContextMean: context_mean,
    GroupMean: group_mean,
    ConstantLength: constant_length,
    Joint: joint,
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


RATIOS: Mapping[type, Callable[..., float]] = {
    TokenRatio: token_ratio,
    SequenceRatio: sequence_ratio,
    SequenceTokenRatio: sequence_token_ratio,
    Probability: probability,
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
    squares = [at[i] ** 2 for i in harmful(at, advantages)]

    def moment(cap: float) -> float:
        return sum(min(s, cap * cap) for s in squares) / len(squares)

    least, most = 0.0, 50.0
    if squares and moment(most) > part.tau:
        for _ in range(200):  # the largest cap that keeps the budget, by halving
            middle = (least + most) / 2
            least, most = (middle, most) if moment(middle) <= part.tau else (least, middle)
    else:
        least = math.inf
    bounds = Clip(max(part.low, 1 - math.exp(-least)), max(part.high, math.exp(least) - 1))
    return clip(bounds, now, at, advantages)


TRUSTS: Mapping[type, Callable[..., Numbers]] = {
    Unclipped: unclipped,
    Clip: clip,
    DualClip: dual_clip,
    CappedWeight: capped_weight,
    Shaped: shaped,
    SecondMoment: second_moment,
    SecondMomentClip: second_moment_clip,
}


# weights: of one action


def truncated(part: Any, old: float, behaviour: float) -> float:
    return min(math.exp(old) / math.exp(behaviour), part.cap)


def masked(part: Any, old: float, behaviour: float) -> float:
    ratio = math.exp(old) / math.exp(behaviour)
    return ratio if 1 / part.cap <= ratio <= part.cap else 0.0


WEIGHTS: Mapping[type, Callable[..., float]] = {TruncatedImportance: truncated, MaskedImportance: masked}

# scores: of the trajectory that row indices make up


def log_ratio_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    return sum(now[i] - rows[i].reference for i in mine)


def mean_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    return sum(now[i] for i in mine) / len(mine)


def odds_score(part: Any, rows: list[Row], mine: list[int], now: Numbers) -> float:
    p = math.exp(mean_score(part, rows, mine, now))
    return math.log(p / (1 - p))


SCORES: Mapping[type, Callable[..., float]] = {LogRatio: log_ratio_score, MeanLogProb: mean_score, LogOdds: odds_score}


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

# terms: `now` and `at` hold what the term wants by the want's name, a number (or list) a row


def policy(part: Policy, rows: list[Row], now: Any, at: Any) -> float:
    places = [i for i, r in enumerate(rows) if r.source == part.source]
    ratio, trust = RATIOS[type(part.ratio)], TRUSTS[type(part.trust)]
    moving, still = ([ratio(part.ratio, rows, i, x["LogProb"], at["LogProb"]) for i in places] for x in (now, at))
    losses = trust(part.trust, moving, still, [rows[i].advantage for i in places])
    weighed = {}
    for i, loss in zip(places, losses, strict=True):
        factor = 1.0 if part.weight is None else WEIGHTS[type(part.weight)](part.weight, rows[i].old, rows[i].behaviour)
        weighed[i] = loss * rows[i].weight * factor
    return part.coefficient * averaged(part.average, rows, part.source, weighed)


def kl_term(part: KL, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: kl(now["LogProb"][i], r.reference, part.estimator) for i, r in enumerate(rows)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def entropy_bonus(part: EntropyBonus, rows: list[Row], now: Any, at: Any) -> float:
    return -part.coefficient * averaged(part.average, rows, part.source, dict(enumerate(now["EntropyOf"])))


def value_loss(part: ValueLoss, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):
        value = now["Value"][i]
        errors = [(value - r.ret) ** 2]
        if part.clip is not None:
            errors.append((r.value + min(max(value - r.value, -part.clip), part.clip) - r.ret) ** 2)
        losses[i] = max(errors) / 2
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def imitation(part: Imitation, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: -now["LogProb"][i] * r.weight for i, r in enumerate(rows)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def imitate_right(part: ImitateRight, rows: list[Row], now: Any, at: Any) -> float:
    right = [i for i, r in enumerate(rows) if r.source == part.source and r.reward >= 1]
    return part.coefficient * sum(-now["LogProb"][i] * rows[i].weight for i in right) / len(right)


def imitation_of_best(part: ImitationOfBest, rows: list[Row], now: Any, at: Any) -> float:
    best = set()
    for members in by_group(rows, part.source):
        top = max(reward for _, reward in members)
        best.add(next(t for t, reward in members if reward == top))
    # a batch that holds nothing else
    kept = [(replace(r, group=r.trajectory), -now["LogProb"][i] * r.weight) for i, r in enumerate(rows) if r.trajectory in best]
    losses = dict(enumerate(loss for _, loss in kept))
    return part.coefficient * averaged(part.average, [r for r, _ in kept], part.source, losses)


def ranking(part: Ranking, rows: list[Row], now: Any, at: Any) -> float:
    s, groups, total = scores(part.score, rows, part.source, now["LogProb"]), by_group(rows, part.source), 0.0
    for members in groups:
        for a, better in members:
            for b, worse in members:
                if better > worse:
                    total += max(0.0, s[b] - s[a])
    return part.coefficient * total / len(groups)


def bradley_terry(part: BradleyTerry, rows: list[Row], now: Any, at: Any) -> float:
    last = {r.trajectory: now["Value"][i] for i, r in enumerate(rows)}  # the last row of each stays
    groups, total = by_group(rows, part.source), 0.0
    for members in groups:
        losses = [
            -math.log(sigmoid(last[a] - last[b] - part.margin * (better - worse)))
            for a, better in members
            for b, worse in members
            if better > worse
        ]
        total += sum(losses) / len(losses) if losses else 0.0
    return part.coefficient * total / len(groups)


def preference(part: Preference, rows: list[Row], now: Any, at: Any) -> float:
    s, groups, total = scores(part.score, rows, part.source, now["LogProb"]), by_group(rows, part.source), 0.0
    for (a, first), (b, second) in groups:
        better, worse = (a, b) if first > second else (b, a)
        total += LINKS[type(part.link)](part.link, s[better], s[worse], part.beta)
    return part.coefficient * total / len(groups)


def prospect(part: Prospect, rows: list[Row], now: Any, at: Any) -> float:
    s = scores(part.score, rows, part.source, now["LogProb"])
    mine = actions(rows, part.source)
    z0 = max(0.0, sum(r.mismatched for r in mine) / len(s))
    total = 0.0
    for t, reward in dict.fromkeys((r.trajectory, r.reward) for r in mine):
        good = reward > part.above
        gain = part.beta * (s[t] - z0)
        total += part.desirable * (1 - sigmoid(gain)) if good else part.undesirable * (1 - sigmoid(-gain))
    return part.coefficient * total / len(s)


def outcome(part: Outcome, rows: list[Row], now: Any, at: Any) -> float:
    total, mine = 0.0, list(dict.fromkeys((r.trajectory, r.reward) for r in actions(rows, part.source)))
    for t, reward in mine:
        p = sigmoid(part.beta * sum(now["LogProb"][i] - r.reference for i, r in enumerate(rows) if r.trajectory == t))
        total -= reward * math.log(p) + (1 - reward) * math.log(1 - p)
    return total / len(mine)


def matched_policy(part: MatchedPolicy, rows: list[Row], now: Any, at: Any) -> float:
    places, like = [i for i, r in enumerate(rows) if r.source == part.source], LIKENESSES[type(part.likeness)]
    sums = dict.fromkeys(places, 0.0)
    for d in range(part.draws):

        def column(errors: Any, d: int = d) -> Numbers:
            times = at["MatchingTime"]
            before = [like(part.likeness, rows[i].old_errors[d], times[i][d]) for i in places]
            return [like(part.likeness, errors[i][d], times[i][d]) - b for i, b in zip(places, before, strict=True)]

        moving, still = (column(x["MatchingError"]) for x in (now, at))
        losses = TRUSTS[type(part.trust)](part.trust, moving, still, [rows[i].advantage for i in places])
        for i, loss in zip(places, losses, strict=True):
            sums[i] += loss / part.draws * rows[i].weight
    return part.coefficient * averaged(part.average, rows, part.source, sums)


def velocity_gap(part: VelocityGap, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):
        gaps = [
            (ours - theirs) ** 2
            for pair, other in zip(now["MatchingVelocity"][i], r.theirs_matched, strict=True)
            for ours, theirs in zip(pair, other, strict=True)
        ]
        losses[i] = sum(gaps) / len(gaps)
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def transition_kl(part: TransitionKL, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):  # KL of two Gaussians of one spread, a dimension at a time: (m - m_ref)^2 / (2 s^2)
        means = [(r.gain * ours, r.gain * theirs) for ours, theirs in zip(now["Velocity"][i], r.theirs, strict=True)]
        losses[i] = sum((m - other) ** 2 / (2 * r.spread**2) for m, other in means)
    return part.coefficient * averaged(part.average, rows, part.source, losses)


TERMS: Mapping[type, Callable[..., float]] = {
    Policy: policy,
    KL: kl_term,
    EntropyBonus: entropy_bonus,
    ValueLoss: value_loss,
    Imitation: imitation,
    ImitateRight: imitate_right,
    ImitationOfBest: imitation_of_best,
    Ranking: ranking,
    BradleyTerry: bradley_terry,
    Preference: preference,
    Prospect: prospect,
    Outcome: outcome,
    MatchedPolicy: matched_policy,
    VelocityGap: velocity_gap,
    TransitionKL: transition_kl,
}
KINDS: Mapping[str, Mapping[type, Callable[..., Any]]] = {
    "term": TERMS,
    "trust": TRUSTS,
    "link": LINKS,
    "ratio": RATIOS,
    "average": AVERAGES,
    "weight": WEIGHTS,
    "score": SCORES,
    "likeness": LIKENESSES,
}
