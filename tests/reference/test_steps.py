"""Credit rules and a ratio that read spans, values of steps, siblings or trees, against plain loops over Python's floats."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.credit.step_values import CriticAdvantage, StepChances, TreeChanges, ValueChanges
from gradus.objectives.ratios import SpanRatio
from gradus.objectives.scores import TurnMeans
from gradus.papers.agents.ledex import SegmentGAE
from gradus.papers.credit.aapo import AdvantageMomentum
from gradus.papers.credit.attnrl import NodeAdvantage
from gradus.papers.credit.barl import BayesAdaptive
from gradus.papers.credit.hicra import Planning
from gradus.papers.credit.rank_grpo import RankRelative
from gradus.papers.credit.spo_segment import SegmentChanges
from gradus.testing.methods import toy_trajectory
from gradus.types import Ended, Frozen, Group, Trajectory
from tests.parts import name_of
from tests.reference.given import MIXED, batch_of, rows_of

Given = list[list[dict[str, Any]]]  # of every group its answers: numbers of each action, and of the answer

STEPS = [*(ValueChanges(gamma, whitened) for gamma in (1.0, 0.7) for whitened in (True, False)), *(SegmentChanges(0.6, w) for w in (True, False))]
RULES_OF_STEPS = [
    *STEPS,
    Planning(),
    Planning(LeaveOneOut(), 0.7),
    AdvantageMomentum(),
    AdvantageMomentum(0.5, 0.1, 0.2),
    *(BayesAdaptive(beta, whitened) for beta in (0.0, 2.0) for whitened in (True, False)),
    *(TreeChanges(0.6, scale) for scale in ("none", "siblings")),
    RankRelative(),
    RankRelative(0.0, 0.3, -0.2, -0.5),
]
RATIOS_OF_SPANS = [SpanRatio(), SpanRatio("behaviour")]
CHANCES, NODES, CRITIC, TURNS = StepChances(), NodeAdvantage(), CriticAdvantage(), TurnMeans()
SEGMENTS = [SegmentGAE(gamma, 0.7, whitened) for gamma in (1.0, 0.9) for whitened in (True, False)]
WITH_INPUTS_OF_THEIR_OWN = [CHANCES, NODES, CRITIC, TURNS, *SEGMENTS]
"""Parts that do not read the answers of `drawn`. Each has a test with a plain loop below."""


def drawn(seed: int) -> Given:
    """Answers of one to three steps, which may begin with an action without a step."""
    draw = random.Random(seed)
    out: Given = []
    for _ in range(3):
        row = []
        for _ in range(4):
            sizes = [draw.randint(1, 3) for _ in range(draw.randint(1, 3))]
            spans = [-1] * draw.randint(0, 1) + [k for k, n in enumerate(sizes) for _ in range(n)]
            states = [[draw.uniform(0.1, 1) for _ in range(3)] for _ in range(len(sizes) + 1)]
            tree = {"value": draw.uniform(0, 1), "base": draw.uniform(0, 1), "unit": draw.choice([0.0, 0.4])}
            row.append(
                {
                    "spans": spans,
                    "values": [draw.uniform(0, 1) for _ in sizes],
                    "states": states,
                    "reward": draw.choice([0.0, 0.5, 1.0]),
                    "ranks": [draw.choice([0.0, 1.0]), draw.choice([0.0, 0.5, 2.0])],
                    "sibling": draw.choice([0.0, 1.0, None]),
                    "logprobs": [float(np.float32(draw.uniform(-1.5, 0))) for _ in spans],
                    **tree,
                }
            )
        out.append(row)
    return out


def records(given: Given) -> list[Group]:
    """The same as the library's records."""
    groups = []
    for g, row in enumerate(given):
        made: list[Trajectory] = []
        for i, one in enumerate(row):
            count = len(one["spans"])
            (t,) = batch_of(rows_of([[("policy", one["reward"], 1.0, (count,))]], 7 * g + i)).trajectories
            chances = [[one["states"][k], one["states"][k + 1]] if k >= 0 else [[math.nan] * 3] * 2 for k in one["spans"]]
            values = [one["values"][k] if k >= 0 else math.nan for k in one["spans"]]
            streams = Frozen(span=np.array(one["spans"], np.int32), value=np.array(values), chance=np.array(chances))
            context = replace(t.contexts[0], streams=streams, logprobs=np.array(one["logprobs"], np.float32))
            links = Frozen(sibling=one["sibling"], value=one["value"], base=one["base"], unit=one["unit"])
            ranks = Frozen({f"rank_{k}": r for k, r in enumerate(one["ranks"], 1)})
            made.append(t.but(id=f"{g}/{i}", components=ranks, ended=Ended.STOP, contexts=(context,), links=links, advantages=None, weights=None))
        groups.append(Group(str(g), tuple(made)))
    return groups


def white(rows: list[list[float]], marks: list[list[bool]]) -> list[list[float]]:
    counted = [a for row, mark in zip(rows, marks, strict=True) for a, m in zip(row, mark, strict=True) if m]
    mean = math.fsum(counted) / len(counted)
    unit = math.sqrt(math.fsum((a - mean) ** 2 for a in counted) / len(counted))
    return [[(a - mean) / unit if m else 0.0 for a, m in zip(row, mark, strict=True)] for row, mark in zip(rows, marks, strict=True)]


def right(one: dict[str, Any], t: Trajectory) -> bool:
    assert t.right == (one["reward"] >= 1)
    return bool(one["reward"] >= 1)


def changes(one: dict[str, Any], gamma: float) -> list[float]:
    after = [*(gamma * v for v in one["values"][1:]), one["reward"]]
    return [after[k] - one["values"][k] if k >= 0 else 0.0 for k in one["spans"]]


def believed(one: dict[str, Any], beta: float, truth: bool) -> list[float]:
    states, total = one["states"], sum(one["states"][0])
    weights, out = [q / total for q in states[0]], []
    for before, after in pairwise(states):
        belief = [w / sum(weights) for w in weights]
        out.append(sum(b * (y - x) for b, x, y in zip(belief, before, after, strict=True)))
        weights = [w * math.exp(-beta * abs((after[0] - before[0]) - (y - x))) for w, x, y in zip(weights, before, after, strict=True)]
    out[-1] += truth - sum(b * q for b, q in zip(belief, states[-1], strict=True))
    return [out[k] if k >= 0 else 0.0 for k in one["spans"]]


def by_rank(rule: RankRelative, row: list[dict[str, Any]]) -> list[list[float]]:
    """Two ranks: a step after the second is further text, an action without a step has 0, and the last action is the end token."""
    out = []
    for one in row:
        own = []
        for k in one["spans"]:
            if k in (0, 1):
                rewards = [other["ranks"][k] for other in row]
                mean = sum(rewards) / len(rewards)
                unit = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1)) + rule.epsilon
                own.append((one["ranks"][k] - mean) / unit if len(set(rewards)) > 1 else 0.0)
            else:
                own.append(0.0 if k < 0 else rule.further)
        own[-1] = {0: rule.early, 1: rule.finished}.get(one["spans"][-1], rule.further)
        out.append(own)
    return out


def expected(rule: Any, given: Given, groups: list[Group]) -> list[list[float]]:
    every = [one for row in given for one in row]
    inside = [[k >= 0 for k in one["spans"]] for one in every]
    unsure = [[math.exp(x) < getattr(rule, "rho", 2) for x in one["logprobs"]] for one in every]
    if isinstance(rule, ValueChanges):
        rows = [changes(one, rule.gamma) for one in every]
        return white(rows, inside) if rule.whitened else rows
    if isinstance(rule, SegmentChanges):
        rows = [[a * m for a, m in zip(changes(one, 1.0), mark, strict=True)] for one, mark in zip(every, unsure, strict=True)]
        return white(rows, unsure) if rule.whitened else rows
    if isinstance(rule, BayesAdaptive):
        flat = [t for g in groups for t in g.trajectories]
        rows = [believed(one, rule.beta, right(one, t)) for one, t in zip(every, flat, strict=True)]
        return white(rows, [[True] * len(row) for row in rows]) if rule.whitened else rows
    if isinstance(rule, TreeChanges):
        units = [one["unit"] if rule.scale == "siblings" and one["unit"] else 1.0 for one in every]
        return [[(one["value"] - one["base"]) / u * m for m in mark] for one, u, mark in zip(every, units, unsure, strict=True)]
    if isinstance(rule, RankRelative):
        return [own for row in given for own in by_rank(rule, row)]
    out = []
    for row in given:
        rewards = [one["reward"] for one in row]
        mean, count = sum(rewards) / len(rewards), len(rewards)
        squares = sum((r - mean) ** 2 for r in rewards)
        for one in row:
            if isinstance(rule, AdvantageMomentum):
                gap = 0.0 if one["sibling"] is None else min(max(one["reward"] - one["sibling"], -rule.low), rule.high)
                out.append([((one["reward"] - mean) / (math.sqrt(squares / (count - 1)) + rule.epsilon) if squares else 0.0) + gap] * len(one["spans"]))
            else:
                unit = math.sqrt(squares / count) if isinstance(rule.rule, GroupRelative) else (count - 1) / count
                a = (one["reward"] - mean) / unit if squares else 0.0
                out.append([a + rule.alpha * abs(a) if k >= 0 else a for k in one["spans"]])
    return out


@pytest.mark.parametrize("rule", RULES_OF_STEPS, ids=name_of)
def test_credit_of_steps(rule: Any) -> None:
    given = drawn(4)
    groups = records(given)
    found = [c for row in rule.assign(groups, {}) for c in row]
    for c, due, one in zip(found, expected(rule, given, groups), (one for row in given for one in row), strict=True):
        assert_close(torch.tensor(c.advantages), torch.tensor(due, dtype=torch.float64), rtol=1e-10, atol=1e-12)
        if c.weights is not None:
            assert c.weights.tolist() == [float(math.exp(x) < rule.rho) for x in one["logprobs"]]


def test_chances_of_steps() -> None:
    given = drawn(5)
    found = [c for row in CHANCES.assign(records(given), {}) for c in row]
    for c, one in zip(found, (one for row in given for one in row), strict=True):
        spans = one["spans"]
        assert c.returns is not None
        assert c.weights is not None
        assert c.returns.tolist() == pytest.approx([one["values"][k] if k >= 0 else 0.0 for k in spans])
        assert c.weights.tolist() == [float(k >= 0 and k not in spans[:i]) for i, k in enumerate(spans)]


@pytest.mark.parametrize("seed", range(5))
def test_advantages_of_nodes(seed: int) -> None:
    """A node is the set of leaves that have the same tokens up to here; its parent is the set one token before, where it was larger."""
    draw = random.Random(seed)
    leaves: list[tuple[int, int | None, float, int]] = []
    for origin in range(3):
        size = draw.randint(3, 6)
        leaves.append((origin, None, draw.choice([0.0, 1.0]), size))
        for shared in draw.sample(range(1, size), draw.randint(0, 2)):
            leaves.append((origin, shared, draw.choice([0.0, 0.5, 1.0]), shared + draw.randint(1, 3)))

    def together(a: tuple[Any, ...], b: tuple[Any, ...], t: int) -> bool:
        """Whether two leaves have the same token t."""
        cut = min(x[1] if x[1] is not None else 99 for x in (a, b))
        return a is b or (a[0] == b[0] and t < cut)

    every = [one[2] for one in leaves]
    made = [
        toy_trajectory([1] * tokens, reward=reward, name=str(i), links=Frozen(origin=origin) if shared is None else Frozen(origin=origin, shared=shared))
        for i, (origin, shared, reward, tokens) in enumerate(leaves)
    ]
    (found,) = NODES.assign([Group("g", tuple(made))], {})
    for one, row in zip(leaves, (c.advantages for c in found), strict=True):
        nodes = [[b[2] for b in leaves if together(one, b, t)] for t in range(one[3])]
        value, parent = 0.0, math.fsum(every) / len(every)
        root = parent
        for t, below in enumerate(nodes):
            if t == 0 or len(below) != len(nodes[t - 1]):
                parent = parent if t == 0 else value
                value = math.fsum(below) / len(below)
            assert row[t] == pytest.approx((value - root + value - parent) / math.sqrt(len(below)))


@pytest.mark.parametrize("seed", range(5))
def test_advantages_of_a_critic_of_steps(seed: int) -> None:
    draw, rule = random.Random(seed), CRITIC
    before, after = ([draw.uniform(-2, 2) for _ in range(3)] for _ in range(2))
    reward, last = draw.choice([0.0, 0.5, 1.0]), draw.choice([True, False])
    t = toy_trajectory([2] * 3, reward=reward, links=Frozen(last=last))
    signals = {need: {"t": np.array(row)} for need, row in zip(rule.needs, (before, after), strict=True)}
    ((found,),) = rule.assign([Group("g", (t,))], signals)
    reached = reward if last else 1 / (1 + math.exp(-after[-1]))
    assert found.advantages.tolist() == pytest.approx([reached - 1 / (1 + math.exp(-before[0]))] * 3)


@pytest.mark.parametrize("ratio", RATIOS_OF_SPANS, ids=name_of)
def test_ratios_of_spans(ratio: SpanRatio) -> None:
    """The ratio and its gradient, over contexts of several lengths; equal numbers in two contexts are two spans."""
    rows, draw = rows_of(MIXED), random.Random(3)
    batch = batch_of(rows)
    spans = [[draw.choice([-1, 0, 0, 1]) for _ in range(c.actions)] for c in batch.contexts]
    streamed = [replace(c, streams=Frozen({**c.streams, "span": np.array(s, np.int32)})) for c, s in zip(batch.contexts, spans, strict=True)]
    batch = replace(batch, contexts=tuple(streamed))
    now = torch.tensor([r.now for r in rows], dtype=torch.float64, requires_grad=True)
    found = ratio.log_ratio(now, torch.tensor([r.old for r in rows], dtype=torch.float64), batch)
    flat = [(c, s) for c, row in enumerate(spans) for s in row]
    logs = [r.now - (r.behaviour if ratio.against == "behaviour" else r.old) for r in rows]
    mates = [[j for j, other in enumerate(flat) if other == me] if me[1] >= 0 else [i] for i, me in enumerate(flat)]
    assert_close(found.detach(), torch.tensor([math.fsum(logs[j] for j in m) / len(m) for m in mates], dtype=torch.float64), rtol=1e-12, atol=1e-12)
    pull = torch.tensor([draw.uniform(-1, 1) for _ in rows], dtype=torch.float64)
    found.backward(pull)
    slopes = [math.fsum(float(pull[i]) / len(m) for i, m in enumerate(mates) if j in m) for j in range(len(rows))]
    assert now.grad is not None
    assert_close(now.grad, torch.tensor(slopes, dtype=torch.float64))
    assert max(map(len, mates)) > 1


def test_means_of_turns() -> None:
    """The score and its gradient; a turn of equal number in another trajectory is another turn."""
    rows, draw = rows_of(MIXED), random.Random(6)
    batch = batch_of(rows)
    turns = [draw.choice([0, 1]) for _ in rows]
    cuts = iter(turns)
    numbered = [replace(c, streams=Frozen({**c.streams, "turn": np.array([next(cuts) for _ in range(c.actions)])})) for c in batch.contexts]
    now = torch.tensor([r.now for r in rows], dtype=torch.float64, requires_grad=True)
    found = TURNS.scores(now, replace(batch, contexts=tuple(numbered)))
    units = [(r.trajectory, t) for r, t in zip(rows, turns, strict=True)]
    due = [0.0] * len(batch.trajectories)
    for r, unit in zip(rows, units, strict=True):
        due[r.trajectory] += (r.now - r.reference) / units.count(unit)
    assert_close(found.detach(), torch.tensor(due, dtype=torch.float64))
    found.sum().backward()
    assert now.grad is not None
    assert_close(now.grad, torch.tensor([1 / units.count(unit) for unit in units], dtype=torch.float64))
    assert max(map(units.count, units)) > 1


@pytest.mark.parametrize("rule", SEGMENTS, ids=name_of)
def test_advantages_within_segments(rule: SegmentGAE) -> None:
    given, draw = drawn(5), random.Random(3)
    groups = [
        g.but(trajectories=tuple(t.but(components=Frozen(explanation=draw.uniform(-5, 5))) for t in g.trajectories)) for g in records(given)
    ]
    values = {t.id: np.array([draw.uniform(-1, 1) for _ in range(t.actions)], np.float32) for g in groups for t in g.trajectories}
    found = rule.assign(groups, dict.fromkeys(rule.needs, values))
    rows, marks = [], []
    for t, one in ((t, one) for g, row in zip(groups, given, strict=True) for t, one in zip(g.trajectories, row, strict=True)):
        spans, v = one["spans"], [float(x) for x in values[t.id]]
        first = [k <= 0 for k in spans]
        cut = sum(first)
        rewards = [0.0] * len(spans)
        rewards[-1] = one["reward"]
        if cut < len(spans):
            rewards[cut - 1] += t.components["explanation"]
            rewards[-1] -= t.components["explanation"]
        row = [0.0] * len(spans)
        for i in reversed(range(len(spans))):
            ends = i + 1 == len(spans) or i + 1 == cut
            later = 0.0 if ends else v[i + 1]
            row[i] = rewards[i] + rule.gamma * later - v[i] + (0.0 if ends else rule.gamma * rule.lam * row[i + 1])
        rows.append(row)
        marks.append(first)
    due = rows
    if rule.whitened:
        other = [[not m for m in mark] for mark in marks]
        due = [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(white(rows, marks), white(rows, other), strict=True)]
    given_back = [c for row in found for c in row]
    for c, row, plain, t in zip(given_back, due, rows, (t for g in groups for t in g.trajectories), strict=True):
        assert_close(torch.tensor(c.advantages), torch.tensor(row, dtype=torch.float64), rtol=1e-10, atol=1e-12)
        wanted = [a + float(x) for a, x in zip(plain, values[t.id], strict=True)]
        assert_close(torch.tensor(c.returns), torch.tensor(wanted, dtype=torch.float64), rtol=1e-10, atol=1e-12)
