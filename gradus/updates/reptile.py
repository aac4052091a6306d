"""Reptile, a method of meta-learning, over several kinds of problems.

Each kind, except the target, updates a copy of the weights. Then the weights move towards the weighted mean of the copies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.terms import evaluate, wants_of
from gradus.types import Key, UserError
from gradus.types.batch import Batch
from gradus.types.parts import Update
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_numbers
from gradus.types.tally import Tally, merge
from gradus.updates.diagnosis import of_update
from gradus.updates.minibatches import Minibatches, check_separable, forward, gradient
from gradus.updates.trust_region import flat, place


def meta_step(start: Tensor, ends: Sequence[Tensor], weights: np.ndarray, *, eta: float) -> Tensor:
    """theta' = theta + eta sum_i w_i (theta_i - theta).

    >>> float(meta_step(torch.tensor(0.0), [torch.tensor(1.0), torch.tensor(3.0)], np.array([0.25, 0.75]), eta=0.5))
    1.25
    """
    moved = torch.zeros_like(start)
    for end, weight in zip(ends, weights.tolist(), strict=True):
        moved = moved + weight * (end - start)
    return start + eta * moved


class SourceWeights(Protocol):
    """Gives the weight of each kind of problems, and receives the rewards of the kinds afterwards."""

    def weigh(self, count: int, key: Key) -> np.ndarray:
        """Returns `count` weights of at least 0 with the sum 1. A stateful part gets its state as the last argument and returns (weights, state)."""
        ...

    def observe(self, rewards: np.ndarray) -> dict[str, float]:
        """Receives a reward for every kind and returns metrics. A stateful part gets its state as the last argument and returns (metrics, state)."""
        ...


@dataclass(frozen=True)
class EqualWeights:
    """All kinds have the same weight."""

    def weigh(self, count: int, key: Key) -> np.ndarray:
        return np.full(count, 1 / count)

    def observe(self, rewards: np.ndarray) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class Reptile:
    """Updates the policy by theta' = theta + eta sum_i w_i (theta_i - theta). The sum is over all kinds of problems in a batch except the last kind, which is
    the target.

    The weights theta_i are the result of `inner_steps` plain gradient steps from theta. Each of these steps uses a different part of the batch's problems of
    kind i. The part `weights` gives the w_i. After the update, this part receives R_i = L(theta') - L(theta_i), where L is the objective on the problems of
    the target. A problem's `arm` names its kind. The optimiser of the policy and the learning rate of the setting are not used. `others` updates every other
    player. Metrics: `weight/KIND`, `gain/KIND` (R_i), `target_loss` (L(theta')), `grad_norm` (length of the step divided by eta). Reference: Nichol et al.,
    On First-Order Meta-Learning Algorithms, arXiv:1803.02999 (Reptile, with equal weights).
    """

    inner_steps: int = 4
    inner_lr: float = 1e-5
    eta: float = 0.3
    weights: Any = EqualWeights()  # a `SourceWeights`, with or without a state
    others: Update = Minibatches()

    def __post_init__(self) -> None:
        check_ranges(self, inner_steps="[1, inf)", inner_lr="[0, inf)", eta="[0, inf)")

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Updates every player that has a batch and returns the metrics. Raises UserError if the batch has fewer than two kinds."""
        out = self.others.apply(players, {name: b for name, b in batches.items() if name != "policy"}, step, key)
        check_numbers(self.others, "apply", out)
        if (batch := batches.get("policy")) is None or not batch.actions:
            return out
        player, kinds = players["policy"], by_kind(batch)
        if len(kinds) < 2:
            raise UserError(
                f"Reptile needs problems of at least two kinds in a batch, but this batch has {len(kinds)}; take a task with several kinds, "
                "and set --curriculum EachKind and a larger --prompts"
            )
        check_separable(player, batch, key)
        start = flat(player.parameters)
        weights = np.asarray(self.weights.weigh(len(kinds) - 1, key.fold("weights")), np.float64)

        def tried(tokens: int) -> tuple[Tensor, np.ndarray, float, dict[str, float]]:
            place(player.parameters, start)
            return self._moved(player, batch, kinds, weights, tokens, key)

        end, losses, after, metrics = player.fitting(batch.contexts, tried, "train")
        if not (bool(torch.isfinite(end).all()) and math.isfinite(after) and np.isfinite(losses).all()):
            place(player.parameters, start)
            player.bad.append(of_update(player.name, player.policy, batch, player.spec.objective, player.micro_tokens, key, ["meta step"]))
            return {**out, "skipped": 1.0}
        place(player.parameters, end)
        player.updates += 1
        rewards, names = after - losses, list(kinds)[:-1]
        seen = self.weights.observe(rewards)
        told = {f"weight/{n}": float(w) for n, w in zip(names, weights, strict=True)} | {f"gain/{n}": float(r) for n, r in zip(names, rewards, strict=True)}
        length = float((end - start).norm()) / (self.eta or 1.0)
        return {**out, **metrics, **told, **seen, "target_loss": after, "grad_norm": length, "skipped": 0.0}

    def _moved(
        self, player: Any, batch: Batch, kinds: Mapping[str, list[int]], weights: np.ndarray, tokens: int, key: Key
    ) -> tuple[Tensor, np.ndarray, float, dict[str, float]]:
        """Returns theta', the losses L(theta_i) of the kinds on the target, L(theta'), and the objective's metrics over all inner steps."""
        start = flat(player.parameters)
        *sources, last = kinds.values()
        target = batch.subset(last)
        ends, losses, counted, moves = [], [], dict[str, Tally](), 0
        for own in sources:
            place(player.parameters, start)
            for part in np.array_split(np.array(own), min(self.inner_steps, len(own))):
                counted = merge(counted, gradient(player.policy, batch.subset(part.tolist()), player.spec.objective, tokens, key))
                moves += 1
                self._descend(player)
            ends.append(flat(player.parameters))
            losses.append(_loss(player, target, tokens, key))
        place(player.parameters, meta_step(start, ends, weights, eta=self.eta))
        metrics = {name: t.mean / (moves if name.startswith("loss/") else 1) for name, t in counted.items()}
        return flat(player.parameters), np.array(losses), _loss(player, target, tokens, key), metrics

    def _descend(self, player: Any) -> None:
        with torch.no_grad():
            for p in player.parameters:
                if p.grad is not None:
                    p.sub_(self.inner_lr * p.grad)
        player.zero_grad()


def by_kind(batch: Batch) -> dict[str, list[int]]:
    """Returns the indices of the trajectories of each kind. The kinds are in the order in which the batch first has them."""
    found: dict[str, list[int]] = {}
    for number, trajectory in enumerate(batch.trajectories):
        found.setdefault(str(trajectory.problem.meta.get("arm", "")), []).append(number)
    return found


def _loss(player: Any, batch: Batch, tokens: int, key: Key) -> float:
    terms = player.spec.objective
    return float(evaluate(terms, forward(player.policy, batch, wants_of(terms), tokens, key), batch)[0])
