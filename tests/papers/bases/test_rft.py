"""RFT: what is imitated and whose answers they are, the likelihood by hand, plain loops for a step, its limit."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.best_of_n import best_of_n
from gradus.papers.bases.rft import rft
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Best
from gradus.testing.methods import (
    check_different_update,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
    toy_run,
    train_toy,
    trained_trajectories,
    weights_after,
)
from gradus.types.players import Player


def test_loss_and_gradient_by_hand():
    # right answers of 1 and of 2 tokens, alike to others: (log 2 + log 4 + log 8) / 3 over the three tokens
    kept, _ = rft.selection.keep(
        [toy_group(0, 1, 1, lengths=[1, 1, 2], key="a"), toy_group(0, 0, key="b"), toy_group(1, 1, lengths=[2, 2], key="c")], None
    )
    assert [[t.id for t in g.trajectories] for g in kept] == [["a/1", "a/2"], ["c/0"]]
    loss, slopes, _ = loss_and_gradient(rft.objective, kept[:1], np.log([1 / 2, 1 / 4, 1 / 8]))
    assert loss == pytest.approx(2 * math.log(2))
    assert slopes == pytest.approx([-1 / 3] * 3)


def test_right_answers_that_differ_are_trained_on_and_no_other():
    for _, groups in steps_of(rft, steps=3, group=8):
        for g, kept in zip(groups, trained_trajectories(groups), strict=True):
            seen = {t.contexts[0].tokens.tobytes(): t.id for t in reversed(g.trajectories) if t.right}
            assert sorted(t.id for t in kept) == sorted(seen.values())


def test_one_step_is_the_mean_likelihood_of_the_kept_answers():
    seen = steps_of(rft, steps=1)
    start = toy_run(rft).players["policy"].policy.network.logits.detach()
    rows = [
        (int(context.sequence[at - 1]), int(context.sequence[at]))
        for kept in trained_trajectories(seen[0][1])
        for context in (t.contexts[0] for t in kept)
        for at in context.action_positions
    ]
    expected = start.clone()
    for before, token in rows:
        expected[before] -= torch.softmax(start[before], -1) / len(rows)
        expected[before, token] += 1 / len(rows)
    assert_close(weights_after(rft)["policy.logits"], expected, rtol=0, atol=1e-12)


def test_answers_are_those_of_the_start_model_at_every_step():
    seen = steps_of(rft, steps=3)
    other = steps_of(rft, steps=3, learning_rate=0.0)
    for (_, ours), (_, theirs) in zip(seen, other, strict=True):
        for a, b in zip((t for g in ours for t in g.trajectories), (t for g in theirs for t in g.trajectories), strict=True):
            assert a.player == "start"
            assert np.array_equal(a.contexts[0].tokens, b.contexts[0].tokens)
            assert not a.contexts[0].versions.any()
    run = train_toy(rft)
    assert [run.players[n].updates for n in ("policy", "start")] == [2, 0]


def test_without_its_differences_it_is_best_of_n():
    check_same_update(rft.but(rollout=Auto(), selection=Best(1), players__policy=None, players__start=None), best_of_n)
    check_different_update(rft, best_of_n)


def test_with_the_policy_as_sampler_it_is_best_of_n_over_all_right_answers():
    ours = rft.but(rollout=Auto(), players__policy=Player())
    check_same_update(ours, best_of_n.but(selection=rft.selection))


def test_the_policys_own_answers_get_better():
    def accuracy(steps):
        run = train_toy(rft, steps=steps, prompts=8, group=8)
        world = run.at(99)[1]

        async def answers():
            return await Auto().run(await world.more(32), world)

        return np.mean([t.value for g in asyncio.run(answers()) for t in g.trajectories])

    assert accuracy(60) > accuracy(0) + 0.08
