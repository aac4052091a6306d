"""RAST: the sum of logits by hand, equal small models as the limit, frozen weights, recovery and coverage."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.search.rast import path_coverage, rast, recovery_rate
from gradus.rollouts.auto import Auto
from gradus.rollouts.ruled import Ruled
from gradus.rollouts.token_rules import Delta
from gradus.testing.methods import TOY, toy_run, train_toy
from gradus.types import Key, Request


def mixed(scale):
    rows = {"policy": torch.tensor([[1.0, 0.0, 0.0]]), "tuned": torch.tensor([[3.0, 4.0, 1.0]]), "small": torch.tensor([[3.0, 2.0, 1.0]])}
    return Delta("tuned", "small", scale).logits(rows, []).softmax(-1)[0].tolist()


def test_the_sum_by_hand() -> None:
    assert rast.search == Ruled(Delta("tuned", "small", 1.0, "policy"))
    assert mixed(1.0) == pytest.approx([0.2447, 0.6652, 0.0900], abs=5e-5)  # e, e^2 and 1, divided by their sum 11.107
    assert mixed(0.0) == torch.tensor([1.0, 0.0, 0.0]).softmax(-1).tolist()


def answers(run, part):
    world = run.at(0)[1]
    requests = [Request(p, count=6) for p in TOY.source.draw([0, 1, 2], None, Key())]
    return [[t.completion for t in g.trajectories] for g in asyncio.run(part.run(requests, world))]


def test_equal_small_models_change_no_sample() -> None:
    run = toy_run(rast)
    assert answers(run, rast.search) == answers(run, Auto())


def test_a_difference_changes_samples_and_scale_0_does_not() -> None:
    run = toy_run(rast)
    with torch.no_grad():
        run.players["tuned"].policy.network.logits[:, 5] += 4.0
    plain = answers(run, Auto())
    assert answers(run, rast.search) != plain
    assert answers(run, Ruled(Delta("tuned", "small", 0.0))) == plain


def test_no_player_learns() -> None:
    before = {name: player.policy.network.logits.clone() for name, player in toy_run(rast).players.items()}
    after = train_toy(rast, steps=3)
    assert set(before) == {"policy", "small", "tuned"}
    assert all(torch.equal(before[name], player.policy.network.logits) for name, player in after.players.items())


def test_evaluations_decode_with_the_difference() -> None:
    run = toy_run(rast)
    with torch.no_grad():
        run.players["tuned"].policy.network.logits[:, 5] += 4.0
    world = run.at(0)[1]
    requests = [Request(p, count=6) for p in TOY.source.draw([0, 1, 2], None, Key())]
    groups = asyncio.run(run.memory.answer(rast, requests, world))
    assert [[t.completion for t in g.trajectories] for g in groups] == answers(run, rast.search)


def test_recovery_and_coverage_by_hand() -> None:
    assert recovery_rate(0.6, 0.4, 0.8) == 0.5
    assert (recovery_rate(0.9, 0.4, 0.8), recovery_rate(0.3, 0.4, 0.8)) == (1.25, -0.25)
    assert recovery_rate(0.5, 0.4, 0.4) is None
    assert (path_coverage([1, 2, 3, 4], [1, 2, 9, 4]), path_coverage([], [])) == (0.75, 0.0)
