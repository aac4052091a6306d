"""SAC: its gradients are those of the textbook's losses, its target follows every round, its rows are not recorded ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradus.players.build import build_players
from gradus.policies.controller_reading import gaussian, squashed_logprob
from gradus.recipe.registry import recipe
from gradus.selection.transition_replay import batch_of
from gradus.tasks.control.pendulum import Pendulum, moved, pendulum, shown
from gradus.training.lessons import credit
from gradus.training.memory import Memory
from gradus.training.world import RunWorld
from gradus.types import Group, Key, Sampling
from gradus.updates.minibatches import gradient

KEY = Key(77)


def some_rows(count: int = 64) -> dict[str, np.ndarray]:
    """Steps of the pendulum from random states; a third of them is said to be done, so that it shows."""
    states = Key(1).uniform(count, 2) * np.array([6.0, 4.0]) - np.array([3.0, 2.0])
    torques = (Key(2).uniform(count, 1) * 4 - 2).astype(np.float32)
    after = [moved(s, a.astype(np.float64)) for s, a in zip(states, torques, strict=True)]
    return {
        "before.state": np.stack([shown(s)["state"] for s in states]),
        "next.state": np.stack([shown(s)["state"] for s, _, _ in after]),
        "action": torques,
        "reward": np.array([r for _, r, _ in after], np.float32),
        "done": np.arange(count) % 3 == 0,
        "row": np.arange(count),
    }


def prepared(made: Any, rows: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The players in float64, and their batches of one round."""
    made = made.but(setting__precision="float64")
    players = build_players(made, None, pendulum(), Key(3))
    with torch.no_grad():
        players["temperature"].policy.network.number.fill_(-0.7)
        for p in players["target"].policy.network.parameters():
            p.mul_(0.9)
    world = RunWorld(step=0, purpose="train", seed=Key(3), task=pendulum(), players=players, reward=None, sampling=Sampling(), group=1)
    run = SimpleNamespace(players=players, memory=Memory(), numbers={"streak": 0, "broken": False})
    _, batches = asyncio.run(credit(run, [Group("r", (batch_of(rows, KEY),))], world))  # type: ignore[arg-type]
    return players, batches


def tensors(rows: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.tensor(column, dtype=torch.float64) for name, column in rows.items()}


def forward(network: Any, x: Tensor) -> Tensor:
    """[heads, N, outputs] by plain products, one head after the other."""
    heads = []
    for h in range(network.dense.out.weight.shape[0]):
        y = x
        for layer in network.dense.layers:
            y = torch.relu(y @ layer.weight[h] + layer.bias[h, 0])
        heads.append(y @ network.dense.out.weight[h] + network.dense.out.bias[h, 0])
    return torch.stack(heads)


def acted(network: Any, state: Tensor, key: Key) -> tuple[Tensor, Tensor]:
    mean, std = gaussian(forward(network, state)[0])
    raw = mean + std * torch.tensor(key.fold("drawn").normal(len(state), 1))
    return 2.0 * raw.tanh(), squashed_logprob(raw, mean, std, torch.tensor([2.0], dtype=torch.float64))


def direct(players: dict[str, Any], rows: dict[str, np.ndarray], gamma: float = 0.99) -> dict[str, list[Tensor]]:
    """The gradients of the textbook's three losses by autograd through everything."""
    policy, critic, target, temperature = (players[n].policy.network for n in ("policy", "critic", "target", "temperature"))
    t = tensors(rows)
    alpha = temperature.number.detach().exp()

    def q(network: Any, state: Tensor, action: Tensor) -> Tensor:
        return forward(network, torch.cat([state, action / 2.0], 1))[..., 0]

    with torch.no_grad():
        following, logp = acted(policy, t["next.state"], KEY.fold("next"))
        y = t["reward"] + gamma * (1 - t["done"]) * (q(target, t["next.state"], following).min(0).values - alpha * logp)
    critic_loss = ((q(critic, t["before.state"], t["action"]) - y).square() / 2).sum(0).mean()
    action, logp = acted(policy, t["before.state"], KEY)
    policy_loss = (alpha * logp - q(critic, t["before.state"], action).min(0).values).mean()
    temperature_loss = (-temperature.number.exp() * (logp.detach() - 1.0)).mean()
    losses = {"critic": (critic_loss, critic), "policy": (policy_loss, policy), "temperature": (temperature_loss, temperature)}
    return {name: list(torch.autograd.grad(loss, list(network.parameters()))) for name, (loss, network) in losses.items()}


def test_its_gradients_are_those_of_the_textbook():
    rows = some_rows()
    players, batches = prepared(recipe("sac"), rows)
    wanted = direct(players, rows)
    assert set(batches) == {"policy", "critic", "temperature"}
    for name, batch in batches.items():
        player = players[name]
        player.zero_grad()
        gradient(player.policy, batch, player.spec.objective, 4096, Key())
        for parameter, due in zip(player.policy.network.parameters(), wanted[name], strict=True):
            assert float((parameter.grad - due).abs().max()) <= 1e-10
            assert float(due.abs().max()) > 1e-4


def test_the_critic_gets_no_gradient_from_the_policy_and_the_target_none_at_all():
    rows = some_rows(8)
    players, batches = prepared(recipe("sac"), rows)
    gradient(players["policy"].policy, batches["policy"], players["policy"].spec.objective, 4096, Key())
    assert all(p.grad is None for n in ("critic", "target", "temperature") for p in players[n].policy.network.parameters())


def test_a_done_row_is_fitted_to_its_reward_alone():
    rows = some_rows(9)
    _, batches = prepared(recipe("sac"), rows)
    returns = batches["critic"].returns.numpy()
    assert returns[rows["done"]] == pytest.approx(rows["reward"][rows["done"]], abs=1e-7)
    assert (np.abs(returns - rows["reward"])[~rows["done"]] > 1e-3).all()


def small(**changes: Any) -> Any:
    return recipe("sac").but(
        rollout__length=10,
        selection__warmup=20,
        selection__batch=16,
        players__policy__model__hidden=(8,),
        players__critic__model__hidden=(8,),
        study=None,
        setting__eval_every=0,
        **changes,
    )


def trained(made: Any, steps: int = 4, **options: Any) -> Any:
    import gradus

    return gradus.train(made.but(setting__steps=steps), task=replace(pendulum(), environment=Pendulum(limit=15)), **options)


def test_the_warm_up_moves_nothing_and_then_every_row_is_a_round():
    seen = []

    def watch(run: Any, row: Any, groups: Any) -> None:
        seen.append((run.players["critic"].updates, run.players["target"].updates, run.players["policy"].updates, row["length"]))

    run = trained(small(), on_step=watch)
    assert [s[:3] for s in seen] == [(0, 0, 0), (0, 0, 0), (10, 10, 10), (20, 20, 20)]
    state = run.memory.states["selection"]["state"]
    assert state["collected"] == 40
    assert state["rows"]["done"].sum() == 0  # the pendulum is truncated, never done
    assert np.allclose(state["rows"]["next.state"][:14], state["rows"]["before.state"][1:15])
    assert not np.allclose(state["rows"]["next.state"][14], state["rows"]["before.state"][15])  # a new episode begins


def test_the_target_follows_after_every_round():
    """With decay 0 the target is the critic as it was after the last round; with decay 1 it stays."""
    for decay in (0.0, 1.0):
        run = trained(small(players__target__model__decay=decay), steps=3)
        same = all(
            torch.equal(a, b)
            for a, b in zip(run.players["critic"].policy.network.parameters(), run.players["target"].policy.network.parameters(), strict=True)
        )
        assert same is (decay == 0.0)


def test_an_episode_goes_on_in_the_next_step():
    pieces = []
    trained(small(), on_step=lambda run, row, groups: pieces.extend((t.links["episode"], t.actions, t.ended.value) for g in groups for t in g.trajectories))
    assert [(a, e) for _, a, e in pieces] == [(10, "length"), (5, "truncated"), (5, "length"), (10, "truncated"), (10, "length")]
    assert len({name for name, _, _ in pieces}) == 3
