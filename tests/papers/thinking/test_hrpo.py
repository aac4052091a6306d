"""HRPO: the mark in the reward, the rates of gate and adapter, and a run whose update gives the rollout's log-probabilities.

The formulas of the gate are in tests/policies/test_gated.py.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.api import start
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.hrpo import MarkedOnce, hrpo
from gradus.recipe.core import changes
from gradus.testing.methods import toy_group
from gradus.training.launch import go
from gradus.training.plan import plan
from gradus.types import UserError
from gradus.types.players import Adapter, Gated, Player
from tests.small_model import save_small_model

SMALL = {"setting__prompts": 2, "setting__group": 4, "setting__max_tokens": 24, "setting__eval_every": 0, "setting__warmup": 0}


@pytest.mark.parametrize(("said", "free", "required"), [("1 #### 2", 1.0, 1.0), ("1 2", 1.0, 0.0), ("#### 1 #### 2", 0.0, 0.0)])
def test_the_mark_occurs_once(said, free, required):
    group = toy_group(1.0)
    group = group.but(trajectories=tuple(t.but(completion=said) for t in group.trajectories))
    for part, due in ((MarkedOnce(), free), (MarkedOnce(required=True), required)):
        assert asyncio.run(part.score([group], {}, None))[0][0].reward == due
    with pytest.raises(UserError, match="mark is empty"):
        MarkedOnce(mark="")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = save_small_model(tmp_path_factory.mktemp("model"))
    made = hrpo.but(**SMALL, setting__learning_rate=1e-3, study=None, players__policy__model=Gated(of=Adapter(rank=4), mark="#", least=0.6, most=0.9))
    run = start(plan(made, "arithmetic", model=str(folder), steps=2))
    run.before = {n: p.detach().clone() for n, p in run.players["policy"].policy.network.named_parameters()}
    run.seen = []
    run.on_step = lambda run, row, groups: run.seen.append((row, groups))
    return go(run)


def test_gate_and_adapter_move_at_their_own_rates(run):
    """The rewards of a random model are equal, so the group's advantages are 0; the KL term alone moves it, from the second step on."""
    learner = run.players["policy"]
    named = [n for n, p in learner.policy.network.named_parameters() if p.requires_grad]
    factors = dict(zip(named, learner.factors, strict=True))
    assert factors["gate.lam"] == 200.0
    assert factors["gate.token_weight"] == factors["gate.latent_bias"] == 20.0
    assert {f for n, f in factors.items() if "lora" in n} == {1.0}
    assert not [n for n in named if "lora" not in n and not n.startswith("gate.")]
    assert [g["lr"] for g in learner.optimizer.param_groups] == pytest.approx([1e-3 * f for f in learner.group_factors])


def test_rollouts_hold_the_latent_inputs_and_are_replayed(run):
    row, groups = run.seen[0]
    contexts = [c for g in groups for t in g.trajectories for c in t.contexts]
    assert all(c.streams["inputs"].shape == (c.actions, 32) for c in contexts)
    assert any(np.isfinite(c.streams["inputs"]).any() for c in contexts)
    assert row["ratio"] == pytest.approx(1.0, abs=1e-5)
    assert row["loss/kl"] == pytest.approx(0.0, abs=1e-6)  # the reference is the start, with its gate


def test_the_reference_has_a_gate_of_its_own_that_stays(run):
    reference = run.players["reference"].policy
    assert torch.equal(reference.gate.lam, run.before["gate.lam"])
    assert reference.gate is not run.players["policy"].policy.gate


def test_the_change_to_grpo_is_the_input_and_the_reward():
    assert set(changes(grpo, hrpo)) == {"reward", "objective.kl.coefficient", "players.policy.model", "players.policy.rates.gate", "players.policy.rates.lam"}
    assert hrpo.players["policy"] == Player(Gated(of=Adapter(rank=32, alpha=64.0)), rates=hrpo.players["policy"].rates)
