"""Every credit rule against plain loops written from its formula, over Python's floats."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.bellman import NStep
from gradus.credit.gae import GAE, LengthAdaptiveGAE
from gradus.credit.groups import PoolBaseline
from gradus.credit.kl_penalty import kl_costs
from gradus.credit.prompt_returns import PromptReturns
from gradus.papers.objectives.apo import Divergence
from tests.parts import CREDITS, ESTIMATORS, name_of, parts, untried
from tests.reference import pieces
from tests.reference.answers import records, samples
from tests.reference.rules import RULES, kept_divergence
from tests.reference.statistics import mean, rewards_of


def test_every_rule_has_a_reference():
    assert {c.__qualname__ for c in parts("credit")} - {c.__qualname__ for c in RULES} == set()


def test_every_rule_and_every_choice_of_it_is_tried():
    assert untried("credit") == []


@pytest.mark.parametrize("rule", CREDITS, ids=name_of)
def test_a_rule(rule):
    for seed in range(5):
        given = samples(seed)
        expected = RULES[type(rule)](rule, given)
        found = rule.assign(*records(given))
        assert [len(row) for row in found] == [len(row) for row in expected]
        for row, other in zip(found, expected, strict=True):
            for credited, answer in zip(row, other, strict=True):
                np.testing.assert_allclose(credited.advantages, answer, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rule", [r for r in CREDITS if isinstance(r, GAE | LengthAdaptiveGAE | NStep)], ids=name_of)
def test_returns_are_the_advantages_before_whitening_plus_the_values(rule):
    given = samples(1)
    expected = RULES[type(rule)](rule if isinstance(rule, NStep) else replace(rule, whitened=False), given)
    for members, row, other in zip(given, rule.assign(*records(given)), expected, strict=True):
        for s, credited, answer in zip(members, row, other, strict=True):
            np.testing.assert_allclose(credited.returns, [a + v for a, v in zip(answer, s.values, strict=True)], rtol=1e-10, atol=1e-12)


def test_a_pool_is_the_baseline_of_the_answers_that_were_chosen_from_it():
    given = samples(1)
    groups, signals = records(given)
    pools = [(1.0, 0.0, 0.25, 0.0, 0.5), (0.5, 0.75, None, float("nan")), (0.3, 0.9), (0.1, 0.1)]
    due = [[s.reward - mean([r for r in pool if r is not None and r == r]) for s in m] for m, pool in zip(given, pools, strict=True)]
    found = PoolBaseline().assign([g.but(pool=pool) for g, pool in zip(groups, pools, strict=True)], signals)
    for members, row, advantages in zip(given, found, due, strict=True):
        for s, credited, a in zip(members, row, advantages, strict=True):
            np.testing.assert_allclose(credited.advantages, [a] * len(s.at), rtol=1e-10, atol=1e-12)


def test_returns_of_a_prompt_are_read_at_the_first_action_alone():
    given = samples(2)
    for members, row in zip(given, PromptReturns().assign(*records(given)), strict=True):
        for s, credited in zip(members, row, strict=True):
            np.testing.assert_allclose(credited.returns, [mean(rewards_of(members))] * len(s.at), rtol=1e-12)
            assert credited.weights.tolist() == [1.0] + [0.0] * (len(s.at) - 1)


@pytest.mark.parametrize("rule", [r for r in CREDITS if isinstance(r, Divergence)], ids=name_of)
def test_weights_of_a_divergence(rule):
    given, seen = samples(3), set()
    for members, row, found in zip(given, RULES[type(rule.rule)](rule.rule, given), rule.assign(*records(given)), strict=True):
        for answer, credited in zip(row, found, strict=True):
            due = [kept_divergence(rule, members, a) for a in answer]
            np.testing.assert_allclose(credited.weights, due, rtol=1e-12)
            seen.update(due)
    assert (min(seen) < 1) == math.isfinite(rule.rate)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_of_the_divergence(estimator):
    draw = random.Random(4)
    now, reference = ([draw.uniform(-3, -0.1) for _ in range(20)] for _ in range(2))
    expected = [pieces.kl(a, b, estimator) for a, b in zip(now, reference, strict=True)]
    np.testing.assert_allclose(kl_costs(np.array(now), np.array(reference), estimator=estimator), expected, rtol=1e-10, atol=1e-14)
