"""CQL: recorded rows alone, the conservative term by a plain formula, and SAC's target at weight 0."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gradus
from gradus.objectives.actor_critic import td_losses
from gradus.recipe.core import changes
from gradus.recipe.registry import recipe
from gradus.testing.methods import weights_after
from gradus.testing.methods.control import cut_down, toy_control
from gradus.testing.methods.runs import toy_run, train_toy
from gradus.types import UserError


def test_it_takes_no_step_of_the_world():
    made = recipe("cql")
    run = train_toy(made, steps=3)
    state = run.memory.states["selection"]["state"]
    assert (state["collected"], state["recorded"]) == (0, 40)
    assert run.players["critic"].updates == 3 * 2  # two rounds a step in the toy run
    assert [row["tokens/rollout"] for row in run.metrics if "tokens/rollout" in row] == []


def test_at_weight_zero_it_is_sac_on_the_same_rows():
    cql = recipe("cql")
    plain = cql.but(players__critic__objective__conservative=None)
    without, zero, five = (weights_after(r, steps=2, rate=0.01) for r in (plain, cql.but(players__critic__objective__conservative__weight=0.0), cql))
    assert all(torch.equal(without[name], zero[name]) for name in without)
    assert any(not torch.allclose(without[name], five[name], atol=1e-6) for name in without if name.startswith("critic"))


def test_its_numbers_are_half_of_the_released_loss():
    """Q 2, y 5, gap 1.5: the release has (Q - y)^2 + 5 gap = 9 + 7.5 = 16.5 per head; here (Q - y)^2 / 2 + 2.5 gap = 4.5 + 3.75 = 8.25."""
    made = recipe("cql")
    critic = made.players["critic"]
    term = critic.objective["conservative"]
    assert td_losses(torch.tensor([[2.0]]), torch.tensor([5.0])).item() + term.weight * 1.5 == 8.25
    assert (term.candidates, term.floor) == (4, None)
    assert made.selection.idle == 50
    assert (critic.credit.entropy, critic.optimizer.lr, made.optimizer.lr) == (False, 3e-4, 1e-4)
    assert changes(recipe("sac"), made).keys() == {
        "rollout",
        "selection.warmup",
        "players.critic.objective.conservative",
        "players.critic.credit.entropy",
        "players.critic.optimizer",
        "optimizer.lr",
        "requires",
    }


def test_it_lowers_the_values_of_other_actions_against_those_of_the_data():
    gaps = {}
    for weight in (0.0, 5.0):
        made = recipe("cql").but(players__critic__objective__conservative__weight=weight, players__critic__optimizer__lr=0.01)
        gaps[weight] = train_toy(made, steps=40).metrics[-1]["critic/gap"]
    assert gaps[5.0] < gaps[0.0] - 0.03  # the recorded torques are uniform: a constant Q has log 4 = 1.386, and little is below


def test_a_task_without_transitions_is_refused():
    with pytest.raises(UserError, match="needs problems with transitions, which task pendulum does not provide"):
        gradus.train("cql", task="pendulum", steps=1)


def test_the_toy_is_the_recipe_cut_down():
    made = cut_down(recipe("cql"))
    assert made.selection.batch == 12
    assert toy_run(recipe("cql")).task.name == replace(toy_control()).name
