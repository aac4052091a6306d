"""SPEC-RL: what it changes, GRPO at lenience 0, resumed runs, micro-batches, fewer generated tokens."""

from __future__ import annotations

import math

import pytest
import torch

from gradus.curricula.dissimilar import CuratedClique
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.spec_rl import spec_rl
from gradus.recipe.core import changes
from gradus.rollouts.drafts import EarlierAnswers
from gradus.testing.methods import check_different_update, check_resumes, check_same_update, steps_of, weights_after

RECURRING = CuratedClique(pool=4, threshold=2, orders=1)
OURS, BASE = spec_rl.but(curriculum=RECURRING), grpo.but(curriculum=RECURRING)


def test_what_it_changes():
    assert set(changes(grpo, spec_rl)) == {"rollout"}
    assert spec_rl.rollout == EarlierAnswers(math.exp(0.5), residual=False)


def test_at_lenience_0_it_is_grpo():
    check_same_update(OURS.but(rollout__lenience=0.0), BASE, steps=3)
    check_different_update(OURS, BASE, steps=3)


def test_problems_that_do_not_come_again_leave_grpo():
    check_same_update(spec_rl, grpo, steps=3)


@pytest.mark.parametrize("residual", [False, True])
def test_a_run_that_is_resumed_ends_at_the_same_weights(residual):
    check_resumes(OURS.but(rollout__residual=residual), steps=4, after=2)


def test_the_gradient_does_not_depend_on_the_micro_batch():
    whole, cut = (weights_after(OURS, micro=m, steps=3)["policy.logits"] for m in (None, 3))
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-6)


def test_it_generates_fewer_tokens_from_the_second_pass_on():
    ours, base = ([m.get("tokens/rollout", 0) for m, _ in steps_of(r, steps=5)] for r in (OURS, BASE))
    assert ours[0] == base[0] > 0
    assert all(o < 0.6 * b for o, b in zip(ours[1:], base[1:], strict=True))
