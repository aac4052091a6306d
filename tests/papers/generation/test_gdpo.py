"""GDPO: the sequence's ratio on the quadrature, its variance on the built-in model, equal masks, and its base at the limit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative, group_relative
from gradus.objectives.denoised import DenoisedPolicy
from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.generation.coupled_grpo import DenoisedKL
from gradus.papers.generation.gdpo import gdpo
from gradus.recipe.core import changes
from gradus.testing.methods import masked_ask, steps_of, toy_batch, toy_group, toy_masked, train_toy
from gradus.types import Key
from gradus.types.masks import Denoised, Quadrature, RandomLevels, Unmask
from gradus.types.players import Copy, Player
from gradus.updates.minibatches import Minibatches
from tests.papers.generation.test_coupled_grpo import built_in_answer, sums


def test_its_changes():
    assert set(changes(grpo, gdpo)) == {"rollout", "credit.scale", "objective.policy", "objective.kl", "players.reference", "update.epochs"}
    assert gdpo.objective["policy"] == DenoisedPolicy(Quadrature(3), SequenceRatio(), Clip(0.5, 0.5))
    assert (gdpo.rollout.how, gdpo.update) == (Unmask("confidence"), Minibatches(epochs=12))
    assert gdpo.credit == GroupRelative(scale="none")
    assert group_relative(np.array([1.0, 0.0, 0.0, 1.0]), scale="none").tolist() == [0.5, -0.5, -0.5, 0.5]


def test_the_sequence_ratio_by_hand():
    # answers of n tokens (the toy group's length), over K = 3 passes L_new - L_old = 0.6 n of the first and 0 of the second: rho = exp(0.6) = 1.822
    # and 1. The first has A = 1 and is clipped to 1.5, the second A = -1: loss = (-1.5 + 1) / 2 = -0.25. Unclipped it were -0.411.
    want, batch = Denoised(Quadrature(3)), toy_batch(toy_group(1, 0), advantages=[1.0, -1.0])
    length = int(batch.in_trajectory[0])
    rows = torch.zeros(batch.actions, 3, dtype=torch.float64)
    rows[0] = torch.tensor([0.1, 0.2, 0.3]) * length
    loss, metrics = gdpo.objective["policy"].loss({want: rows}, replace(batch, old={want: torch.zeros_like(rows)}))
    rho = math.exp(0.6)
    assert metrics["ratio"].mean == pytest.approx((rho * length + (batch.actions - length)) / batch.actions)
    assert loss.item() == pytest.approx(-0.25)
    # the mean over answers, not over tokens: half the change leaves the first unclipped, exp(0.3) = 1.34986
    half, _ = gdpo.objective["policy"].loss({want: rows / 2}, replace(batch, old={want: torch.zeros_like(rows)}))
    assert half.item() == pytest.approx((-1.34986 + 1.0) / 2, abs=1e-5)


def test_unchanged_weights_have_the_ratio_one_exactly():
    model, want = toy_masked(), Denoised(Quadrature(3))
    contexts = model.act([masked_ask("p", i) for i in range(4)])
    new, old = (policy.evaluate(contexts, (want,), Key(2))[want].sum(-1) for policy in (model, model.clone()))
    assert torch.equal(new, old)


@pytest.mark.nightly
def test_the_variance_is_below_that_of_random_levels_at_equal_passes():
    # the paper's schemes are lower still; on this model about 0.6 of it, not a third: most of the variance here is that of the masks
    model, contexts = built_in_answer()
    ours, theirs = (sums(model, contexts, masks) for masks in (Quadrature(3), RandomLevels(3)))
    assert np.var(ours) <= 0.8 * np.var(theirs)
    assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=4 * np.sqrt((np.var(ours) + np.var(theirs)) / 200))  # four standard errors


def test_without_a_step_every_update_has_the_ratio_one_and_no_kl():
    # twelve updates, each with masks of its own: the start of the update and the reference are read on the same ones
    kl = DenoisedKL(Quadrature(3), 0.01, ratio=SequenceRatio(), moves=12)
    still = gdpo.but(objective__kl=kl, players__reference=Player(Copy("policy")))
    ((metrics, _),) = steps_of(still, steps=1, learning_rate=0.0)
    assert metrics["ratio"] == 1.0
    assert metrics["kl"] == 0.0
    assert train_toy(gdpo, steps=1).players["policy"].updates == 12


def test_the_ratio_moves_after_the_first_update_and_the_clip_acts():
    seen = steps_of(gdpo.but(optimizer__clip=None), steps=3, learning_rate=0.3)
    assert any(abs(metrics["ratio"] - 1) > 1e-4 for metrics, _ in seen)
    assert any(metrics["clip_share"] > 0 for metrics, _ in seen)
