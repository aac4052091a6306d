"""Parts that tell given tokens, thoughts or hints apart, against plain loops over Python's floats."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.credit.sampled_only import SampledOnly
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import EntropyClip
from gradus.papers.agents.rex_rag import MixtureRatio
from gradus.papers.guidance.gtr import STREAM as THOUGHT
from gradus.papers.guidance.gtr import ThoughtWeight
from gradus.papers.guidance.rl_plus import TwoPolicies
from gradus.papers.guidance.rlad import HINT, HintedOnly
from gradus.papers.guidance.thinktuning import STREAM as TAUGHT
from gradus.papers.guidance.thinktuning import ShapedFeedback, StudentRatio
from gradus.rollouts.clones import STREAM as MIXTURE
from gradus.testing.methods import toy_group
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.signals import Entropy, LogProb
from tests.parts import name_of
from tests.reference import pieces
from tests.reference.given import MIXED, Row, batch_of, rows_of, tensor, weighed

RATIO, TRUSTS = StudentRatio(), [ShapedFeedback(), ShapedFeedback(0.1, 0.15, c=0.5)]
WEIGHTS = [ThoughtWeight(), ThoughtWeight(0.0)]
RULES = [HintedOnly(), HintedOnly(LeaveOneOut())]
SAMPLED = [SampledOnly(GroupRelative()), SampledOnly(LeaveOneOut())]
CLIPS = [EntropyClip(), EntropyClip(0.1, 0.05, 0.3)]
BOUNDED = [TwoPolicies(), TwoPolicies(0.0), TwoPolicies(1.5)]
PARTS_OF_GUIDANCE = [RATIO, MixtureRatio(), *TRUSTS, *WEIGHTS, *RULES, *SAMPLED, *CLIPS, *BOUNDED]


def streamed(batch: Batch, name: str, marks: list[bool] | list[float]) -> Batch:
    """The batch with the marks of its actions as a stream."""
    left = iter(marks)
    made = [replace(c, streams=Frozen({**c.streams, name: np.array([next(left) for _ in range(c.actions)])})) for c in batch.contexts]
    return replace(batch, contexts=tuple(made))


def drawn() -> tuple[list[Row], list[bool]]:
    rows, draw = rows_of(MIXED, 2), random.Random(5)
    return rows, [draw.random() < 0.5 for _ in rows]


@pytest.mark.parametrize("trust", TRUSTS, ids=name_of)
def test_tokens_of_student_and_teacher(trust: ShapedFeedback) -> None:
    rows, marks = drawn()
    batch = streamed(batch_of(rows), TAUGHT, [float(m) for m in marks])
    now = tensor(r.now for r in rows).requires_grad_()
    log_ratio = RATIO.log_ratio(now, tensor(r.old for r in rows), batch)
    found, _ = trust.losses(log_ratio, batch.advantages, batch)
    due, slopes = [], []
    for r, mark in zip(rows, marks, strict=True):
        a, p, ratio = r.advantage, math.exp(r.now), math.exp(r.now - r.old)
        bound = min(max(ratio, 1 - trust.low), 1 + trust.high)
        weight = p / (p + trust.c) if a > 0 else 0.0
        due.append(-weight * a * r.now if mark else -min(ratio * a, bound * a))
        slopes.append(-weight * a if mark else -ratio * a if ratio * a <= bound * a else 0.0)
    assert_close(found.detach(), tensor(due), rtol=1e-10, atol=1e-12)
    found.sum().backward()
    assert now.grad is not None
    assert_close(now.grad, tensor(slopes), rtol=1e-10, atol=1e-12)
    assert len(set(marks)) == 2


def test_the_ratio_to_a_mixture() -> None:
    rows, marks = drawn()
    pairs = [(0.9 + 0.1 * mark, 0.0 if i % 3 else 0.05) for i, mark in enumerate(marks)]
    batch = streamed(batch_of(rows), MIXTURE, pairs)  # type: ignore[arg-type]
    found = MixtureRatio().log_ratio(tensor(r.now for r in rows), tensor(r.old for r in rows), batch)
    due = [r.now - math.log(a * math.exp(r.old) + b) for r, (a, b) in zip(rows, pairs, strict=True)]
    assert_close(found, tensor(due), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weight", WEIGHTS, ids=name_of)
def test_weights_of_thoughts(weight: ThoughtWeight) -> None:
    rows, marks = drawn()
    found = weight.factors(tensor(r.old for r in rows), streamed(batch_of(rows), THOUGHT, marks))
    assert found.tolist() == [weight.lam if mark else 1.0 for mark in marks]


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_only_answers_with_a_hint_have_an_advantage(rule: HintedOnly) -> None:
    group = toy_group(1, 0, 0, 1)
    group = group.but(trajectories=tuple(t.but(links=Frozen({HINT: "z"}) if i != 1 else Frozen()) for i, t in enumerate(group.trajectories)))
    plain = [(r - 0.5) / 0.5 if isinstance(rule.rule, GroupRelative) else r - (2 - r) / 3 for r in group.rewards]
    found = [c.advantages.tolist() for c in rule.assign([group], {})[0]]
    assert found == [pytest.approx([a if i != 1 else 0.0] * 2) for i, a in enumerate(plain)]


@pytest.mark.parametrize("rule", SAMPLED, ids=name_of)
def test_only_answers_of_the_policy_have_an_advantage(rule: SampledOnly) -> None:
    group = toy_group(1, 0, 0, 5)
    group = group.but(trajectories=tuple(t.but(source="expert" if i == 3 else "policy") for i, t in enumerate(group.trajectories)))
    mean, deviation = 1 / 3, math.sqrt(2) / 3
    plain = [(r - mean) / deviation if isinstance(rule.rule, GroupRelative) else r - (1 - r) / 2 for r in (1, 0, 0)]
    found = [c.advantages.tolist() for c in rule.assign([group], {})[0]]
    assert found == [pytest.approx([a] * 2, rel=1e-5) for a in (*plain, 0.0)]


@pytest.mark.parametrize("trust", CLIPS, ids=name_of)
def test_a_clip_that_follows_the_entropy(trust: EntropyClip) -> None:
    rows, draw = rows_of(MIXED, 4), random.Random(8)
    entropies = [draw.uniform(0, 2) for _ in rows]
    batch = batch_of(rows)
    batch = replace(batch, signals={**batch.signals, Entropy(): tensor(entropies)})
    log_ratio = tensor(r.now - r.old for r in rows).requires_grad_()
    found, _ = trust.losses(log_ratio, batch.advantages, batch)
    due, slopes = [], []
    for r, entropy in zip(rows, entropies, strict=True):
        a, ratio = r.advantage, math.exp(r.now - r.old)
        high = trust.high + (trust.most - trust.high) * entropy / max(entropies)
        bound = min(max(ratio, 1 - trust.low), 1 + high)
        due.append(-min(ratio * a, bound * a))
        slopes.append(-ratio * a if ratio * a <= bound * a else 0.0)
    assert_close(found.detach(), tensor(due), rtol=1e-10, atol=1e-12)
    found.sum().backward()
    assert log_ratio.grad is not None
    assert_close(log_ratio.grad, tensor(slopes), rtol=1e-10, atol=1e-12)
    assert 0.0 in slopes


@pytest.mark.parametrize("before", ["known", "none"])
@pytest.mark.parametrize("trust", BOUNDED, ids=name_of)
def test_the_weight_of_two_policies(trust: TwoPolicies, before: str) -> None:
    """-w A (1 - pi)^gamma with w = 2 pi / (pi_old + (pi_old + 1) / 2); only the pi of w has a gradient. Without rows of the start, pi_old is pi."""
    rows = weighed(rows_of(MIXED, 6), 5)
    batch = batch_of(rows)
    batch = batch if before == "known" else replace(batch, old={})
    term = PolicyGradient(Probability(), trust, average=SequenceMean(), coefficient=0.7, source="expert")
    now = tensor(r.now for r in rows).requires_grad_()
    found, _ = evaluate({"it": term}, {LogProb(): now}, batch)

    def slow(moving: list[float]) -> float:
        losses = {}
        for i, r in enumerate(rows):
            old = math.exp(r.old if before == "known" else r.now)
            weight = 2 * math.exp(moving[i]) / (old + (old + 1) / 2)
            losses[i] = -weight * r.advantage * (1 - math.exp(r.now)) ** trust.gamma * r.weighs
        return term.coefficient * pieces.averaged(term.average, rows, term.source, losses)

    here = [r.now for r in rows]
    assert found.item() == pytest.approx(slow(here), rel=1e-10)
    found.backward()
    step, quotients = 1e-5, []
    for i in range(len(rows)):
        ahead, behind = ([x + sign * step * (i == j) for j, x in enumerate(here)] for sign in (1, -1))
        quotients.append((slow(ahead) - slow(behind)) / (2 * step))
    assert now.grad is not None
    assert_close(now.grad, tensor(quotients), rtol=0, atol=3e-8)
    assert [i for i, g in enumerate(quotients) if g] == [i for i, r in enumerate(rows) if r.source == "expert" and r.weighs]
