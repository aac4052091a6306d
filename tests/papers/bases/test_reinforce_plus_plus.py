"""REINFORCE++: returns with their penalty by plain loops, its variant with a baseline from the command line, its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.credit.groups import BatchBaseline
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.kl import KL
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.recipe.overrides import override_all
from gradus.testing.methods import (
    advantages_of,
    check_bound_acts,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    toy_group,
    toy_run,
    train_toy,
    weights_after,
)
from gradus.training.launch import go
from gradus.types.signals import LogProbs

REFERENCE = LogProbs(player="reference")
WITH_BASELINE = override_all(
    reinforce_plus_plus,
    [("credit", "RewardToGo"), ("credit.baseline", "group"), ("objective.kl", "KL"), ("objective.kl.estimator", "k2")],
)


def test_advantages_equal_plain_loops():
    rng = np.random.default_rng(5)
    groups = [toy_group(1, 0, lengths=[2, 3], key="a"), toy_group(0.5, lengths=[4], key="b")]
    signals = {s: {t.id: rng.normal(size=t.actions) for g in groups for t in g.trajectories} for s in (LogProbs(), REFERENCE)}
    tokens = []
    for t in (t for g in groups for t in g.trajectories):
        for start in range(t.actions):
            spent = sum(signals[LogProbs()][t.id][s] - signals[REFERENCE][t.id][s] for s in range(start, t.actions))
            tokens.append(t.value - 0.01 * spent)
    mean = sum(tokens) / len(tokens)
    deviation = math.sqrt(sum((a - mean) ** 2 for a in tokens) / len(tokens))
    found = [a for g in advantages_of(reinforce_plus_plus.credit, *groups, signals=signals) for row in g for a in row]
    np.testing.assert_allclose(found, [(a - mean) / deviation for a in tokens], rtol=1e-9)


def test_the_variant_with_a_baseline_is_said_by_fields():
    assert WITH_BASELINE.credit == RewardToGo(baseline="group")
    assert WITH_BASELINE.objective["kl"] == KL(estimator="k2")
    # groups 1 0 and 1 1: centred .5 -.5 0 0 over tokens of equal number, deviation sqrt(1/8)
    found = advantages_of(WITH_BASELINE.credit, toy_group(1, 0), toy_group(1, 1, key="b"))
    np.testing.assert_allclose(found[0], [[math.sqrt(2)] * 2, [-math.sqrt(2)] * 2])
    assert found[1] == [[0, 0], [0, 0]]


def test_without_its_differences_it_is_reinforce():
    plain = reinforce_plus_plus.but(
        credit=BatchBaseline(),
        objective__policy__trust=Unclipped(),
        objective__policy__average=SequenceSum(),
        players__reference=None,
        update__count=1,
    )
    check_same_update(plain, reinforce)
    check_different_update(reinforce_plus_plus, reinforce)
    check_different_update(reinforce_plus_plus, reinforce_plus_plus.but(credit=RewardToGo()))


def test_it_is_ppo_with_a_critic_that_says_nothing():
    blind = toy_run(ppo.but(credit__rule__lam=1.0, credit__coefficient=0.01, players__critic__optimizer=None, players__critic__objective=None))
    with torch.no_grad():
        blind.players["critic"].policy.network.values.zero_()
    ours = train_toy(reinforce_plus_plus.but(update=ppo.update))
    found, expected = (r.players["policy"].policy.network.logits for r in (ours, go(blind)))
    assert torch.allclose(found, expected, rtol=0, atol=1e-9)


def test_eight_updates_of_a_batch_and_the_clip_acts():
    check_bound_acts(reinforce_plus_plus, updates=8)


def test_no_cut_changes_it():
    check_micro_batches(WITH_BASELINE)


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", [reinforce_plus_plus, WITH_BASELINE], ids=["one", "baseline"])
def test_it_learns(recipe):
    check_learns(recipe)


def test_one_sample_a_problem_is_enough():
    check_learns(reinforce_plus_plus, group=1, prompts=32)
    assert all(torch.isfinite(w).all() for w in weights_after(reinforce_plus_plus, group=1).values())
