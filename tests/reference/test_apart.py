"""Terms and credit rules that read masks, several heads, turns or shared actions, against plain loops over Python's floats."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.chances import RewardLikelihood
from gradus.objectives.denoised import DenoisedPolicy
from gradus.objectives.ratios import SequenceRatio, SequenceTokenRatio, TokenRatio
from gradus.objectives.temporal import Targets
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import Clip, Shaped
from gradus.papers.agents.arpo import SharedPrefix
from gradus.papers.credit.archer import FRESH, UtteranceAdvantage, UtteranceTargets
from gradus.papers.generation.coupled_grpo import DenoisedKL
from gradus.papers.objectives.a_star_po import OptimalAdvantage
from gradus.papers.objectives.risk_po import BundledRisk
from gradus.papers.objectives.rover import RandomValuation
from gradus.papers.objectives.shiq import PathConsistency
from gradus.rollouts.branches import STREAM
from gradus.schedules.harvests import OPTIMAL_VALUE
from gradus.types import Frozen, Group, Trajectory
from gradus.types.masks import Coupled, Denoised, Quadrature
from gradus.types.readers import LogSumExp, MeanOverVocabulary
from gradus.types.signals import LogProb
from tests.parts import APART, name_of
from tests.reference import pieces, plain
from tests.reference.given import MIXED, PROBLEM, Row, batch_of, rows_of, tensor, weighed
from tests.reference.test_chunks import RATIOS_OF_CHUNKS, RULES_OF_CHUNKS
from tests.reference.test_entropies import PARTS_OF_ENTROPIES
from tests.reference.test_guided import PARTS_OF_GUIDANCE
from tests.reference.test_last_layer import RULES_OF_LAYERS
from tests.reference.test_lengths import PARTS_OF_LENGTHS
from tests.reference.test_steps import RATIOS_OF_SPANS, RULES_OF_STEPS, WITH_INPUTS_OF_THEIR_OWN
from tests.reference.test_turns import PARTS_OF_TURNS

STEP = 1e-5  # of the difference quotients
SILENT = 5  # the trajectory of MIXED without weight
Table = list[list[float]]  # numbers a row: passes of masks, or heads

POLICIES = [
    DenoisedPolicy(Coupled(0.2, 0.8), TokenRatio(), Clip(0.5, 0.5)),
    DenoisedPolicy(Quadrature(3), SequenceRatio(), Clip(0.1, 0.1), TokenMean(), coefficient=0.5),
    DenoisedPolicy(Coupled(), SequenceTokenRatio(), Shaped(0.3)),
]
DIVERGENCES = [
    DenoisedKL(Coupled(), 0.3, estimator, ratio=ratio, moves=2) for estimator in ("k1", "k2", "k3") for ratio in (TokenRatio(), SequenceRatio())
]
FITTED = [Targets(), Targets(tau=0.8, coefficient=0.5), Targets(("q", "v"), ("q",), tau=0.3)]
LIKELY = [RewardLikelihood(), RewardLikelihood(average=SequenceMean(), coefficient=2.0)]
BUNDLED = [
    BundledRisk(bundle=2),
    BundledRisk(bundle=2, scale="population", share="distance", lowered=False),
    BundledRisk(bundle=2, scale="none", share="deviation"),
]
VALUED = [RandomValuation(), RandomValuation(rho=0.5, average=TokenMean(), coefficient=2.0)]
CONSISTENT = [PathConsistency(0.5), PathConsistency(0.3, TokenMean(), coefficient=2.0)]
RULES = [*BUNDLED, OptimalAdvantage(), UtteranceTargets(), UtteranceTargets(gamma=0.5), UtteranceAdvantage(), SharedPrefix(GroupRelative(scale="none"))]


def test_every_part_that_stands_apart_is_tried() -> None:
    lists = (POLICIES, DIVERGENCES, FITTED, LIKELY, VALUED, CONSISTENT, RULES, RULES_OF_STEPS, RATIOS_OF_SPANS, WITH_INPUTS_OF_THEIR_OWN, RULES_OF_LAYERS)
    more = (RULES_OF_CHUNKS, RATIOS_OF_CHUNKS, PARTS_OF_LENGTHS, PARTS_OF_GUIDANCE, PARTS_OF_ENTROPIES, PARTS_OF_TURNS)
    tried = {type(part).__name__ for parts in (*lists, *more) for part in parts}
    assert tried == set().union(*APART.values())


def table(rows: list[Row], columns: int, seed: int, low: float, high: float) -> Table:
    draw = random.Random(seed)
    return [[draw.uniform(low, high) for _ in range(columns)] for _ in rows]


Slow = Callable[[Mapping[Any, Any], Mapping[Any, Any]], float]


def compare(term: Any, batch: Any, outputs: Mapping[Any, Table], slow: Slow, still: tuple[Any, ...] = ()) -> None:
    """The loss, and its gradient by difference quotients along four random directions. `slow`: (numbers that move, numbers held) -> loss.

    `still`: wants without a gradient.
    """
    given = {want: torch.tensor(numbers, dtype=torch.float64).requires_grad_() for want, numbers in outputs.items()}
    loss, _ = evaluate({"it": term}, given, batch)
    assert loss.item() == pytest.approx(slow(outputs, outputs), rel=1e-10, abs=1e-12)
    loss.backward()
    generator = torch.Generator().manual_seed(1)
    assert all(given[want].grad is None for want in still)
    for want, values in ((w, v) for w, v in given.items() if w not in still):
        assert values.grad is not None
        assert values.grad.abs().sum() > 0
        for _ in range(4):
            axis = torch.randn(values.shape, generator=generator, dtype=torch.float64)
            ahead, behind = ((values.detach() + sign * STEP * axis).tolist() for sign in (1, -1))
            quotient = (slow({**outputs, want: ahead}, outputs) - slow({**outputs, want: behind}, outputs)) / (2 * STEP)
            assert (axis * values.grad).sum().item() == pytest.approx(quotient, rel=0, abs=3e-8)


def summed(numbers: Table) -> list[float]:
    """A token's log-probability: the sum over the passes, each already with its factor and 0 where the token is shown."""
    return [math.fsum(row) for row in numbers]


@pytest.mark.parametrize("term", POLICIES, ids=name_of)
def test_a_policy_gradient_over_masks(term: DenoisedPolicy) -> None:
    rows, want = weighed(rows_of(MIXED, 1), SILENT), Denoised(term.masks)
    now, old = table(rows, 3, 1, -0.8, -0.1), table(rows, 3, 2, -0.8, -0.1)
    batch = replace(batch_of(rows), old={want: torch.tensor(old, dtype=torch.float64)})
    rows = [replace(r, old=before) for r, before in zip(rows, summed(old), strict=True)]
    plainly = PolicyGradient(term.ratio, term.trust, None, term.average, term.coefficient, term.source)

    def slow(moving: Mapping[Any, Table], held: Mapping[Any, Table]) -> float:
        return plain.policy(plainly, rows, {"LogProb": summed(moving[want])}, {"LogProb": summed(held[want])})

    compare(term, batch, {want: now}, slow)


@pytest.mark.parametrize("move", [0, 1])
@pytest.mark.parametrize("term", DIVERGENCES, ids=name_of)
def test_a_divergence_over_masks(term: DenoisedKL, move: int) -> None:
    rows, want = weighed(rows_of(MIXED, 1), SILENT), Denoised(term.masks)
    now, theirs = table(rows, 3, 3, -0.8, -0.1), [table(rows, 3, 4 + n, -0.8, -0.1) for n in range(2)]
    signals = {need: torch.tensor(one, dtype=torch.float64) for need, one in zip(term.needs, theirs, strict=True)}
    batch = replace(batch_of(rows), signals=signals, move=move)
    mine = [replace(r, old=reference) for r, reference in zip(rows, summed(theirs[move]), strict=True)]
    ratio = pieces.RATIOS[type(term.ratio)]

    def slow(moving: Mapping[Any, Table], held: Mapping[Any, Table]) -> float:
        numbers = summed(moving[want])
        losses = {i: pieces.kl(ratio(term.ratio, mine, i, numbers, numbers), 0.0, term.estimator) * r.weighs for i, r in enumerate(mine)}
        return term.coefficient * pieces.averaged(term.average, mine, term.source, losses)

    compare(term, batch, {want: now}, slow)


@pytest.mark.parametrize("term", FITTED, ids=name_of)
def test_heads_are_fitted_to_their_targets(term: Targets) -> None:
    rows = weighed(rows_of(MIXED, 2))
    draw = random.Random(5)
    targets = [[draw.uniform(-1, 1) if draw.random() < 0.6 else math.nan for _ in term.heads] for _ in rows]
    outputs = {want: [row[0] for row in table(rows, 1, 6 + n, -1, 1)] for n, want in enumerate(term.wants)}
    batch = replace(batch_of(rows), returns=torch.tensor(targets, dtype=torch.float64))

    def slow(moving: Mapping[Any, list[float]], held: Mapping[Any, list[float]]) -> float:
        total = 0.0
        for column, want in enumerate(term.wants):
            aims = [(i, row[column]) for i, row in enumerate(targets) if rows[i].source == term.source and not math.isnan(row[column])]
            for i, aim in aims:
                gap = aim - moving[want][i]
                total += 2 * (term.tau if gap >= 0 else 1 - term.tau) * gap**2 * rows[i].weighs / len(aims)
        return term.coefficient * total

    compare(term, batch, outputs, slow)  # type: ignore[arg-type]
    assert all(any(math.isnan(row[column]) for row in targets) for column in range(len(term.heads)))


@pytest.mark.parametrize("term", LIKELY, ids=name_of)
def test_the_likelihood_of_a_reward(term: RewardLikelihood) -> None:
    rows = [replace(r, reward=float(r.trajectory % 2)) for r in weighed(rows_of(MIXED, 3), SILENT)]
    (want,) = term.wants

    def slow(moving: Mapping[Any, list[float]], held: Mapping[Any, list[float]]) -> float:
        chance = [pieces.sigmoid(x) for x in moving[want]]
        losses = {i: -math.log(p if r.reward else 1 - p) * r.weighs for i, (r, p) in enumerate(zip(rows, chance, strict=True))}
        return term.coefficient * pieces.averaged(term.average, rows, term.source, losses)

    compare(term, batch_of(rows), {want: [row[0] for row in table(rows, 1, 9, -2, 2)]}, slow)  # type: ignore[arg-type]


@pytest.mark.parametrize("term", VALUED, ids=name_of)
def test_values_of_the_uniform_policy(term: RandomValuation) -> None:
    rows = weighed(rows_of(MIXED, 4), SILENT)
    mean, log = MeanOverVocabulary(), LogProb()
    outputs = {want: [row[0] for row in table(rows, 1, seed, -2, -0.5)] for want, seed in ((log, 11), (mean, 12))}
    old = {want: [row[0] for row in table(rows, 1, seed, -2, -0.5)] for want, seed in ((log, 13), (mean, 14))}
    batch = replace(batch_of(rows), old={want: torch.tensor(found, dtype=torch.float64) for want, found in old.items()})

    def slow(moving: Mapping[Any, list[float]], held: Mapping[Any, list[float]]) -> float:
        losses = {}
        for i, r in enumerate(rows):
            follows = i + 1 < len(rows) and rows[i + 1].context == r.context
            after = held[mean][i + 1] - old[mean][i + 1] if follows else 0.0
            value = moving[log][i] - old[log][i]
            losses[i] = (term.rho * value - r.advantage - term.rho * after) ** 2 * r.weighs
        return term.coefficient * pieces.averaged(term.average, rows, term.source, losses)

    compare(term, batch, outputs, slow, still=(mean,))  # type: ignore[arg-type]


@pytest.mark.parametrize("term", CONSISTENT, ids=name_of)
def test_errors_over_the_rest_of_a_path(term: PathConsistency) -> None:
    rows = weighed(rows_of(MIXED, 5), SILENT)
    log, total = term.wants
    outputs = {want: [row[0] for row in table(rows, 1, seed, -2, -0.5)] for want, seed in ((log, 15), (total, 16))}
    theirs = {want: [row[0] for row in table(rows, 1, seed, -2, -0.5)] for want, seed in ((log, 17), (total, 18))}
    signals = {need: torch.tensor(theirs[want], dtype=torch.float64) for need, want in zip(term.needs, term.wants, strict=True)}
    assert total == LogSumExp()

    def slow(moving: Mapping[Any, list[float]], held: Mapping[Any, list[float]]) -> float:
        ratio, shift = ([a - b for a, b in zip(plain.pulled(rows, moving[w], held[w]), theirs[w], strict=True)] for w in (log, total))
        losses = {}
        for i, r in enumerate(rows):
            rest = math.fsum(ratio[j] for j, other in enumerate(rows) if j >= i and other.trajectory == r.trajectory)
            losses[i] = (r.advantage - term.beta * rest - term.beta * shift[i]) ** 2
        return term.coefficient * pieces.averaged(term.average, rows, term.source, losses)

    compare(term, replace(batch_of(rows), signals=signals), outputs, slow)  # type: ignore[arg-type]


# credit


def episode(name: str, draw: random.Random, turns: list[int], **more: Any) -> tuple[Trajectory, list[float]]:
    """An episode of turns of these lengths, and the rewards that fell in each; the last turn also has the rest of the whole reward."""
    base = rows_of([[("policy", 0.0, 1.0, (sum(turns),))]], draw.randrange(10**6))
    (made,) = batch_of(base).trajectories
    fell = [draw.choice([0.0, 0.5, -0.25]) for _ in turns]
    ends = np.cumsum(turns) - 1
    streams = Frozen(turn=np.repeat(np.arange(len(turns)), turns), state=np.repeat(np.arange(len(turns)), turns))
    placed = tuple((int(end), "environment", r) for end, r in zip(ends, fell, strict=True) if r)
    rest = draw.choice([0.0, 1.0])
    context = replace(made.contexts[0], streams=streams, rewards=placed)
    t = made.but(id=name, contexts=(context,), reward=math.fsum(fell) + rest, advantages=None, returns=None, weights=None, **more)
    return t, [*fell[:-1], fell[-1] + rest]


@pytest.mark.parametrize("rule", [r for r in RULES if isinstance(r, UtteranceTargets | UtteranceAdvantage)], ids=name_of)
def test_credit_of_utterances(rule: Any) -> None:
    draw = random.Random(7)
    shapes = {f"e{n}": [draw.randint(1, 3) for _ in range(draw.randint(1, 4))] for n in range(6)}
    made = {name: episode(name, draw, turns, source="replay", weight=float(n > 0)) for n, (name, turns) in enumerate(shapes.items())}
    fresh = {f"f{n}": rows_of([[("policy", 0.0, 1.0, (n + 1,))]], n) for n in range(3)}
    said = {name: batch_of(rows).trajectories[0].but(id=name, links=Frozen({FRESH: 0})) for name, rows in fresh.items()}
    trajectories = [*(t for t, _ in made.values()), *said.values()]
    heads = [{t.id: [float(np.float32(draw.uniform(-1, 1))) for _ in range(t.actions)] for t in trajectories} for _ in range(4)]
    signals = {need: {name: np.array(row, np.float32) for name, row in head.items()} for need, head in zip(rule.needs, heads, strict=True)}
    found = rule.assign([Group("g", tuple(trajectories))], signals)[0]
    q1, q2, v1, v2 = heads
    for t, given in zip(trajectories, found, strict=True):
        advantages = [0.0] * t.actions
        aims = [[math.nan] * 4 for _ in range(t.actions)]
        if t.id in said:
            advantages = [min(q1[t.id][-1], q2[t.id][-1]) - min(v1[t.id][0], v2[t.id][0])] * t.actions
            aims[0][2:] = [q1[t.id][-1], q2[t.id][-1]]
        elif t.weight > 0:
            turns, rewards = shapes[t.id], made[t.id][1]
            for n, reward in enumerate(rewards):
                for column, values in ((0, v1), (1, v2)):
                    later = values[t.id][sum(turns[: n + 1])] if n + 1 < len(turns) else 0.0
                    aims[sum(turns[: n + 1]) - 1][column] = reward + getattr(rule, "gamma", 0.0) * later
        if isinstance(rule, UtteranceAdvantage):
            assert given.returns is None
            assert_close(tensor(given.advantages), tensor(advantages), rtol=1e-12, atol=1e-14)
        else:
            assert not given.advantages.any()
            assert_close(torch.tensor(given.returns), torch.tensor(aims, dtype=torch.float64), rtol=1e-12, atol=1e-14, equal_nan=True)


def test_credit_of_shared_actions() -> None:
    """A tree of five: the first is whole, the others leave it, or one another, at some action."""
    rule, draw = RULES[-1], random.Random(8)
    drawers = [[0] * 5, [0, 0, 1, 1], [0, 0, 1, 2, 2, 2], [0, 3], [4] * 3]
    rewards = [draw.uniform(0, 1) for _ in drawers]
    made = []
    for n, (drawer, reward) in enumerate(zip(drawers, rewards, strict=True)):
        (t,) = batch_of(rows_of([[("policy", reward, 1.0, (len(drawer),))]], n)).trajectories
        context = replace(t.contexts[0], streams=Frozen({STREAM: np.array(drawer, np.int32)}))
        made.append(t.but(id=f"t{n}", contexts=(context,), reward=reward, problem=PROBLEM))
    (found,) = rule.assign([Group("g", tuple(made))], {})
    mean = math.fsum(rewards) / len(rewards)
    for drawer, given in zip(drawers, found, strict=True):
        due = []
        for place, by in enumerate(drawer):
            holders = [rewards[m] - mean for m, other in enumerate(drawers) if place < len(other) and other[place] == by]
            due.append(math.fsum(holders) / len(holders))
        assert_close(tensor(given.advantages), tensor(due), rtol=1e-12, atol=1e-14)
    assert len({round(float(a), 9) for a in found[0].advantages}) > 2  # shared by three, by two, by one


def test_credit_of_an_optimal_value() -> None:
    draw = random.Random(9)
    values, rewards = [draw.uniform(0, 1) for _ in range(3)], [[draw.uniform(0, 1) for _ in range(2)] for _ in range(3)]
    groups = []
    for n, (value, row) in enumerate(zip(values, rewards, strict=True)):
        made = batch_of(rows_of([[("policy", reward, 1.0, (n + 1,)) for reward in row]], n)).trajectories
        problem = replace(PROBLEM, meta=Frozen({OPTIMAL_VALUE: value}))
        groups.append(Group(f"g{n}", tuple(t.but(problem=problem, reward=r) for t, r in zip(made, row, strict=True))))
    for n, found in enumerate(OptimalAdvantage().assign(groups, {})):
        for reward, given in zip(rewards[n], found, strict=True):
            assert given.advantages.tolist() == [reward - values[n]] * (n + 1)


@pytest.mark.parametrize("rule", BUNDLED, ids=name_of)
def test_credit_of_bundles(rule: BundledRisk) -> None:
    """Three questions in bundles of two, under known quantiles; the loop goes over papers."""
    draw = random.Random(5)
    rewards = [[float(draw.randint(0, 1)) for _ in range(4)] for _ in range(3)]
    groups = [Group(f"g{q}", tuple(Trajectory(f"{q}/{g}", PROBLEM, (), reward=r) for g, r in enumerate(row))) for q, row in enumerate(rewards)]
    filled = [g.but(trajectories=tuple(t.but(contexts=batch_of(rows_of(MIXED)).trajectories[0].contexts) for t in g.trajectories)) for g in groups]
    low, high = 0.6, 1.5
    found, _ = rule.assign(filled, {}, {"quantiles": [low, high]})

    def size(values: list[float], scale: str) -> float:
        mean = sum(values) / len(values)
        count = {"sample": len(values) - 1, "population": len(values), "none": 0}[scale]
        return (math.sqrt(sum((v - mean) ** 2 for v in values) / count) if count else 1.0) or 1.0

    for bundle in ([0, 1], [2]):
        scores = [sum(rewards[q][g] for q in bundle) * 2 / len(bundle) for g in range(4)]
        for g, s in enumerate(scores):
            within = min(max(s, low), high) - (high if rule.lowered else low)
            a = (1.5 * min(s - low, 0) / 0.2 + within / 0.6) / 2.5 / size(scores, rule.scale)
            gains = {q: rewards[q][g] - sum(rewards[q]) / 4 for q in bundle}
            for q in bundle:
                due = a
                if rule.share == "distance":
                    due = a * gains[q] / sum(gains.values()) if abs(sum(gains.values())) > 1e-6 else a / len(bundle)
                elif rule.share == "deviation":
                    due = a / size(rewards[q], "sample")
                np.testing.assert_allclose(found[q][g].advantages, due, rtol=1e-12, atol=1e-14)
    assert len({float(c.advantages[0]) for row in found for c in row}) > 2
