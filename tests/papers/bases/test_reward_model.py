"""Reward model: the loss by hand, what learns from whom, its limit, and that it orders answers it has not seen."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest
import torch

from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.reward_model import reward_model
from gradus.study.pair_accuracy import PairAccuracy
from gradus.testing.methods import (
    TOY,
    ToySource,
    check_different_update,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
    toy_run,
    train_toy,
    trained_trajectories,
)
from gradus.types import Frozen
from gradus.types.signals import Value

# the toy's values see one token alone: what is right must be told by the last letter
LAST = replace(TOY, verify=lambda problem, completion: float(completion.endswith(("b", "d", "f"))))


class EndingPairs(ToySource):
    """The better answer ends in b, the worse one in c."""

    def draw(self, indices, level, key):
        return [replace(p, meta=Frozen(chosen="cb", rejected="bbc")) for p in super().draw(indices, level, key)]


GIVEN = replace(TOY, source=EndingPairs())


def test_loss_and_gradient_by_hand():
    # scores 1 and 0 (the values before the last actions): log(1 + exp(-1)), slope sigmoid(-1)
    loss, slopes, metrics = loss_and_gradient(reward_model.objective, [toy_group(1, 0, lengths=[2, 1])], [7.0, 1.0, 0.0], want=Value())
    assert loss == pytest.approx(math.log(1 + math.exp(-1)))
    push = 1 / (1 + math.e)
    assert slopes == pytest.approx([0, -push, push])
    assert metrics["pair_accuracy"] == 1.0


def test_the_head_learns_from_the_samplers_answers_and_the_sampler_stays():
    seen = []
    run = train_toy(reward_model, steps=3, watch=lambda run, metrics, groups: seen.append(groups))
    assert {t.player for groups in seen for g in groups for t in g.trajectories} == {"sampler"}
    for groups in seen:
        for g, kept in zip(groups, trained_trajectories(groups), strict=True):
            assert len(kept) == (len(g.trajectories) if len(set(g.rewards)) > 1 else 0)
    start = toy_run(reward_model).players["sampler"].policy.network
    assert torch.equal(run.players["sampler"].policy.network.logits, start.logits)
    assert torch.equal(run.players["policy"].policy.network.logits, start.logits)  # nothing reads them
    assert not torch.equal(run.players["policy"].policy.network.values, start.values)


def test_given_pairs_are_learned_without_sampling():
    seen = steps_of(reward_model, task=GIVEN, steps=40)
    assert "tokens/rollout" not in seen[0][0]
    assert seen[-1][0]["loss/given"] < 0.5 * seen[0][0]["loss/given"]


def accuracy(steps, **options):
    run = train_toy(reward_model, steps=steps, task=LAST, **options)
    world = run.world(run.recipe, "evaluate")
    return asyncio.run(PairAccuracy(problems=32).measure(run, run.recipe, world))


def test_it_orders_answers_that_it_was_not_trained_on():
    before, after = (accuracy(steps, prompts=8, group=8) for steps in (0, 60))
    assert after["held_out/accuracy"] > max(before["held_out/accuracy"], 0.5) + 0.15
    assert after["held_out/picked"] > after["held_out/reward"] + 0.03


def test_without_its_differences_it_is_dpo():
    back = {name: getattr(dpo, name) for name in ("rollout", "selection", "objective", "players", "study")}
    check_same_update(reward_model.but(**back), dpo)
    check_different_update(reward_model, dpo)


def test_gradient_does_not_depend_on_the_micro_batch_where_pairs_are_given():
    check_micro_batches(reward_model, task=GIVEN)
