"""Process reward model: which places have labels, the loss by hand, its limit, exact labels, and that it orders unseen answers."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.step_values import StepChances
from gradus.papers.bases.process_reward_model import process_reward_model
from gradus.papers.bases.reward_model import reward_model
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.rollouts.values import MonteCarloValues
from gradus.study.pair_accuracy import PairAccuracy
from gradus.testing.methods import TOY, check_different_update, check_same_update, loss_and_gradient, toy_group, train_toy
from gradus.types import Frozen
from gradus.types.signals import Value
from gradus.types.spans import Separated

# the toy's values see one token alone: what is right must be told by the last letter
LAST = replace(TOY, verify=lambda problem, completion: float(completion.endswith(("b", "d", "f"))))
SHORT = process_reward_model.but(rollout=BehaviourPolicy("sampler", MonteCarloValues(marking=Separated(" "), count=4)))


def test_loss_by_hand():
    """Two steps of two actions with labels 1/2 and 1/4, verdict 1; scores 0, -, log 3, log 3: three labels, so the mean is over three."""
    (t,) = toy_group(1, lengths=[4]).trajectories
    context = replace(t.contexts[0], streams=Frozen(span=np.array([0, 0, 1, 1], np.int32), value=np.array([0.5, 0.5, 0.25, 0.25])))
    group = toy_group(1, lengths=[4]).but(trajectories=(t.but(contexts=(context,)),))
    ((found,),) = StepChances(last=True).assign([group], {})
    made = group.but(trajectories=(group.trajectories[0].but(returns=found.returns, weights=found.weights, advantages=found.advantages),))
    loss, slopes, _ = loss_and_gradient(process_reward_model.objective, [made], [0.0, 9.0, math.log(3), math.log(3)], want=Value())
    second = -(0.25 * math.log(0.75) + 0.75 * math.log(0.25))
    assert loss == pytest.approx((math.log(2) + second - math.log(0.75)) / 3, rel=1e-6)
    assert slopes == pytest.approx([0, 0, 0.5 / 3, -0.25 / 3], abs=1e-7)


def test_all_answers_teach_and_the_sampler_stays():
    seen = []
    run = train_toy(SHORT, steps=2, watch=lambda run, metrics, groups: seen.extend(groups))
    assert {t.player for g in seen for t in g.trajectories} == {"sampler"}
    assert all(t.trained for g in seen for t in g.trajectories)
    assert run.players["sampler"].updates == 0


def test_it_orders_answers_that_it_was_not_trained_on():
    def accuracy(steps):
        run = train_toy(SHORT, steps=steps, task=LAST, prompts=8, group=8)
        return asyncio.run(PairAccuracy(problems=32).measure(run, run.recipe, run.world(run.recipe, "evaluate")))["held_out/accuracy"]

    assert accuracy(40) > max(accuracy(0), 0.5) + 0.15


def test_without_its_differences_it_is_the_reward_model():
    back = {name: getattr(reward_model, name) for name in ("selection", "credit", "objective")}
    plain = BehaviourPolicy("sampler", DemonstratedPairs())
    check_same_update(process_reward_model.but(rollout=plain, **back), reward_model)
    check_different_update(process_reward_model, reward_model)
