"""QeRL: the numbers of the paper, the loss by hand, samples of the noisy copy on codes of 4 bits, its limit."""

from __future__ import annotations

import math

import pytest
import torch

import gradus
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.qerl import qerl
from gradus.players.noise import norms
from gradus.policies.quantised import Quantised
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.testing.methods import check_different_update, check_same_update, loss_and_gradient, toy_trajectory
from gradus.types import Group
from gradus.types.players import Adapter, Lagged, Noisy, Player
from tests.small_model import save_small_model

BASE = grpo.but(
    objective__kl=None,
    players__reference=None,
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=Clip(0.2, 0.28),
    update__count=4,
    rollout=BehaviourPolicy("sampler"),  # the name of the player is a part of the key of its draws
    players__policy=Player(learns_from="sampler"),
    players__sampler=Player(Lagged(updates=0)),  # a copy without noise
)
SMALL = {"setting__prompts": 2, "setting__group": 4, "setting__max_tokens": 6, "setting__eval_every": 0, "setting__learning_rate": 1e-3, "study": None}


def test_the_numbers_of_the_paper():
    model, copy, clip = qerl.players["policy"].model, qerl.players["sampler"].model, qerl.objective["policy"].trust
    assert (model.rank, model.alpha, model.bits, clip.low, clip.high, qerl.update.count) == (16, 16.0, "nvfp4", 0.2, 0.28, 4)
    sigmas = [copy.sigma_at(step, 600) for step in (0, 59, 60, 119, 300, 599)]  # 600 steps, ten stages of 60
    assert sigmas == pytest.approx([0, 0, 0.01, 0.01, 0.001, 0.0001])
    assert set(qerl.objective) == {"policy"}  # no KL, no entropy


def test_the_ratio_is_to_the_copy_that_sampled():
    answers = Group("g", tuple(toy_trajectory([2] * 2, name=str(i), logprobs=[-1.0, -1.0]) for i in range(2)))
    now = [-0.8, -0.5, -1.3, -1.1]
    loss, slopes, metrics = loss_and_gradient(qerl.objective, [answers], now, advantages=[1, -1])
    up, high, low, down = (math.exp(value + 1.0) for value in now)  # 1.221, 1.649, 0.741, 0.905
    assert loss == pytest.approx(-(up + 1.28) / 4 + (0.8 + down) / 4)
    assert slopes == pytest.approx([-up / 4, 0, 0, down / 4], abs=1e-12)
    assert metrics["ratio"] == pytest.approx((up + high + low + down) / 4)


def test_the_copy_has_noise_and_the_same_codes_and_the_policy_stays_clean(tmp_path):
    made = qerl.but(players__sampler__model=Noisy("policy", sigma_start=0.5, sigma_end=0.5, stages=3))
    run = gradus.train(made, "arithmetic", model=str(save_small_model(tmp_path / "model")), steps=3, **SMALL)
    mine, theirs = (run.players[name].policy for name in ("policy", "sampler"))
    start = gradus.train(made, "arithmetic", model=str(tmp_path / "model"), steps=0, **SMALL).players["policy"].policy
    before = norms(start.network)
    assert all(torch.equal(weight, before[name]) for name, weight in norms(mine.network).items())  # the trainer's norms never move
    assert not any(torch.equal(weight, before[name]) for name, weight in norms(theirs.network).items())
    codes = [[m.codes for m in p.network.modules() if isinstance(m, Quantised)] for p in (start, mine, theirs)]
    assert len(codes[0]) == 14
    assert all(torch.equal(one, two) and torch.equal(one, three) for one, two, three in zip(*codes, strict=True))


def test_answers_are_sampled_by_the_noisy_copy_and_learned_from_by_the_clean_policy(tmp_path):
    apart = {}

    def watch(run, row, groups):
        apart[row["step"]] = row["ratio"]

    made = qerl.but(players__sampler__model=Noisy("policy", sigma_start=0.5, sigma_end=0.5, stages=2), update__count=1)
    gradus.train(made, "arithmetic", model=str(save_small_model(tmp_path / "model")), steps=2, on_step=watch, **SMALL)
    assert apart[0] == pytest.approx(1.0, abs=1e-4)  # the first stage has no noise, and a single update
    assert abs(apart[1] - 1.0) > 1e-3


def test_without_its_differences_it_trains_to_the_weights_of_grpo():
    check_same_update(qerl, BASE, steps=3)  # toys have no norms and no layers to quantise
    check_different_update(qerl.but(update__count=1), BASE, steps=3)


def test_without_bits_and_noise_a_run_ends_with_the_weights_of_grpo_with_an_adapter(tmp_path):
    model = str(save_small_model(tmp_path / "model"))
    own = qerl.but(players__policy__model=Adapter(rank=16, alpha=16.0), players__sampler__model__sigma_start=0.0)
    base = BASE.but(players__policy__model=Adapter(rank=16, alpha=16.0))
    ours, theirs = (gradus.train(r, "arithmetic", model=model, steps=2, **SMALL).players["policy"].policy.network.state_dict() for r in (own, base))
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
