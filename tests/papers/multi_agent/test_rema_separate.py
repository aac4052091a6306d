"""ReMA with separate weights: what differs from rema, and the alternation of the agents."""

from __future__ import annotations

import torch

from gradus.papers.multi_agent.rema import rema
from gradus.papers.multi_agent.rema_separate import rema_separate
from gradus.recipe.core import changes
from gradus.schedules.taking_turns import TakingTurns
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go
from gradus.types import Frozen
from gradus.updates.only_players import OnlyPlayers
from tests.papers.multi_agent.test_at_grpo import TASK


def test_its_changes():
    assert set(changes(rema, rema_separate)) == {"rollout.play.roles.checker", "players.reasoner", "schedule"}


def test_separate_agents_swap_after_their_steps():
    assert rema_separate.schedule == TakingTurns(("policy", "reasoner"), OnlyPlayers(update=None), steps=10)
    made = rema_separate.but(rollout__play__roles=Frozen(B="reasoner"), schedule=TakingTurns(("policy", "reasoner"), OnlyPlayers(update=None), steps=2))
    run = toy_run(made, task=TASK, steps=4, prompts=2, group=8)
    seen = [{n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in ("policy", "reasoner")}]

    def keep(run, metrics, groups):
        seen.append({n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in ("policy", "reasoner")})
        assert {t.player for g in groups for t in g.trajectories if t.links["role"] == "B"} == {"reasoner"}

    run.on_step = keep
    go(run)

    def same(name, i, j):
        return all(torch.equal(a, b) for a, b in zip(seen[i][name], seen[j][name], strict=True))

    assert same("reasoner", 0, 2)  # frozen while the meta-thinker learns, bit for bit
    assert not same("policy", 0, 2)
    assert same("policy", 2, 4)  # and the other way round after the swap
    assert not same("reasoner", 2, 4)
