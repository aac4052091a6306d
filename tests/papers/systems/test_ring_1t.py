"""Ring-1T: the masked loss by hand, the length in its divisor, GRPO at the limits, and runs over several steps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.ring_1t import ring_1t
from gradus.recipe.core import changes
from gradus.rollouts.auto import Auto
from gradus.rollouts.budgeted_slots import BudgetedSlots
from gradus.rollouts.ruled import Ruled
from gradus.rollouts.token_rules import Rounded
from gradus.testing.methods import check_different_update, check_resumes, check_same_update, toy_batch, toy_group, train_toy, weights_after
from gradus.types.signals import LogProb

UNLIMITED = BudgetedSlots(tokens=100_000, slots=None)


def slopes(ks, advantages, lengths, ratios=None):
    """The loss and its gradient by the log-probabilities: p_old = 0.1 for every token, q = p_old / k, and pi = ratio * p_old."""
    old = torch.full((len(ks),), math.log(0.1), dtype=torch.float64)
    made = toy_batch(toy_group(*[1.0] * len(lengths), lengths=lengths), advantages=advantages)
    made = replace(made, behaviour_logprobs=old - torch.tensor(ks, dtype=torch.float64).log(), old={LogProb(): old})
    logprobs = (old + torch.tensor(ratios or [1.0] * len(ks), dtype=torch.float64).log()).requires_grad_()
    loss, _ = evaluate(ring_1t.objective, {LogProb(): logprobs}, made)
    loss.backward()
    return loss.item(), logprobs.grad.tolist()


def test_tokens_outside_the_band_have_no_gradient_but_count_in_the_length():
    # answers of 5 and 1 tokens, A = 1 and -1: the coefficients are 1/2 * 1/5 and 1/2 * 1
    loss, gradient = slopes([0.3, 0.6, 1.2, 4.9, 7.0, 2.0], [1.0, -1.0], [5, 1])
    assert gradient == pytest.approx([0, -0.06, -0.12, -0.49, 0, 1.0])
    assert gradient[0] == gradient[4] == 0
    assert loss == pytest.approx(-(0.6 + 1.2 + 4.9) / 10 + 1.0)


def test_the_clip_compares_with_the_training_engine():
    # ratios 1.3 and 0.7 are clipped for A > 0 and A < 0 whatever k is; 1.25 is below 1.28
    loss, gradient = slopes([1.0, 2.0, 2.0], [1.0, -1.0, 1.0], [1, 1, 1], [1.3, 0.7, 1.25])
    assert gradient == pytest.approx([0, 0, -2.5 / 3])
    assert loss == pytest.approx((-1.28 + 2 * 0.8 - 2.5) / 3)


def test_at_equal_probabilities_and_without_a_budget_it_is_grpo_without_kl():
    base = grpo.but(
        objective__kl=None, players__reference=None, update__count=2, objective__policy__trust=ring_1t.objective["policy"].trust
    )
    bare = ring_1t.but(rollout=UNLIMITED, objective__policy__weight=None)
    check_same_update(bare, base)
    ours, theirs = (weights_after(r, steps=1)["policy.logits"] for r in (ring_1t.but(rollout=Auto()), base))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)  # k is 1 up to the rounding of stored log-probabilities
    check_different_update(
        ring_1t.but(rollout=Ruled(Rounded(2.0))), ring_1t.but(rollout=Ruled(Rounded(2.0)), objective__policy__weight=None)
    )


def test_a_run_continues_answers_and_is_resumed_alike():
    small, seen = ring_1t.but(rollout=BudgetedSlots(6, 3), setting__prompts=4, setting__group=2), []
    train_toy(small, steps=12, watch=lambda run, metrics, groups: seen.append(metrics))
    assert max(m["in_flight"] for m in seen) > 0
    assert max(m.get("versions", 0) for m in seen) > 1
    assert all(m["tokens/rollout"] < 9 for m in seen)
    check_resumes(small, steps=4, after=2)


def test_the_budget_works_under_an_engine_of_low_precision():
    noisy = ring_1t.but(rollout=Ruled(Rounded(1.0), BudgetedSlots(6, 3), only_training=True))
    check_resumes(noisy, steps=4, after=2)


@pytest.mark.parametrize("micro", [1, 7])
def test_the_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(ring_1t, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-10)


def test_what_it_changes():
    paths = {"rollout", "objective.policy.trust.high", "objective.policy.weight", "objective.kl", "players.reference", "update.count"}
    assert set(changes(grpo, ring_1t)) == paths
    assert ring_1t.objective["policy"].weight == MaskedImportance(cap=5.0, floor=0.5)
    assert ring_1t.rollout == BudgetedSlots(1024, 64, 5)
