"""Every objective against plain loops written from its formula: the loss, and its gradient by difference quotients of those loops."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import Distillation, kl_estimate
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import EntropyBonus, PolicyGradient, evaluate
from gradus.objectives.trust import Clip
from gradus.papers.guidance.kdrl import WrongOnly
from gradus.papers.objectives.otr import OneTokenScores
from gradus.papers.rewards.stable_reinforce import PreClipped
from gradus.types.readers import DivergenceFrom
from gradus.types.signals import EntropyOf, LogProb, MatchingError, MatchingTime, MatchingVelocity, Value, Velocity, Viewed
from tests.parts import DRAWN, ESTIMATORS, FLOWING, KINDS, PAIRED, POLICIES, TERMS, VIEWED, name_of, parts, untried
from tests.reference import pieces, plain
from tests.reference.given import DIMENSION, DRAWS, MIXED, PAIRS, batch_of, rows_of, tensor, weighed

STEP = 1e-5  # of the difference quotients
SILENT = 5  # the trajectory of MIXED without weight, where actions are weighed one by one
OBJECTIVES = [kind for kind in KINDS if kind != "credit"]


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_class_has_a_reference(kind):
    assert {c.__qualname__ for c in parts(kind)} - {c.__qualname__ for c in plain.KINDS[kind]} == set()


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_class_and_every_choice_of_it_is_tried(kind):
    assert untried(kind) == []


def test_a_class_without_a_reference_would_be_seen():
    assert {"Clip", "SecondMoment"} <= {c.__qualname__ for c in parts("trust")}  # of the shared parts, and of the papers
    assert "Trust" not in {c.__qualname__ for c in parts("trust")}  # a protocol is none


def outputs_of(term: Any, rows: Any, seed: int) -> dict[Any, torch.Tensor]:
    """What the term wants, float64: log-probabilities as the rows have them, the rest drawn."""
    draw, count = random.Random(seed), len(rows)

    def drawn(*shape: int, low: float, high: float) -> torch.Tensor:
        size = torch.Size(shape).numel()
        return tensor(draw.uniform(low, high) for _ in range(size)).view(shape)

    made = {
        LogProb(): lambda: tensor(r.now for r in rows),
        EntropyOf(): lambda: drawn(count, low=0.1, high=2),
        DivergenceFrom(): lambda: drawn(count, low=0.1, high=2),
        Value(): lambda: drawn(count, low=-1, high=1),
        Velocity(): lambda: drawn(count, DIMENSION, low=-1, high=1),
        OneTokenScores(): lambda: drawn(count, 2, low=-1, high=0.1),
        MatchingError(DRAWS): lambda: drawn(count, DRAWS, low=0.2, high=0.8),
        MatchingTime(DRAWS): lambda: tensor(r.times for r in rows),
        MatchingVelocity(DRAWS): lambda: drawn(count, DRAWS, DIMENSION, low=-1, high=1),
    }
    alike: Any = {OneTokenScores: lambda w: OneTokenScores(), DivergenceFrom: lambda w: DivergenceFrom(), Viewed: lambda w: w.reads}
    found = {w: alike.get(type(w), lambda w: w)(w) for w in term.wants}
    return {want: made[like]() for want, like in found.items()}


def held(term: Any, want: Any) -> bool:
    """Whether the term reads what it wants without gradient: times, what a weight reads, a view taken as a constant."""
    if isinstance(term, EntropyBonus | Distillation):
        return isinstance(want, LogProb)
    return isinstance(want, MatchingTime) or (isinstance(want, Viewed) and bool(getattr(term, "constant", False)))


def named(outputs: dict[Any, torch.Tensor]) -> dict[str, Any]:
    return {type(want).__name__: values.tolist() for want, values in outputs.items()}


def unmoved(term: Any, rows: Any) -> bool:
    """Whether no action has a gradient: the weight is that of wrong answers, and the term reads none, or only such as the clip holds back.

    The clip holds an action back if its ratio is already past the bound to which its advantage pushes it. `Probability` has a ratio below 1, so there the clip
    holds back every action with a negative advantage and a probability below 1 - low.
    """
    if not isinstance(getattr(term, "weight", None), WrongOnly):
        return False
    wrong = [i for i, r in enumerate(rows) if r.source == term.source and r.weighs and r.reward <= 0]
    return not any(moves(term, rows, i) for i in wrong)


def moves(term: Any, rows: Any, i: int) -> bool:
    """Whether an action with a weight has a gradient."""
    if not isinstance(term, PolicyGradient):
        return True
    now = [r.now for r in rows]
    ratio, part = math.exp(pieces.RATIOS[type(term.ratio)](term.ratio, rows, i, now, now)), term.ratio
    if isinstance(part, PreClipped) and not part.least < ratio < part.most:
        return False
    return ratio < 1 + term.trust.high if rows[i].advantage > 0 else ratio > 1 - term.trust.low


def check(term: Any, rows: Any, seed: int, directions: int | None = None) -> None:
    """Loss and gradient: each derivative by its own difference quotient, or the gradient along some random directions, which costs less."""
    outputs = {w: o.requires_grad_() for w, o in outputs_of(term, rows, seed).items()}
    loss, _ = evaluate({"it": term}, outputs, batch_of(rows))
    slow = plain.TERMS[type(term)]
    still = named(outputs)
    assert loss.item() == pytest.approx(slow(term, rows, still, still), rel=1e-10, abs=1e-12)
    loss.backward()
    for want, values in outputs.items():
        if held(term, want):
            assert values.grad is None
            continue
        assert values.grad is not None
        assert bool(values.grad.any()) is not unmoved(term, rows)
        generator = torch.Generator().manual_seed(seed)
        axes = torch.eye(values.numel(), dtype=torch.float64)
        if directions is not None:
            axes = torch.randn(directions, values.numel(), generator=generator, dtype=torch.float64)
        quotients = []
        for axis in axes:
            ahead, behind = (values.detach() + sign * STEP * axis.view_as(values) for sign in (1, -1))
            sides = [slow(term, rows, {**still, type(want).__name__: moved.tolist()}, still) for moved in (ahead, behind)]
            quotients.append((sides[0] - sides[1]) / (2 * STEP))
        assert_close(axes @ values.grad.flatten(), tensor(quotients), rtol=0, atol=3e-8)


@pytest.mark.parametrize("term", [*TERMS, *FLOWING, *VIEWED, *DRAWN], ids=name_of)
def test_a_term(term):
    rows = rows_of(MIXED, 1)
    check(term, rows, 1)
    check(term, weighed(rows, SILENT), 1, directions=2)


@pytest.mark.parametrize("term", PAIRED, ids=name_of)
def test_a_term_on_pairs(term):
    for seed in (1, 2):
        rows = rows_of(PAIRS, seed)
        check(term, rows, seed)
        check(term, weighed(rows), seed)


@pytest.mark.parametrize("trust", dict.fromkeys(term.trust for term in POLICIES), ids=name_of)
def test_the_policy_term_with_every_ratio_average_and_weight(trust):
    seen: set[Any] = set()
    for number, term in enumerate(term for term in POLICIES if term.trust == trust):
        seed = 2 + number % 3
        check(term, weighed(rows_of(MIXED, seed), SILENT), seed, directions=2 if term.ratio in seen else None)
        seen.add(term.ratio)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.95, 0.28)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_where_the_clip_holds_back_every_wrong_answer(sign, low, high):
    """A probability is far below 1: against a wrong answer the clip leaves no gradient with the usual bounds, in favour of it the whole gradient."""
    rows = [replace(r, advantage=sign * abs(r.advantage)) for r in rows_of(MIXED, 1)]
    term = PolicyGradient(Probability(), Clip(low, high), WrongOnly(), TokenMean())
    assert all(math.exp(r.now) < 0.82 for r in rows)
    assert unmoved(term, rows) is (sign < 0 and low == 0.2)
    check(term, rows, 1)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_of_the_divergence_passes_a_gradient_check(estimator):
    generator = torch.Generator().manual_seed(3)
    now, reference = (torch.rand(9, generator=generator, dtype=torch.float64) * 3 - 3 for _ in range(2))
    values = kl_estimate(now, reference, estimator=estimator)
    assert_close(values, tensor(pieces.kl(a, b, estimator) for a, b in zip(now.tolist(), reference.tolist())), rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x: kl_estimate(x, reference, estimator=estimator), now.requires_grad_())


def test_the_rows_are_weighed():
    """Or what multiplies a loss, and what counts in a denominator, would not be seen."""
    rows = weighed(rows_of(MIXED, 1), SILENT)
    assert len({r.weighs for r in rows}) > 4
    assert {r.weighs for r in rows if r.trajectory == SILENT} == {0.0}
    batch = batch_of(rows)
    assert batch.weight.tolist() == [r.weighs for r in rows]
