"""Trajectories, groups and batches written by hand, and the results of a credit rule or an objective on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gradus.objectives.terms import evaluate
from gradus.types import Context, Frozen, Group, Problem, Trajectory, prompt_context
from gradus.types.batch import Batch, make_batch
from gradus.types.signals import LogProb, LogProbs, Signal, Want

REFERENCE = LogProbs(player="reference")


def toy_trajectory(
    tokens: Sequence[int],
    *,
    reward: float = 0.0,
    name: str = "t",
    prompt: Context | None = None,
    logprobs: Sequence[float] | None = None,
    **more: Any,
) -> Trajectory:
    """Makes a judged trajectory of one context in which every token is an action.

    Args: `logprobs` [tokens]: the log-probabilities at sampling (None: 0). `prompt`: the context before the tokens (None: a prompt of one token).
    `more`: other fields of `Trajectory`.

    >>> toy_trajectory([2, 3], reward=1.0).actions
    2
    """
    parent = prompt or prompt_context([1])
    context = Context(
        tokens=np.array(tokens, np.int32),
        chosen=np.ones(len(tokens), bool),
        logprobs=np.array(logprobs if logprobs is not None else np.zeros(len(tokens)), np.float32),
        versions=np.zeros(len(tokens), np.int32),
        parent=(parent, len(parent.sequence)),
    )
    return Trajectory(name, Problem("p", "toy", text="a"), (context,), reward=reward, components=Frozen(verified=reward), **more)


def toy_group(*rewards: float, lengths: Sequence[int] | None = None, key: str = "g") -> Group:
    """Makes a group with one trajectory per reward. Trajectory i has `lengths[i]` tokens (None: 2 tokens) and the id "KEY/i".

    >>> group = toy_group(1, 0, lengths=[2, 3])
    >>> group.rewards.tolist(), [t.actions for t in group.trajectories]
    ([1.0, 0.0], [2, 3])
    """
    lengths = lengths or [2] * len(rewards)
    prompt = prompt_context([1])
    pairs = enumerate(zip(rewards, lengths, strict=True))
    return Group(key, tuple(toy_trajectory([2] * n, reward=r, name=f"{key}/{i}", prompt=prompt) for i, (r, n) in pairs))


def toy_batch(*groups: Group, advantages: Sequence[float] | None = None, signals: Any = None) -> Batch:
    """Makes a float64 batch of the groups.

    Args: `advantages`: one per trajectory, in order, for all actions of the trajectory (None: 1 for each trajectory). `signals`: {signal: {trajectory
    id: rows [A]}}.

    >>> toy_batch(toy_group(1, 0), advantages=[0.5, -0.5]).advantages.tolist()
    [0.5, 0.5, -0.5, -0.5]
    """
    left = iter(advantages if advantages is not None else [1.0] * sum(len(g.trajectories) for g in groups))
    credited = [g.but(trajectories=tuple(t.but(advantages=np.full(t.actions, next(left))) for t in g.trajectories)) for g in groups]
    return make_batch(credited, signals, dtype=torch.float64)


def advantages_of(rule: Any, *groups: Group, signals: Any = None) -> list[list[list[float]]]:
    """Returns the advantages that a credit rule assigns, as `result[group][trajectory][action]`.

    >>> from gradus.credit.groups import GroupRelative
    >>> advantages_of(GroupRelative(), toy_group(1, 0))
    [[[1.0, 1.0], [-1.0, -1.0]]]
    """
    return [[c.advantages.tolist() for c in row] for row in rule.assign(list(groups), signals or {})]


def loss_and_gradient(
    objective: Mapping[str, Any],
    groups: Sequence[Group],
    rows: Sequence[float],
    *,
    advantages: Sequence[float] | None = None,
    signals: Mapping[Signal, Mapping[str, Sequence[float]]] | None = None,
    want: Want | None = None,
) -> tuple[float, list[float], dict[str, float]]:
    """Returns the loss of an objective, the gradient of the loss with respect to every row, and the metrics.

    Args: `rows` [A]: the rows of the `Want` (None: the log-probabilities). `advantages`: one per trajectory (None: 1 for each trajectory). `signals`:
    {signal: {trajectory id: rows [A]}}.

    >>> from gradus import load_recipe
    >>> loss, gradient, metrics = loss_and_gradient(load_recipe("dr_grpo").objective, [toy_group(1, 0)], [0.0] * 4, advantages=[1, -1])
    >>> len(gradient), metrics["ratio"]
    (4, 1.0)
    """
    read = {signal: {name: np.array(v) for name, v in of.items()} for signal, of in (signals or {}).items()}
    leaves = torch.tensor(list(rows), dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(objective, {want or LogProb(): leaves}, toy_batch(*groups, advantages=advantages, signals=read or None))
    loss.backward()
    assert leaves.grad is not None
    return loss.item(), leaves.grad.tolist(), {name: t.mean for name, t in metrics.items()}


def trained_trajectories(groups: Sequence[Group]) -> list[list[Trajectory]]:
    """Returns for every group the trajectories that entered the update. These trajectories have advantages."""
    return [[t for t in g.trajectories if t.advantages is not None] for g in groups]
