"""A ratio and an average of turns, and credit from verdicts on steps, against plain loops over Python's floats."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.class_balanced import TRUTH, ClassBalanced
from gradus.papers.multi_agent.rema import TurnMean, TurnRatio
from gradus.papers.multi_agent.rl_tango import StepVerdicts
from gradus.testing.methods import scripted_context, toy_trajectory
from gradus.types import Frozen, Group, Problem, Trajectory
from gradus.types.batch import make_batch

SEEDS = range(6)
PARTS_OF_TURNS = [TurnMean(), TurnRatio(1.2), StepVerdicts(0.3), ClassBalanced()]


def played(draw: random.Random, name: str) -> tuple[Trajectory, list[list[int]]]:
    """A trajectory of one or two contexts with one to three turns each, and the turn of every action by context."""
    contexts, rows, turn = [], [], 0
    for _ in range(draw.randint(1, 2)):
        row = []
        for _ in range(draw.randint(1, 3)):
            row += [turn] * draw.randint(1, 3)
            turn += 1
        contexts.append(replace(scripted_context("a" * len(row)), streams=Frozen(turn=np.array(row, np.int32))))
        rows.append(row)
    made = Trajectory(name, Problem("p", "t"), tuple(contexts), reward=0.0)
    return made.but(advantages=np.zeros(made.actions)), rows


@pytest.mark.parametrize("seed", SEEDS)
def test_ratios_and_averages_of_turns(seed: int) -> None:
    draw = random.Random(seed)
    made = [played(draw, str(i)) for i in range(3)]
    batch = make_batch([Group("g", tuple(t for t, _ in made))], {}, dtype=torch.float64)
    moves = [draw.uniform(-1, 3) for _ in range(batch.actions)]
    cap = 1.2
    found = TurnRatio(cap).log_ratio(torch.tensor(moves, dtype=torch.float64), torch.zeros(len(moves), dtype=torch.float64), batch)
    weights = TurnMean().coefficients(batch, "policy")
    ratios, due, at = [], [], 0
    for _, rows in made:
        turns = sum(len(set(row)) for row in rows)
        for row in rows:
            mine = moves[at : at + len(row)]
            at += len(row)
            for turn in row:
                inside = [m for m, other in zip(mine, row, strict=True) if other == turn]
                ratios.append(min(cap, math.fsum(inside) / len(inside)))
                due.append(1 / (3 * turns * len(inside)))
    assert_close(found, torch.tensor(ratios, dtype=torch.float64))
    assert_close(weights, torch.tensor(due, dtype=torch.float64))
    assert float(weights.sum()) == pytest.approx(1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_advantages_from_verdicts_on_steps(seed: int, alpha: float) -> None:
    draw = random.Random(seed)
    answers, plain = [], []
    for i in range(4):
        sizes = [draw.randint(1, 3) for _ in range(draw.randint(1, 3))]
        calls = [draw.choice((1.0, -1.0, 0.0)) for _ in sizes]
        span = [-1] * draw.randint(0, 1) + [s for k, n in enumerate(sizes) for s in [k] * n + [-1] * draw.randint(0, 1)]
        made = toy_trajectory([2] * len(span), name=str(i), reward=draw.choice((0.0, 1.0, 0.5)))
        marks = np.array([0.0 if s < 0 else calls[s] for s in span])
        answers.append(made.but(contexts=(replace(made.contexts[0], streams=Frozen(span=np.array(span, np.int32), verdict=marks)),)))
        plain.append((made.value, [c / len(calls) for c in calls], span))

    def standardised(values: list[float]) -> list[float]:
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
        return [0.0 if spread < 1e-9 else (v - mean) / spread for v in values]

    outcomes, pooled = standardised([r for r, _, _ in plain]), standardised([s for _, steps, _ in plain for s in steps])
    rows = [c.advantages.tolist() for c in StepVerdicts(alpha).assign([Group("g", tuple(answers))], {})[0]]
    at = 0
    for outcome, (_, steps, span), row in zip(outcomes, plain, rows, strict=True):
        mine = pooled[at : at + len(steps)]
        at += len(steps)
        ends = [max(t for t, s in enumerate(span) if s == k) for k in range(len(steps))]
        later = [math.fsum(v for v, end in zip(mine, ends, strict=True) if end >= t) for t in range(len(span))]
        assert row == pytest.approx([(1 - alpha) * outcome + alpha * v for v in later])


@pytest.mark.parametrize("seed", SEEDS)
def test_factors_of_classes(seed: int) -> None:
    draw, rule, state = random.Random(seed), ClassBalanced(decay=0.7), ClassBalanced().start()
    smooth: dict[bool, float] = {}
    for batch in range(3):
        truths = [draw.random() < 0.7 for _ in range(4)]
        groups = [
            Group(f"{batch}/{i}", tuple(toy_trajectory([2, 3], name=f"{i}/{j}", reward=float(j), links=Frozen({TRUTH: t})) for j in range(2)))
            for i, t in enumerate(truths)
        ]
        rows, state = rule.assign(groups, {}, state)
        for kind in set(truths):
            new = math.sqrt(len(truths) / (2 * truths.count(kind)))
            smooth[kind] = 0.7 * smooth[kind] + 0.3 * new if kind in smooth else new
        for truth, row in zip(truths, rows, strict=True):
            assert [c.advantages.tolist() for c in row] == [pytest.approx([-smooth[truth]] * 2), pytest.approx([smooth[truth]] * 2)]
