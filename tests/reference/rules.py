"""Every credit rule as plain loops written from its formula, over Python's floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradus.credit.bellman import NStep
from gradus.credit.clipped import Clipped
from gradus.credit.gae import GAE, LengthAdaptiveGAE
from gradus.credit.groups import BatchBaseline, Constant, GroupRelative, LeaveOneOut, LogReward, PoolBaseline, ProbeBaseline
from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.new_tokens import NewTokens
from gradus.credit.prompt_returns import PromptReturns
from gradus.credit.reward_to_go import RewardToGo
from gradus.credit.scaled import Same, Scaled
from gradus.credit.sharpened import Sharpened
from gradus.credit.uncut import Uncut
from gradus.credit.within import Within
from gradus.papers.agents.epo import KeyOutcomes, KeyReturns
from gradus.papers.agents.gem import TurnReturns
from gradus.papers.credit.gigpo import AnchorStates
from gradus.papers.credit.ngrpo import VirtualBest
from gradus.papers.credit.oprl import ImplicitSteps
from gradus.papers.credit.stratified_grpo import Blended
from gradus.papers.credit.tempo import PrefixTree
from gradus.papers.guidance.grao import Aligned
from gradus.papers.guidance.mm_helix_ahpo import Guided
from gradus.papers.guidance.rl_plus import AgainstOwn
from gradus.papers.multi_agent.magrpo import JointReturns
from gradus.papers.objectives.apo import Divergence
from gradus.papers.objectives.nft import SuccessRate
from gradus.papers.rewards.confclip import FlooredRelative
from gradus.papers.rewards.lens import CentredFailures
from gradus.papers.rewards.prime import ImplicitProcess
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.papers.rewards.sirl import PartialKL
from gradus.papers.rewards.stable_reinforce import WithinSigma
from gradus.papers.systems.ulorl import MasteredMask
from tests.parts import Pieces, Surprise
from tests.reference import pieces
from tests.reference.answers import Answer, Sample
from tests.reference.statistics import deviation, mean, onward, rewards_of, spread, standardised, whitened, without_one


def batch_relative(rule: BatchRelative, given: list[list[Sample]]) -> list[list[Answer]]:
    everything = [r for members in given for r in rewards_of(members)]
    left = []
    for members in given:
        rewards = rewards_of(members)
        if rule.baseline == "group":
            left.append([r - mean(rewards) if len(rewards) > 1 else 0.0 for r in rewards])
        elif rule.baseline == "others":
            left.append(without_one(rewards))
        else:
            left.append([r - mean(everything) for r in rewards])
    size = deviation([a for row in left for a in row], rule.scale)
    return spread(given, [[a / size for a in row] for row in left])


def probe_baseline(rule: ProbeBaseline, given: list[list[Sample]]) -> list[list[Answer]]:
    out = []
    for members in given:
        probes = [s.reward for s in members if not s.trained]
        out.append([s.reward - mean(probes) if probes and s.trained else 0.0 for s in members])
    return spread(given, out)


def lambda_errors(s: Sample, gamma: float, lam: float) -> Answer:
    """The weighted mean of all n-step errors: (1 - lam) sum_n lam^(n-1) (n-step return - V), the last one with all that is left of the weight."""
    out, end = [], len(s.at)
    for t in range(end):
        total = 0.0
        for n in range(1, end - t + 1):
            ahead = s.values[t + n] if t + n < end else 0.0
            steps = sum(gamma**k * s.rewards[t + k] for k in range(n)) + gamma**n * ahead
            weight = lam ** (n - 1) * (1 - lam) if t + n < end else lam ** (n - 1)
            total += weight * (steps - s.values[t])
        out.append(total)
    return out


def gae(rule: GAE, given: list[list[Sample]]) -> list[list[Answer]]:
    rows = [[lambda_errors(s, rule.gamma, rule.lam) for s in members] for members in given]
    return whitened(rows) if rule.whitened else rows


def length_adaptive(rule: LengthAdaptiveGAE, given: list[list[Sample]]) -> list[list[Answer]]:
    rows = [[lambda_errors(s, rule.gamma, max(0.0, 1 - 1 / (rule.alpha * len(s.at)))) for s in members] for members in given]
    return whitened(rows) if rule.whitened else rows


def to_go(rule: RewardToGo, given: list[list[Sample]]) -> list[list[Answer]]:
    rows = []
    for members in given:
        rewards = rewards_of(members)
        others = without_one(rewards)
        bases = {
            "none": [0.0] * len(rewards),
            "group": [mean(rewards)] * len(rewards),
            "others": [r - a for r, a in zip(rewards, others, strict=True)],
        }[rule.baseline]
        rows.append([[a - b for a in onward(s.rewards, rule.gamma)] for s, b in zip(members, bases, strict=True)])
    return whitened(rows) if rule.whitened else rows


def bounded(rule: Clipped, given: list[list[Sample]]) -> list[list[Answer]]:
    def held(a: float) -> float:
        return min(max(a, -rule.limit), rule.limit) / rule.limit * rule.scale

    return [[[held(a) for a in row] for row in members] for members in RULES[type(rule.rule)](rule.rule, given)]


def within_sigma(rule: WithinSigma, given: list[list[Sample]]) -> list[list[Answer]]:
    return [[[a if abs(a) <= rule.limit else 0.0 for a in row] for row in members] for members in RULES[type(rule.rule)](rule.rule, given)]


def scaled(rule: Scaled, given: list[list[Sample]]) -> list[list[Answer]]:
    def factors(s: Sample) -> Answer:
        return {Surprise: [-x for x in s.now], Same: [getattr(rule.factor, "by", 1.0)] * len(s.at)}[type(rule.factor)]

    def times(a: float, factor: float) -> float:
        return a if getattr(rule.factor, "only_positive", False) and a < 0 else factor * a

    rows = RULES[type(rule.rule)](rule.rule, given)
    return [
        [[times(a, f) for a, f in zip(row, factors(s), strict=True)] for s, row in zip(members, group, strict=True)]
        for members, group in zip(given, rows, strict=True)
    ]


def n_steps(rule: NStep, given: list[list[Sample]]) -> list[list[Answer]]:
    """The next n rewards, then the value of the action after them, where there is one; minus the value."""
    out = []
    for members in given:
        rows = []
        for s in members:
            row = []
            for t, value in enumerate(s.values):
                ahead = s.rewards[t : t + rule.n]
                total = sum(rule.gamma**k * r for k, r in enumerate(ahead)) - value
                if t + rule.n < len(s.at):
                    total += rule.gamma**rule.n * s.values[t + rule.n]
                row.append(total)
            rows.append(row)
        out.append(rows)
    return out


def penalised(rule: KLPenalty, given: list[list[Sample]]) -> list[list[Answer]]:
    paid = []
    for members in given:
        row = []
        for s in members:
            costs = [rule.coefficient * pieces.kl(a, b, rule.estimator) for a, b in zip(s.now, s.reference, strict=True)]
            row.append(replace(s, reward=s.reward - sum(costs), at=tuple(r - c for r, c in zip(s.at, costs, strict=True))))
        paid.append(row)
    return RULES[type(rule.rule)](rule.rule, paid)


def anchor_states(rule: AnchorStates, given: list[list[Sample]]) -> list[list[Answer]]:
    out = []
    for members in given:
        whole = standardised(rewards_of(members), rule.scale)
        steps = []  # (sample, turn, state, discounted return)
        for i, s in enumerate(members):
            count = s.turns[-1] + 1
            fell = [sum(r for r, t in zip(s.rewards, s.turns, strict=True) if t == turn) for turn in range(count)]
            back = onward(fell, rule.gamma)
            steps += [(i, turn, s.states[s.turns.index(turn)], back[turn]) for turn in range(count)]
        rows = []
        for i, s in enumerate(members):
            row = []
            for turn in s.turns:
                state = next(x[2] for x in steps if x[:2] == (i, turn))
                peers = [x for x in steps if x[2] == state]
                compared = standardised([x[3] for x in peers], rule.scale)
                row.append(whole[i] + rule.omega * next(c for c, x in zip(compared, peers, strict=True) if x[:2] == (i, turn)))
            rows.append(row)
        out.append(rows)
    return out


def turn_returns(rule: TurnReturns, given: list[list[Sample]]) -> list[list[Answer]]:
    each = []  # (sample, its discounted return of every turn)
    for members in given:
        for s in members:
            fell = [sum(r for r, t in zip(s.rewards, s.turns, strict=True) if t == turn) for turn in range(s.turns[-1] + 1)]
            each.append((s, onward(fell, rule.gamma)))
    every = [g for _, back in each for g in back]
    shift, scale = (mean(every), deviation(every, "population") + 1e-9) if rule.normalised else (0.0, 1.0)
    rows = iter([[(back[t] - shift) / scale for t in s.turns] for s, back in each])
    return [[next(rows) for _ in members] for members in given]


def joint_returns(rule: JointReturns, given: list[list[Sample]]) -> list[list[Answer]]:
    out = []
    for members in given:
        each = []
        for s in members:
            fell = [sum(r for r, t in zip(s.rewards, s.turns, strict=True) if t == turn) for turn in range(s.turns[-1] + 1)]
            each.append(onward(fell, rule.gamma))
        out.append([[back[t] - mean([other[t] for other in each if len(other) > t]) for t in s.turns] for s, back in zip(members, each, strict=True)])
    return out


def key_returns(rule: KeyReturns, given: list[list[Sample]]) -> list[list[Answer]]:
    """Without key turns, so the last turn alone earns something: the reward of the whole episode."""
    out = []
    for members in given:
        rows = []
        for s, whole in zip(members, rewards_of(members), strict=True):
            back = onward([0.0] * s.turns[-1] + [whole], rule.gamma)
            largest = max(abs(x) for x in back)
            rows.append([(back[t] / largest if largest else 0.0) / (len(back) * s.turns.count(t)) for t in s.turns])
        out.append(rows)
    return out


def virtual_best(rule: VirtualBest, given: list[list[Sample]]) -> list[list[Answer]]:
    each = []
    for members in given:
        whole = [*rewards_of(members), *[rule.best] * rule.virtual]
        each.append(standardised(whole, rule.scale)[: len(members)] if len(members) > 1 else [0.0])
    return spread(given, each)


def floored(rule: FlooredRelative, given: list[list[Sample]]) -> list[list[Answer]]:
    rows = [rewards_of(members) for members in given]
    scales = ["population" if deviation(row, "population") >= rule.floor else "none" for row in rows]
    return spread(given, [[(r - mean(row)) / deviation(row, s) if len(set(row)) > 1 else 0.0 for r in row] for row, s in zip(rows, scales, strict=True)])


def centred_failures(rule: CentredFailures, given: list[list[Sample]]) -> list[list[Answer]]:
    each = []
    for members in given:
        row = rewards_of(members)
        right = any(s.reward >= 1 for s in members)
        each.append(standardised(row, "population") if right else [rule.weight * (r - mean(row)) for r in row])
    return spread(given, each)


def implicit_process(rule: ImplicitProcess, given: list[list[Sample]]) -> list[list[Answer]]:
    rewards = [[[rule.beta * (a - b) for a, b in zip(s.prm, s.reference, strict=True)] for s in members] for members in given]
    if rule.bound:
        largest = max(abs(x) for members in rewards for row in members for x in onward(row, 1.0))
        rewards = [[[r / largest for r in row] for row in members] for members in rewards]
    rows = []
    for members, process in zip(given, rewards, strict=True):
        outcome = without_one(rewards_of(members))
        made = []
        for i, row in enumerate(process):
            others = [mean(other) for j, other in enumerate(process) if j != i]
            ahead = onward([r - mean(others) for r in row], rule.gamma) if others else [0.0] * len(row)
            made.append([rule.process_coef * a + outcome[i] for a in ahead])
        rows.append(made)
    return whitened(rows) if rule.whitened else rows


def implicit_steps(rule: ImplicitSteps, given: list[list[Sample]]) -> list[list[Answer]]:
    out = []
    for members, whole in zip(given, RULES[type(rule.rule)](rule.rule, given), strict=True):
        sums = {
            (i, turn): rule.beta * sum(a - b for a, b, t in zip(s.prm, s.now, s.turns, strict=True) if t == turn)
            for i, s in enumerate(members)
            for turn in s.turns
        }
        steps = dict(zip(sums, standardised(list(sums.values()), rule.scale), strict=True))
        out.append([[a + rule.alpha * steps[i, t] for a, t in zip(row, s.turns, strict=True)] for i, (s, row) in enumerate(zip(members, whole, strict=True))])
    return out


def batch_baseline(rule: BatchBaseline, given: list[list[Sample]]) -> list[list[Answer]]:
    base = mean([r for members in given for r in rewards_of(members)]) if rule.baseline == "mean" else 0.0
    return spread(given, [[r - base for r in rewards_of(members)] for members in given])


def success_rate(rule: SuccessRate, given: list[list[Sample]]) -> list[list[Answer]]:
    def odds(members: list[Sample]) -> float:
        rate = min(max(mean([float(s.reward >= 1) for s in members]), rule.margin), 1 - rule.margin)
        return rate / (1 - rate)

    return spread(given, [[1.0 if s.reward >= 1 else -odds(m) for s in m] for m in given])


def kept_divergence(rule: Divergence, members: list[Sample], advantage: float) -> float:
    """k of an action with this advantage: 1 - exp(-rate (1 - d)) where some answers of the group are right and others are not."""
    rights = sum(s.reward >= 1 for s in members)
    if advantage <= 0 or rights in (0, len(members)):
        return 1.0
    return 1 - math.exp(-rule.rate * rights / len(members))


def divergence(rule: Divergence, given: list[list[Sample]]) -> list[list[Answer]]:
    rows = RULES[type(rule.rule)](rule.rule, given)
    return [[[a / kept_divergence(rule, m, a) for a in answer] for answer in row] for m, row in zip(given, rows, strict=True)]


def sharpened(rule: Sharpened, given: list[list[Sample]]) -> list[list[Answer]]:
    out = []
    for members, row in zip(given, RULES[type(rule.rule)](rule.rule, given), strict=True):
        likely = [mean(list(s.now)) for s in members]
        made = []
        for s, own, answer in zip(members, likely, row, strict=True):
            eta = math.exp(own) / math.exp(mean(likely))
            good = s.reward >= 1 and answer[0] > 0
            made.append([a + min(max(rule.weight * (1 - eta), 0.0), rule.most * a) if good else a for a in answer])
        out.append(made)
    return out


def prefix_tree(rule: PrefixTree, given: list[list[Sample]]) -> list[list[Answer]]:
    """All tokens are equal, so that a prefix is its length, and the answers part where the shorter ones end."""
    out = []
    for members in given:
        rewards = rewards_of(members)
        size = deviation(rewards, rule.scale) if len(set(rewards)) > 1 else 1.0
        begins = [(count, s.reward) for s in members for count in s.cuts]
        rows = []
        for s, whole in zip(members, standardised(rewards, rule.scale), strict=True):
            values = [[mean([r for n, r in begins if n >= t]) for t in range(count + 1)] for count in s.cuts]
            steps = [(row[t + 1] - row[t]) / size for row in values for t in range(len(row) - 1)]
            rows.append([whole + rule.weight * step * (len(set(rewards)) > 1) for step in steps])
        out.append(rows)
    return out


def within(rule: Within, given: list[list[Sample]]) -> list[list[Answer]]:
    """Each stratum as a group, put back."""
    kinds = [[len(s.cuts) if isinstance(rule.key, Pieces) else 0 for s in members] for members in given]
    places = [[[i for i, k in enumerate(row) if k == kind] for kind in sorted(set(row))] for row in kinds]
    inside = iter(RULES[type(rule.rule)](rule.rule, [[members[i] for i in at] for members, cut in zip(given, places, strict=True) for at in cut]))
    rows = [dict(pair for at in cut for pair in zip(at, next(inside), strict=True)) for cut in places]
    return [[row[i] for i in range(len(row))] for row in rows]


def blended(rule: Blended, given: list[list[Sample]]) -> list[list[Answer]]:
    """The strata, blended with the groups as they are."""
    inside, whole = within(Within(rule.key, rule.rule), given), RULES[type(rule.rule)](rule.rule, given)
    return [
        [[rule.blend * a + (1 - rule.blend) * b for a, b in zip(x, y, strict=True)] for x, y in zip(*rows, strict=True)]
        for rows in zip(inside, whole, strict=True)
    ]


RULES: Mapping[type, Callable[[Any, list[list[Sample]]], list[list[Answer]]]] = {
    GroupRelative: lambda rule, given: spread(given, [standardised(rewards_of(m), rule.scale) for m in given]),
    LeaveOneOut: lambda rule, given: spread(given, [without_one(rewards_of(m)) for m in given]),
    BatchBaseline: batch_baseline,
    BatchRelative: batch_relative,
    ProbeBaseline: probe_baseline,
    LogReward: lambda rule, given: spread(given, [[rule.beta * math.log(max(r, rule.least)) for r in rewards_of(m)] for m in given]),
    Constant: lambda rule, given: spread(given, [[1.0] * len(m) for m in given]),
    GAE: gae,
    LengthAdaptiveGAE: length_adaptive,
    RewardToGo: to_go,
    Clipped: bounded,
    WithinSigma: within_sigma,
    KLPenalty: penalised,
    PartialKL: penalised,  # without marks; with marks: tests/papers/rewards/test_sirl.py
    Scaled: scaled,
    MasteredMask: lambda rule, given: RULES[type(rule.rule)](rule.rule, given),  # its weights: tests/papers/systems/test_ulorl.py
    NewTokens: lambda rule, given: RULES[type(rule.rule)](rule.rule, given),  # its weights: tests/credit/test_new_tokens.py
    Uncut: lambda rule, given: RULES[type(rule.rule)](rule.rule, given),  # its weights: tests/credit/test_uncut.py
    NStep: n_steps,
    AnchorStates: anchor_states,
    TurnReturns: turn_returns,
    JointReturns: joint_returns,
    KeyReturns: key_returns,
    KeyOutcomes: lambda rule, given: [[[0.0] * len(s.turns) for s in members] for members in given],  # without key turns
    PrefixTree: prefix_tree,
    Divergence: divergence,
    Sharpened: sharpened,
    PoolBaseline: lambda rule, given: spread(given, [[s.reward - mean(rewards_of(m)) for s in m] for m in given]),  # and of a pool: below
    Guided: lambda rule, given: spread(given, [standardised(rewards_of(m), rule.scale) for m in given]),  # and with given answers: test_mm_helix_ahpo.py
    Aligned: lambda rule, given: spread(given, [standardised(rewards_of(m), rule.scale) for m in given]),  # and with given answers: test_grao.py
    AgainstOwn: lambda rule, given: spread(given, [standardised(rewards_of(m), rule.scale) for m in given]),  # and with given answers: test_rl_plus.py
    PromptReturns: lambda rule, given: spread(given, [[0.0] * len(m) for m in given]),  # its returns and weights: below
    Within: within,
    Blended: blended,
    VirtualBest: virtual_best,
    FlooredRelative: floored,
    CentredFailures: centred_failures,
    ImplicitProcess: implicit_process,
    ImplicitSteps: implicit_steps,
    SuccessRate: success_rate,  # its weights: tests/papers/objectives/test_nft.py
}
