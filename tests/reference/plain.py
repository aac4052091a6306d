"""Objectives once more, from their formulas, in plain loops over Python's floats. Slow, and nothing of the library's arithmetic is used.

`now` and `at` hold what a term wants by the want's name, a number (or list) a row: `at` for what the formula holds without gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradus.objectives.balance import TrajectoryBalance
from gradus.objectives.chances import ChanceLoss
from gradus.objectives.flow_kl import TransitionKL
from gradus.objectives.flow_matching import MatchedPolicy
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.kl import KL, Distillation, SquaredLogRatio
from gradus.objectives.labelled_scores import LabelledScores
from gradus.objectives.preference import Preference
from gradus.objectives.ranking import BradleyTerry, ImitationOfBest, MaxMargin, Ranking
from gradus.objectives.regression import LogRatioRegression
from gradus.objectives.terms import EntropyBonus, Imitation, PolicyGradient, ValueLoss
from gradus.papers.bases.kto import Prospect
from gradus.papers.data.pcl import RateError
from gradus.papers.generation.awm import VelocityGap
from gradus.papers.multimodal.papo import Perception
from gradus.papers.objectives.copg import PairRegression
from gradus.papers.objectives.deepvideo_r1 import AdvantageRegression
from gradus.papers.objectives.llds import PreserveLikelihood
from gradus.papers.objectives.otr import OneToken
from gradus.papers.rewards.prime import Outcome
from tests.reference.given import Row
from tests.reference.pieces import (
    AVERAGES,
    RATIOS,
    TRUSTS,
    WEIGHTS,
    Numbers,
    actions,
    averaged,
    kl,
    sigmoid,
    trusted,
)
from tests.reference.scores import LIKENESSES, LINKS, SCORES, by_group, scores


def policy(part: PolicyGradient, rows: list[Row], now: Any, at: Any) -> float:
    places = [i for i, r in enumerate(rows) if r.source == part.source]
    ratio = RATIOS[type(part.ratio)]
    moving, still = ([ratio(part.ratio, rows, i, x["LogProb"], at["LogProb"]) for i in places] for x in (now, at))
    losses = trusted(part.trust, moving, still, rows, places)
    weighed = {i: loss * factor(part.weight, rows[i]) for i, loss in zip(places, losses, strict=True)}
    return part.coefficient * averaged(part.average, rows, part.source, weighed)


def factor(weight: Any, row: Row) -> float:
    """What the loss of a row is multiplied by."""
    return row.weighs * (1.0 if weight is None else WEIGHTS[type(weight)](weight, row))


def pulled(rows: list[Row], now: Numbers, at: Numbers) -> Numbers:
    """What a loss over whole answers reads, so that an action of weight w pulls w times as hard: w (now - at) past what is held."""
    return [held + r.weighs * (moving - held) for r, moving, held in zip(rows, now, at, strict=True)]


def kl_term(part: KL, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: kl(now["LogProb"][i], r.reference, part.estimator) * factor(part.weight, r) for i, r in enumerate(rows)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def distillation(part: Distillation, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: now["DivergenceFrom"][i] * factor(part.weight, r) for i, r in enumerate(rows)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def squared_log_ratio(part: SquaredLogRatio, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: part.coefficient / 2 * (now["LogProb"][i] - r.old) ** 2 * r.weighs for i, r in enumerate(rows)}
    return averaged(part.average, rows, part.source, losses)


def preserve_likelihood(part: PreserveLikelihood, rows: list[Row], now: Any, at: Any) -> float:
    mine = [i for i, r in enumerate(rows) if r.source == part.source and r.advantage >= 0]
    total = 0.0
    for i in mine:  # every context is one stretch
        unit = "context" if part.gate == "action" else "trajectory"
        fall = sum((rows[j].old - at["LogProb"][j]) * rows[j].weighs for j in mine if getattr(rows[j], unit) == getattr(rows[i], unit))
        last = rows[i].context == max(r.context for r in rows if r.trajectory == rows[i].trajectory)
        if fall > 0 and at["LogProb"][i] < rows[i].old:
            total += (rows[i].old - now["LogProb"][i]) * rows[i].weighs * (part.last if last else 1.0)
    return part.coefficient * total / max(len(mine), 1)


def entropy_bonus(part: EntropyBonus, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: now["EntropyOf"][i] * factor(part.weight, r) for i, r in enumerate(rows)}
    return -part.coefficient * averaged(part.average, rows, part.source, losses)


def value_loss(part: ValueLoss, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):
        value = now["Value"][i]
        errors = [(value - r.ret) ** 2]
        if part.clip is not None:
            errors.append((r.value + min(max(value - r.value, -part.clip), part.clip) - r.ret) ** 2)
        losses[i] = max(errors) / 2 * r.weighs
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def rate_error(part: RateError, rows: list[Row], now: Any, at: Any) -> float:
    mine = [i for i, r in enumerate(rows) if r.source == part.source]
    total = sum(rows[i].weighs for i in mine)
    return sum((now["Value"][i] - rows[i].ret) ** 2 * rows[i].weighs for i in mine) / total


def chance_loss(part: ChanceLoss, rows: list[Row], now: Any, at: Any) -> float:
    each = [(sigmoid(v), r.ret) for v, r in zip(now["Value"], rows, strict=True)]
    losses = {i: -(y * math.log(p) + (1 - y) * math.log(1 - p)) * rows[i].weighs for i, (p, y) in enumerate(each)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def imitation(part: Imitation, rows: list[Row], now: Any, at: Any) -> float:
    losses = {i: -now["LogProb"][i] * factor(part.weight, r) for i, r in enumerate(rows)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def imitate_right(part: ImitateRight, rows: list[Row], now: Any, at: Any) -> float:
    right = [i for i, r in enumerate(rows) if r.source == part.source and r.reward >= 1]
    return part.coefficient * sum(-now["LogProb"][i] * rows[i].weighs for i in right) / len(right)


def imitation_of_best(part: ImitationOfBest, rows: list[Row], now: Any, at: Any) -> float:
    best = set()
    for members in by_group(rows, part.source):
        top = max(reward for _, reward in members)
        best.add(next(t for t, reward in members if reward == top))
    # a batch that holds nothing else
    kept = [(replace(r, group=r.trajectory), -now["LogProb"][i] * r.weighs) for i, r in enumerate(rows) if r.trajectory in best]
    losses = dict(enumerate(loss for _, loss in kept))
    return part.coefficient * averaged(part.average, [r for r, _ in kept], part.source, losses)


def ranking(part: Ranking, rows: list[Row], now: Any, at: Any) -> float:
    s, groups, total = scores(part.score, rows, part.source, pulled(rows, now["LogProb"], at["LogProb"])), by_group(rows, part.source), 0.0
    for members in groups:
        for a, better in members:
            for b, worse in members:
                if better > worse:
                    total += max(0.0, s[b] - s[a])
    return part.coefficient * total / len(groups)


def max_margin(part: MaxMargin, rows: list[Row], now: Any, at: Any) -> float:
    last = {r.trajectory: value for r, value in zip(rows, pulled(rows, now["Value"], at["Value"]), strict=True)}
    groups, total = by_group(rows, part.source), 0.0
    for members in groups:
        losses = [max(0.0, part.margin - last[a] + last[b]) for a, better in members for b, worse in members if better > worse]
        total += sum(losses) / len(losses) if losses else 0.0
    return part.coefficient * total / len(groups)


def labelled_scores(part: LabelledScores, rows: list[Row], now: Any, at: Any) -> float:
    last = {r.trajectory: (r, value) for r, value in zip(rows, now["Value"], strict=True) if r.source == part.source}
    total = 0.0
    for r, s in last.values():
        p, y = sigmoid(s), r.reward
        forms = {"squared": (s - y) ** 2, "squared_chance": (p - y) ** 2, "cross_entropy": -(y * math.log(p) + (1 - y) * math.log(1 - p))}
        total += forms[part.fit] * r.weighs
    return part.coefficient * total / len(last)


def bradley_terry(part: BradleyTerry, rows: list[Row], now: Any, at: Any) -> float:
    last = {r.trajectory: value for r, value in zip(rows, pulled(rows, now["Value"], at["Value"]), strict=True)}  # the last row of each stays
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
    s, groups, total = scores(part.score, rows, part.source, pulled(rows, now["LogProb"], at["LogProb"])), by_group(rows, part.source), 0.0
    for (a, first), (b, second) in groups:
        better, worse = (a, b) if first > second else (b, a)
        total += LINKS[type(part.link)](part.link, s[better], s[worse], part.beta)
    return part.coefficient * total / len(groups)


def prospect(part: Prospect, rows: list[Row], now: Any, at: Any) -> float:
    s = scores(part.score, rows, part.source, pulled(rows, now["LogProb"], at["LogProb"]))
    mine = actions(rows, part.source)
    z0 = max(0.0, sum(r.mismatched for r in mine) / len(s))
    total = 0.0
    for t, reward in dict.fromkeys((r.trajectory, r.reward) for r in mine):
        good = reward > part.above
        gain = part.beta * (s[t] - z0)
        total += part.desirable * (1 - sigmoid(gain)) if good else part.undesirable * (1 - sigmoid(-gain))
    return part.coefficient * total / len(s)


def outcome(part: Outcome, rows: list[Row], now: Any, at: Any) -> float:
    logprobs = pulled(rows, now["LogProb"], at["LogProb"])
    total, mine = 0.0, list(dict.fromkeys((r.trajectory, r.reward) for r in actions(rows, part.source)))
    for t, reward in mine:
        p = sigmoid(part.beta * sum(logprobs[i] - r.reference for i, r in enumerate(rows) if r.trajectory == t))
        total -= reward * math.log(p) + (1 - reward) * math.log(1 - p)
    return total / len(mine)


def regression_errors(part: LogRatioRegression | PairRegression, rows: list[Row], now: Any, at: Any) -> dict[int, float]:
    """The error of each trajectory."""
    logprobs = pulled(rows, now["LogProb"], at["LogProb"])
    mine: dict[int, list[int]] = {}
    for i, r in enumerate(rows):
        if r.source == part.source:
            mine.setdefault(r.trajectory, []).append(i)
    errors = {}
    for t, places in mine.items():
        target = sum(rows[i].advantage for i in places) / len(places)
        errors[t] = target - part.beta * sum(logprobs[i] - (rows[i].old if part.player is None else rows[i].reference) for i in places)
    return errors


def log_ratio_regression(part: LogRatioRegression, rows: list[Row], now: Any, at: Any) -> float:
    errors = regression_errors(part, rows, now, at)
    return part.coefficient * sum(e * e for e in errors.values()) / len(errors)


def pair_regression(part: PairRegression, rows: list[Row], now: Any, at: Any) -> float:
    errors, total, groups = regression_errors(part, rows, now, at), 0.0, [[t for t, _ in group] for group in by_group(rows, part.source)]
    for members in groups:
        squares = [(errors[a] - errors[b]) ** 2 for a in members for b in members if a < b]
        total += sum(squares) / len(squares) if squares else 0.0
    return part.coefficient * total / len(groups)


def trajectory_balance(part: TrajectoryBalance, rows: list[Row], now: Any, at: Any) -> float:
    logprobs, total, groups = pulled(rows, now["LogProb"], at["LogProb"]), 0.0, by_group(rows, part.source)
    for group in groups:
        scores = []
        for t, _ in group:
            places = [i for i, r in enumerate(rows) if r.trajectory == t]
            scores.append(sum(logprobs[i] for i in places) - sum(rows[i].advantage for i in places) / len(places))
        mean = sum(scores) / len(scores)
        total += sum((s - mean) ** 2 for s in scores) / len(scores)
    return part.coefficient * total / len(groups)


def advantage_regression(part: AdvantageRegression, rows: list[Row], now: Any, at: Any) -> float:
    logprobs, total, answers = pulled(rows, now["LogProb"], at["LogProb"]), 0.0, 0
    for group in by_group(rows, part.source):
        ratios, advantages = [], []
        for t, _ in group:
            places = [i for i, r in enumerate(rows) if r.trajectory == t]
            ratios.append(sum(logprobs[i] - rows[i].old for i in places) / len(places))
            advantages.append(sum(rows[i].advantage for i in places) / len(places))
        mean = sum(ratios) / len(ratios)
        scale = part.eta
        if part.form == "standardised" and len(group) > 1:
            scale = 1 / (math.sqrt(sum((x - mean) ** 2 for x in ratios) / (len(ratios) - 1)) + part.eps)
        total += sum((a - scale * (x - mean)) ** 2 for a, x in zip(advantages, ratios, strict=True))
        answers += len(group)
    return part.coefficient * total / answers


def one_token(part: OneToken, rows: list[Row], now: Any, at: Any) -> float:
    """Of what a row has, the first is the mean over the draws of R log pi: test_last_layer.py."""
    losses = {i: -now["OneTokenScores"][i][0] * r.weighs for i, r in enumerate(rows)}
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def matched_policy(part: MatchedPolicy, rows: list[Row], now: Any, at: Any) -> float:
    places, like = [i for i, r in enumerate(rows) if r.source == part.source], LIKENESSES[type(part.likeness)]
    sums = dict.fromkeys(places, 0.0)
    for d in range(part.draws):

        def column(errors: Any, d: int = d) -> Numbers:
            times = at["MatchingTime"]
            before = [like(part.likeness, rows[i].old_errors[d], times[i][d]) for i in places]
            return [like(part.likeness, errors[i][d], times[i][d]) - b for i, b in zip(places, before, strict=True)]

        moving, still = (column(x["MatchingError"]) for x in (now, at))
        losses = trusted(part.trust, moving, still, rows, places)
        for i, loss in zip(places, losses, strict=True):
            sums[i] += loss / part.draws * rows[i].weighs
    return part.coefficient * averaged(part.average, rows, part.source, sums)


def velocity_gap(part: VelocityGap, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):
        gaps = [
            (ours - theirs) ** 2
            for pair, other in zip(now["MatchingVelocity"][i], r.theirs_matched, strict=True)
            for ours, theirs in zip(pair, other, strict=True)
        ]
        losses[i] = sum(gaps) / len(gaps) * r.weighs
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def transition_kl(part: TransitionKL, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):  # KL of two Gaussians of one spread, a dimension at a time: (m - m_ref)^2 / (2 s^2)
        means = [(r.gain * ours, r.gain * theirs) for ours, theirs in zip(now["Velocity"][i], r.theirs, strict=True)]
        losses[i] = sum((m - other) ** 2 / (2 * r.spread**2) for m, other in means) * r.weighs
    return part.coefficient * averaged(part.average, rows, part.source, losses)


def perception(part: Perception, rows: list[Row], now: Any, at: Any) -> float:
    losses = {}
    for i, r in enumerate(rows):
        seen, masked = now["LogProb"][i], (at if part.constant else now)["Viewed"][i]
        ratio = math.exp(seen) / math.exp(masked)
        term = ratio - 1 - math.log(ratio) if part.form == "paper" else 1 / ratio - 1 + math.log(ratio)
        losses[i] = (-part.gamma * term - part.eta_seen * seen - part.eta_masked * masked) * r.weighs
    return averaged(part.average, rows, part.source, losses)


TERMS: Mapping[type, Callable[..., float]] = {
    PolicyGradient: policy,
    KL: kl_term,
    Distillation: distillation,
    SquaredLogRatio: squared_log_ratio,
    PreserveLikelihood: preserve_likelihood,
    EntropyBonus: entropy_bonus,
    ValueLoss: value_loss,
    RateError: rate_error,
    ChanceLoss: chance_loss,
    Imitation: imitation,
    ImitateRight: imitate_right,
    ImitationOfBest: imitation_of_best,
    Ranking: ranking,
    BradleyTerry: bradley_terry,
    MaxMargin: max_margin,
    LabelledScores: labelled_scores,
    Preference: preference,
    Prospect: prospect,
    Outcome: outcome,
    LogRatioRegression: log_ratio_regression,
    PairRegression: pair_regression,
    TrajectoryBalance: trajectory_balance,
    AdvantageRegression: advantage_regression,
    OneToken: one_token,
    Perception: perception,
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
