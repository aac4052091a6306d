"""RiskPO: scores of papers, tail and range by hand, tracked quantiles, shares of answers, and the objective without its difference."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.risk_po import BundledRisk, deviation, mixed_risk, paper_scores, risk_po, shares, tracked
from gradus.recipe.core import changes
from gradus.testing.methods import (
    check_bound_acts,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    toy_batch,
    toy_group,
    train_toy,
)
from gradus.types import UserError
from gradus.types.signals import LogProb

FREE = partial(BundledRisk, lowered=False)  # the range part begins at 0
KNOWN = {"quantiles": [1.0, 4.0]}
MEAN = FREE(low=0.0, high=1.0, tail=0.0, bundle=1, scale="none")


def assigned(rule, *rewards, state=KNOWN):
    """The advantages of each question's answers, and the state afterwards."""
    rows, after = rule.assign([toy_group(*r) for r in rewards], {}, state)
    return [[c.advantages[0] for c in row] for row in rows], after


def risk(*scores, **options):
    terms = {"low": (0.2, 1.0), "high": (0.8, 4.0), "tail": 1.5, "lowered": False, **options}
    return mixed_risk(np.array(scores, float), **terms).tolist()


def test_tail_and_range_by_hand():
    # 0: u = -1 / .2 = -5, (1.5 * -5) / 2.5 = -3. 3: v = 2 / .6, / 2.5 = 1.333. From 4 on v = 3 / .6 = 5, / 2.5 = 2
    assert risk(0, 1, 3, 4, 5) == pytest.approx([-3.0, 0.0, 4 / 3, 2.0, 2.0])
    assert risk(0, 3, tail=0.0) == pytest.approx([0.0, 2 / 0.6])


def test_the_lowered_range_is_never_positive():
    # v falls by 3 / .6 = 5, so A by 2
    assert risk(0, 1, 3, 4, 5, lowered=True) == pytest.approx([-5.0, -2.0, -2 / 3, 0.0, 0.0])


def test_tracking_ends_at_the_quantiles_of_fixed_draws():
    draws = np.random.default_rng(0).uniform(0, 5, 1000)
    for level in (0.2, 0.8):
        for start in (-3.0, 8.0):
            q = start
            for _ in range(5000):
                q = tracked(q, draws, level=level, rate=0.01)
            assert q == pytest.approx(np.quantile(draws, level), abs=0.05)


def test_between_two_scores_the_estimate_rests():
    scores = np.array([1.0, 2, 3, 4, 5])
    for q in (1.0001, 1.5, 2.0):  # one of five is below: the share is the level
        assert tracked(q, scores, level=0.2, rate=0.1) == q
    assert tracked(1.0, scores, level=0.2, rate=0.1) == pytest.approx(1.02)
    assert tracked(2.1, scores, level=0.2, rate=0.1) == pytest.approx(2.08)


def test_bundles_have_more_scores_than_questions():
    draw = np.random.default_rng(1)
    rewards = draw.integers(0, 2, (5, 400)).astype(float)
    assert set(paper_scores(rewards[:1], size=1)) == {0.0, 1.0}
    assert set(paper_scores(list(rewards), size=5)) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}


def test_scores_of_papers():
    first, second = np.array([1.0, 0, 1]), np.array([1.0, 1])
    assert paper_scores([first, second], size=2).tolist() == [2, 1]  # the third answer has no partner
    assert paper_scores([first, second], size=5).tolist() == [5, 2.5]


def test_a_bundle_by_hand():
    # scores 3, 0 of papers (1, 1, 1) and (0, 0, 0): A = 4/3 and -3 over the sample's deviation 3 / sqrt 2
    rows, after = assigned(FREE(bundle=3), [1, 0], [1, 0], [1, 0])
    size = 3 / math.sqrt(2)
    assert rows == [[pytest.approx(4 / 3 / size), pytest.approx(-3 / size)]] * 3
    # half of the scores are below 1 and all below 4: 1 + .1 (.2 - .5), 4 + .1 (.8 - 1)
    assert after["quantiles"] == pytest.approx([0.97, 3.98])


def test_the_recipe_lowers_the_range():
    # score 3 is 1 below the high quantile: v = -1 / .6, A = -2/3; score 0: u = -5 and v = -5, A = -5
    rows, _ = assigned(risk_po.credit, [1, 0], [1, 0], [1, 0], [0, 0], [0, 0])
    size = 3 / math.sqrt(2)
    assert rows == [[pytest.approx(-2 / 3 / size), pytest.approx(-5 / size)]] * 5


def test_the_first_batch_sets_the_quantiles():
    rule = FREE(bundle=1, scale="none", low=0.25, high=0.75)
    _, after = assigned(rule, [0, 1, 2, 3, 4], state=rule.start())
    assert after["quantiles"] == [1.0, 3.0]
    rows, _ = assigned(rule, [0, 1, 2, 3, 4], state=rule.start())
    # tail -4 * 1.5 / 2.5, range (0, 1, 2, 2) / .5 / 2.5
    assert rows == [pytest.approx([-2.4, 0.0, 0.8, 1.6, 1.6])]


def test_a_constant_bundle_and_a_single_paper_are_not_divided():
    rows, _ = assigned(FREE(bundle=2), [0, 0], [0, 0])
    assert rows == [[-3.0, -3.0]] * 2
    rows, _ = assigned(FREE(bundle=2), [0], [0])
    assert rows == [[-3.0]] * 2
    assert deviation(np.array([1.0, 3.0]), "population") == 1.0
    assert deviation(np.array([0.0, 0.0]), "sample") == 1.0


def test_the_last_bundle_is_scaled_and_a_surplus_answer_has_no_advantage():
    # the third question alone: its reward 1 counts as 2, and (2 - 1) / .6 / 2.5 = 2/3
    rows, _ = assigned(FREE(bundle=2, scale="none"), [1, 0, 1], [1, 0], [1, 0])
    assert rows == [pytest.approx([2 / 3, -3.0, 0.0]), pytest.approx([2 / 3, -3.0]), pytest.approx([2 / 3, -3.0])]


def test_shares_of_a_paper():
    gains, spreads = np.array([0.5, -0.25, 0.25]), np.array([1.0, 0.5, 2.0])
    assert shares(2.0, gains, spreads, share="uniform").tolist() == [2, 2, 2]
    assert shares(2.0, gains, spreads, share="distance") == pytest.approx([2, -1, 1])
    assert shares(2.0, np.array([0.5, -0.5]), spreads[:2], share="distance").tolist() == [1, 1]
    assert shares(2.0, gains, spreads, share="deviation").tolist() == [2, 4, 1]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        # paper (1, 0), score 1, A = 0; paper (0, 0), score 0, A = -3; question means .5 and 0, deviations 1/sqrt 2 and 1 (constant)
        ("distance", [[0.0, -3.0], [0.0, 0.0]]),
        ("deviation", [[0.0, -3 * math.sqrt(2)], [0.0, -3.0]]),
    ],
)
def test_shares_within_a_bundle(share, expected):
    rows, _ = assigned(FREE(bundle=2, scale="none", share=share), [1, 0], [0, 0])
    assert rows == [pytest.approx(row) for row in expected]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0, 3), st.booleans())
def test_loss_and_gradient_against_a_slow_loop(seed, bundle, tail, lowered):
    draw = np.random.default_rng(seed)
    rewards = draw.integers(0, 2, (5, 4)).astype(float)
    rule = BundledRisk(bundle=bundle, tail=tail, lowered=lowered, rate=0.3)
    state = {"quantiles": [0.5, 1.25]}
    rows, after = rule.assign([toy_group(*r) for r in rewards], {}, state)
    due, everything = np.zeros((5, 4)), []
    for at in range(0, 5, bundle):
        mine = range(at, min(at + bundle, 5))
        scores = [sum(rewards[q][g] for q in mine) * bundle / len(mine) for g in range(4)]
        everything += scores
        mean = sum(scores) / 4
        size = math.sqrt(sum((s - mean) ** 2 for s in scores) / 3) or 1.0
        for g, s in enumerate(scores):
            u = -max(0.5 - s, 0) / 0.2
            v = (min(max(s, 0.5), 1.25) - (1.25 if lowered else 0.5)) / 0.6
            for q in mine:
                due[q][g] = (tail * u + v) / (tail + 1) / size
    found = [[c.advantages[0] for c in row] for row in rows]
    np.testing.assert_allclose(found, due, rtol=1e-10, atol=1e-12)
    below = [sum(s < q for s in everything) / len(everything) for q in (0.5, 1.25)]
    assert after["quantiles"] == pytest.approx([0.5 + 0.3 * (0.2 - below[0]), 1.25 + 0.3 * (0.8 - below[1])])
    # the objective: one ratio per answer, clipped, averaged over answers; at ratio 1 the slope of a token is -A / (answers * tokens)
    batch = toy_batch(*[toy_group(*r) for r in rewards], advantages=due.ravel())
    logprobs = torch.zeros(batch.actions, dtype=torch.float64, requires_grad=True)
    evaluate(risk_po.objective, {LogProb(): logprobs}, batch)[0].backward()
    assert_close(logprobs.grad, -torch.tensor(np.repeat(due.ravel(), 2)) / 40, rtol=1e-10, atol=1e-12)


def test_the_ratio_is_that_of_the_answer():
    # ratios 1.3 and 1 of two tokens: sqrt(1.3) = 1.14 is within the clip, which a ratio per token would not be; 1.3 and 1.3: 1.3 is not
    batch = replace(toy_batch(toy_group(1, 1), advantages=[1.0, 1.0]), old={LogProb(): torch.zeros(4, dtype=torch.float64)})
    rows = torch.tensor([math.log(1.3), 0.0, math.log(1.3), math.log(1.3)], dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(risk_po.objective, {LogProb(): rows}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(-(math.sqrt(1.3) + 1.2) / 2)
    assert rows.grad.tolist() == pytest.approx([-math.sqrt(1.3) / 4, -math.sqrt(1.3) / 4, 0.0, 0.0])


def test_between_the_levels_0_and_1_it_is_the_mean_reward():
    mean = risk_po.but(credit=MEAN)
    base = risk_po.but(credit=BatchBaseline("none"))
    check_same_update(mean, base, prompts=8, group=8)
    check_different_update(risk_po, base, prompts=8, group=8)


def test_without_its_differences_it_is_grpo():
    assert {c.split(".")[0] for c in changes(grpo, risk_po)} == {"credit", "objective", "players", "update"}
    plain = risk_po.but(credit=grpo.credit, objective__policy=grpo.objective["policy"], update=grpo.update)
    check_same_update(plain, grpo.but(objective__kl=None, players__reference=None))


def test_the_quantiles_move_over_the_run():
    seen = []
    train_toy(risk_po, steps=4, prompts=10, group=8, watch=lambda run, metrics, groups: seen.append(list(run.memory.states["credit"]["state"]["quantiles"])))
    assert all(low < high for low, high in seen)
    assert seen[0] != seen[1] != seen[2]
    assert max(abs(a - b) for one, other in pairwise(seen) for a, b in zip(one, other, strict=True)) <= 0.1  # at most the rate


def test_four_updates_of_a_batch_meet_the_clip():
    check_bound_acts(risk_po, updates=4, prompts=10, group=8)


@pytest.mark.nightly
def test_it_learns():
    check_learns(risk_po, steps=60, prompts=10)


def test_micro_batches():
    check_micro_batches(risk_po)


def test_a_step_without_groups_keeps_the_state():
    assert BundledRisk().assign([], {}, KNOWN) == ([], KNOWN)


def test_levels_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match=r"BundledRisk.low is 0.8, which is not below BundledRisk.high \(0.8\); set `low` to a number below 0.8"):
        BundledRisk(low=0.8)
    with pytest.raises(UserError, match=r"BundledRisk.low is 0, so no score is in the lower tail, but `tail` \(the weight of such scores\) is 1.5"):
        BundledRisk(low=0.0)
    with pytest.raises(UserError, match=r"BundledRisk.bundle is 0"):
        BundledRisk(bundle=0)
