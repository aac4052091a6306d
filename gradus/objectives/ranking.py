"""Terms over all trajectories of a group, which are ranked by reward.

The terms are a hinge loss on every pair, two losses of a reward model, and imitation of the best trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, averaged, pulling
from gradus.objectives.preference import members, preference_losses
from gradus.objectives.scores import MeanLogProb, Score, scored
from gradus.types.batch import Batch, Counts, segment_sum
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Value, Want
from gradus.types.tally import Tally, check_same_shape, tally


def ordered_pairs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Returns three tensors [P] about the pairs of trajectories in a group that have different rewards.

    For each pair, the tensors contain the id of the better trajectory, the id of the worse trajectory, and the number of pairs in their group.
    """
    better: list[int] = []
    worse: list[int] = []
    alike: list[int] = []
    for ids in members(batch):
        rewards = [batch.trajectories[i].value for i in ids]
        pairs = [(i, j) for i, r in zip(ids, rewards, strict=True) for j, s in zip(ids, rewards, strict=True) if r > s]
        better += [i for i, _ in pairs]
        worse += [j for _, j in pairs]
        alike += [len(pairs)] * len(pairs)
    return torch.tensor(better, dtype=torch.long), torch.tensor(worse, dtype=torch.long), torch.tensor(alike, dtype=torch.long)


def ranking_losses(better: Tensor, worse: Tensor) -> Tensor:
    """Returns max(0, worse - better) [P], not averaged.

    The loss of a pair is 0 if the better trajectory does not have the lower score. RRHF, arXiv:2304.05302, eq. 2.
    """
    check_same_shape(better=better, worse=worse)
    return (worse - better).clamp(min=0)


@dataclass(frozen=True)
class Ranking:
    """coefficient * mean over groups of a sum over pairs: the sum of max(0, score of the worse - score of the better)."""

    score: Score = MeanLogProb()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.score.needs

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        scores = scored(self.score, pulling(outputs[LogProb()], batch.weight), batch)
        ids = ordered_pairs(batch)[:2]
        better, worse = (scores.index_select(0, i) for i in ids)
        loss = ranking_losses(better, worse).sum() / batch.counts[self.source].groups
        return self.coefficient * loss, {"ranked": tally(better.detach() > worse.detach())}


def best_of(batch: Batch, source: str) -> tuple[Batch, Tensor]:
    """Returns a batch with the best trajectory of every group, and the indices of its rows in `batch`.

    If several trajectories have the highest reward, the first of them is the best. The counts of the new batch cover only the best trajectories.
    """
    best = [max(ids, key=lambda i: batch.trajectories[i].value) for ids in members(batch)]
    ids, held = torch.tensor(best), set(best)
    trajectories = tuple(t if i in held else t.but(weight=0.0) for i, t in enumerate(batch.trajectories))  # an average may count actions by their weight
    index = torch.nonzero(torch.isin(batch.trajectory, ids))[:, 0]
    kept = batch.rows(index)
    contexts = len(torch.unique(batch.context[index]))
    counts = Counts(actions=len(index), trajectories=len(ids), groups=len(ids), contexts=contexts)
    return replace(kept, trajectories=trajectories, in_group=kept.in_trajectory, counts={**batch.counts, source: counts}), index


@dataclass(frozen=True)
class ImitationOfBest:
    """Maximum likelihood of the best trajectory of every group. The other trajectories only affect which trajectory is the best."""

    average: Average = SequenceMean()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # the best trajectory depends on the whole group
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        best, rows = best_of(batch, self.source)
        losses = -outputs[LogProb()].index_select(0, rows) * best.weight
        return self.coefficient * averaged(self.average, losses, best, self.source), {"imitation": tally(losses)}


def last_values(values: Tensor, batch: Batch) -> Tensor:
    """Returns [N], by trajectory id: the value before the last action (the end token of a finished answer); 0 for a trajectory without actions."""
    ids, counts = torch.unique(batch.trajectory, return_counts=True)
    ends = torch.zeros(len(batch.trajectories), dtype=torch.long).index_add(0, ids, counts) - 1
    last = (batch.position == ends.index_select(0, batch.trajectory)).to(values)
    return segment_sum(values * last, batch.trajectory, len(batch.trajectories))


@dataclass(frozen=True)
class BradleyTerry:
    """A reward model's loss: -log sigmoid(s_better - s_worse - margin (r_better - r_worse)), averaged over a group's pairs, then over groups.

    The score s is the value head's output before the last action. All pairs of a group are in one mini-batch.
    """

    margin: float = 0.0  # required difference of the scores for a reward difference of 1; 0: only the order counts
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (Value(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, margin="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        scores = last_values(pulling(outputs[Value()], batch.weight), batch)
        better, worse, alike = ordered_pairs(batch)
        rewards = scores.new_tensor([t.value for t in batch.trajectories])
        wanted = self.margin * (rewards.index_select(0, better) - rewards.index_select(0, worse))
        first, second = scores.index_select(0, better), scores.index_select(0, worse)
        losses = preference_losses(first - wanted, second, beta=1.0) / alike
        seen = {"pair_accuracy": tally((first > second).detach()), "score": tally(scores[batch.trajectory.unique()])}
        return self.coefficient * losses.sum() / batch.counts[self.source].groups, seen


@dataclass(frozen=True)
class MaxMargin:
    """A reward model's loss: max(0, margin - (s_better - s_worse)), averaged over a group's pairs, then over groups.

    A pair whose scores differ by `margin` or more has no gradient. Scores and pairs are as in `BradleyTerry`.
    """

    margin: float = 1.0
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (Value(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, margin="(0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        scores = last_values(pulling(outputs[Value()], batch.weight), batch)
        better, worse, alike = ordered_pairs(batch)
        first, second = scores.index_select(0, better), scores.index_select(0, worse)
        losses = ranking_losses(first - self.margin, second) / alike
        seen = {"pair_accuracy": tally((first > second).detach()), "score": tally(scores[batch.trajectory.unique()])}
        return self.coefficient * losses.sum() / batch.counts[self.source].groups, seen
