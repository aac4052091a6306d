"""AT-GRPO with a policy for each role: what reaches which policy."""

from __future__ import annotations

from dataclasses import replace

import torch

from gradus.papers.multi_agent.at_grpo import at_grpo
from gradus.papers.multi_agent.at_grpo_roles import at_grpo_roles
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go
from gradus.types import Frozen
from tests.papers.multi_agent.test_at_grpo import TASK

ROLES = at_grpo_roles.but(rollout__play__roles=Frozen(B="checker"))


def test_its_changes() -> None:
    assert set(changes(at_grpo, at_grpo_roles)) == {"rollout.play.roles.checker", "players.checker"}


def test_samples_of_one_role_never_reach_the_policy_of_another() -> None:
    run = toy_run(ROLES, task=TASK, steps=1, prompts=2, group=8)
    seen = {}

    def keep(run, metrics, groups):
        seen.update({t.id: t.player for g in groups for t in g.trajectories})

    run.on_step = keep
    start = {name: [p.detach().clone() for p in player.policy.network.parameters()] for name, player in run.players.items()}
    go(run)
    assert {player for name, player in seen.items() if "/A/" in name} == {"policy"}
    assert {player for name, player in seen.items() if "/B/" in name} == {"checker"}
    moved = {n: any(not torch.equal(a, b) for a, b in zip(start[n], run.players[n].policy.network.parameters(), strict=True)) for n in start}
    assert moved == {"policy": True, "checker": True}


def test_a_role_without_a_signal_has_a_gradient_of_exactly_zero() -> None:
    """The candidates of B get equal rewards, so its policy stays bit for bit, whatever A earns."""

    class Constant(EnvironmentReturn):
        async def score(self, groups, signals, world):
            rows = await super().score(groups, signals, world)
            return [
                [replace(j, reward=0.0 if t.links["role"] == "B" else j.reward) for t, j in zip(g.trajectories, row, strict=True)]
                for g, row in zip(groups, rows, strict=True)
            ]

    run = toy_run(ROLES.but(reward=Constant()), task=TASK, steps=2, prompts=2, group=8)
    start = {n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in ("policy", "checker")}
    go(run)
    same = {n: all(torch.equal(a, b) for a, b in zip(start[n], run.players[n].policy.network.parameters(), strict=True)) for n in start}
    assert same == {"policy": False, "checker": True}
