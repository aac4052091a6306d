"""Pairs for the tests of preference recipes: a toy task that brings them, batches of groups, and an objective's loss with its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gradus.objectives.terms import evaluate
from gradus.types import Frozen, Group
from gradus.types.signals import LogProb, LogProbs, Want
from tests.toy import TOY, ToySource, batch, train_toy

REFERENCE = LogProbs(player="reference")


class Pairs(ToySource):
    """Problem i brings a better and a worse answer."""

    def draw(self, indices, level, key):
        return [replace(p, meta=Frozen(chosen=p.answer * 3, rejected="a" + p.answer)) for p in super().draw(indices, level, key)]


PAIRS = replace(TOY, source=Pairs())


def loss_and_slopes(
    objective: Any,
    groups: Sequence[Group],
    rows: Sequence[float],
    *,
    reference: Mapping[str, Sequence[float]] | None = None,
    want: Want | None = None,
) -> tuple[float, list[float], dict[str, float]]:
    """Loss of the objective on these groups, its gradient with respect to the rows (log-probabilities unless `want` says), and the metrics."""
    signals = {REFERENCE: {k: np.array(v) for k, v in reference.items()}} if reference is not None else None
    leaves = torch.tensor(list(rows), dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(objective, {want or LogProb(): leaves}, batch(*groups, signals=signals))
    loss.backward()
    return loss.item(), leaves.grad.tolist(), {name: t.mean for name, t in metrics.items()}


def seen_in(recipe: Any, **options: Any) -> list[tuple[dict[str, Any], Sequence[Group]]]:
    """(metrics, groups) of every step of a toy run."""
    seen: list[Any] = []
    train_toy(recipe, watch=lambda run, metrics, groups: seen.append((metrics, groups)), **options)
    return seen


def trained(groups: Sequence[Group]) -> list[list[Any]]:
    """The trajectories of every group that entered the update."""
    return [[t for t in g.trajectories if t.advantages is not None] for g in groups]
