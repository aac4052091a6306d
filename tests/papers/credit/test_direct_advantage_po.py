"""Direct Advantage Policy Optimization: targets, advantages and the squared loss by hand, its minimum, the rows of states, and who learns when."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import gradus
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Unclipped
from gradus.papers.credit.direct_advantage_po import CRITIC, StepStates, direct_advantage_po
from gradus.rewards.verified import Verified
from gradus.rollouts.step_candidates import LAST, STATE
from gradus.rollouts.values import MonteCarloValues
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import (
    REFERENCE,
    TOY,
    check_micro_batches,
    loss_and_gradient,
    scripted_world,
    toy_group,
    train_toy,
)
from gradus.testing.methods.tasks import TOY_STATES
from gradus.types import Frozen, Key, Request
from gradus.types.moments import Steps
from gradus.types.spans import Separated

FIT = direct_advantage_po.objective["policy"]
ONLY_FIT = direct_advantage_po.but(schedule=ConstantSchedule(), rollout__stop="b")


def fitted(log_ratio, advantage, *, beta):
    """Loss and gradient for one step of one token."""
    term = replace(FIT, beta=beta, coefficient=1 / (2 * beta**2))
    group = toy_group(0.0, lengths=[1])
    loss, gradient, _ = loss_and_gradient(
        {"fit": term}, [group], [log_ratio - 1], advantages=[advantage], signals={REFERENCE: {"g/0": [-1.0]}}
    )
    return loss, gradient[0]


def test_the_loss_by_hand():
    loss, slope = fitted(0.5, 0.2, beta=0.4)  # 1/2 (.5 - .2 / .4)^2
    assert loss == pytest.approx(0.0, abs=1e-12)
    assert slope == pytest.approx(0.0, abs=1e-12)
    loss, slope = fitted(0.0, 0.2, beta=0.4)
    assert loss == pytest.approx(0.125)
    assert slope == pytest.approx(-0.5)
    assert fitted(0.0, 0.2, beta=0.1)[0] == pytest.approx(2.0)  # the recipe's beta and coefficient
    assert pytest.approx(1 / (2 * FIT.beta**2)) == FIT.coefficient


def test_log_ratios_of_a_step_are_summed_over_its_tokens():
    group = toy_group(0.0, lengths=[2])
    loss, gradient, _ = loss_and_gradient(
        {"fit": FIT}, [group], [-0.8, -0.7], advantages=[0.05], signals={REFERENCE: {"g/0": [-1.0, -1.0]}}
    )
    assert loss == pytest.approx(0.0, abs=1e-12)  # .2 + .3 = .05 / .1
    assert gradient == pytest.approx([0, 0], abs=1e-12)


def test_the_gradient_at_the_start_is_the_policy_gradients_over_beta():
    groups, signals = [toy_group(0, 1, lengths=[2, 1])], {REFERENCE: {"g/0": [-1.0, -2.0], "g/1": [-0.5]}}
    rows, advantages = [-1.0, -2.0, -0.5], [0.3, -0.2]
    _, found, _ = loss_and_gradient({"fit": FIT}, groups, rows, advantages=advantages, signals=signals)
    plain = PolicyGradient(trust=Unclipped(), average=SequenceSum())
    _, base, _ = loss_and_gradient({"policy": plain}, groups, rows, advantages=advantages, signals=signals)
    assert found == pytest.approx([10 * slope for slope in base])


def test_the_minimum_over_distributions_is_near_the_tilted_one_and_not_equal_to_it():
    """x + lambda e^x = A / beta at the minimum: .4337 .3243 .2419 against .437 .324 .240; for larger A / beta they part."""
    for targets, due in (
        (torch.tensor([0.3, 0.0, -0.3]), [0.4337, 0.3243, 0.2419]),
        (torch.tensor([3.0, 0.0, -3.0]), [0.788, 0.196, 0.016]),
    ):
        logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logits], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-14)

        def loss(logits=logits, targets=targets, optimizer=optimizer):
            optimizer.zero_grad()
            found = ((logits.log_softmax(0) + math.log(3) - targets).square() / 2).mean()
            found.backward()
            return found

        optimizer.step(loss)
        assert_close(logits.detach().softmax(0), torch.tensor(due, dtype=torch.float64), rtol=0, atol=1e-3)
    assert_close(torch.tensor([0.3, 0.0, -0.3]).softmax(0), torch.tensor([0.437, 0.324, 0.240]), rtol=0, atol=1e-3)


def collected(answers, then):
    """The group of these answers with values of their steps. `then`(text before, number) is the text of a continuation; the letter b makes it right."""
    given, counted = iter(answers), {}

    def speak(ask):
        if "value" not in ask.request.tags:
            return next(given)
        counted[ask.at] = counted.get(ask.at, -1) + 1
        return then(ask.at - len(ask.parent.prefix), counted[ask.at])

    world, _ = scripted_world(TOY, speak, reward=Verified())
    request = Request(TOY.source.draw([0], None, Key())[0], count=len(answers))
    part = MonteCarloValues(marking=Separated(" "), count=4)
    return asyncio.run(part.run([request], world))[0], world


def test_rows_are_the_different_states_that_are_neither_solved_nor_lost():
    # the prompt: 2 of 4; after "a ": 3 of 4, reached twice; after "c ": always right
    group, world = collected(["a c", "a a", "c c"], lambda at, n: "b" if (at == 2 and n >= 4) or n < {0: 2, 2: 3}[at] else "c")
    rows = StepStates().rows([group])
    assert [world.text(np.array(row[STATE], np.int32)) for row in rows] == ["", "a "]
    assert {row["problem"].id for row in rows} == {group.trajectories[0].problem.id}
    assert len(StepStates(sure=True).rows([group])) == 3
    assert StepStates().rows([group.but(aside=True)]) == []


def test_the_policy_learns_from_samples_of_the_fixed_model_and_nobody_else_learns():
    seen = []
    run = train_toy(ONLY_FIT, task=TOY_STATES, steps=3, watch=lambda run, metrics, groups: seen.extend(groups))
    assert [run.players[name].updates for name in ("policy", "critic", "reference")] == [3, 0, 0]
    assert {t.player for g in seen for t in g.trajectories} == {"reference"}
    assert any(t.links[LAST] for g in seen for t in g.trajectories)
    assert not all(t.links[LAST] for g in seen for t in g.trajectories)


def test_in_the_first_stage_only_the_critic_learns_and_its_error_falls():
    changes = {**CRITIC, "rollout": MonteCarloValues(marking=Separated("b"), count=8), "schedule": ConstantSchedule()}
    recipe = direct_advantage_po.but(**{name.replace(".", "__"): value for name, value in changes.items()})
    errors = []

    def watch(run, metrics, groups):
        errors.append(metrics["critic/chance_error"])

    run = train_toy(recipe, task=TOY, steps=25, prompts=8, learning_rate=0.2, watch=watch)
    assert [run.players[name].updates for name in ("policy", "critic")] == [0, 25]
    assert np.mean(errors[-8:]) < 0.8 * np.mean(errors[:3])


def test_micro_batches_change_nothing():
    check_micro_batches(ONLY_FIT, task=TOY_STATES)


def test_the_stages():
    stages = direct_advantage_po.schedule.stages
    assert list(stages) == ["critic", "fit"]
    assert stages["fit"].players == Frozen(critic="critic.critic")
    assert stages["fit"].task == "made:critic"
    assert (CRITIC["rollout"].count, direct_advantage_po.setting.group) == (8, 4)
    assert (stages["critic"].changes, stages["critic"].makes) == (CRITIC, StepStates())


def test_the_critic_of_the_first_stage_gives_the_advantages_of_the_second():
    small = {f"schedule__stages__{name}__until": Steps(1) for name in ("critic", "fit")}
    run = gradus.train(direct_advantage_po, task="arithmetic", setting__prompts=2, setting__group=2, study=None, **small)
    first, second = [row for row in run.metrics if "reward" in row]
    assert (first["stage"], second["stage"]) == ("critic", "fit")
    assert "critic/chance_error" in first
    assert second["fit_error"] > 0
    assert second["fit_log_ratio"] == pytest.approx(0.0, abs=1e-5)  # the policy is still the start model
