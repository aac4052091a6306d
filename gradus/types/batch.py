"""The batch that an objective reads: flat arrays with one row per action.

Every row has the ids of its context, trajectory and group. The batch also has the counts of the whole mini-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from gradus.types.parts import Signals
from gradus.types.records import Context, Group, Trajectory
from gradus.types.signals import LogProb, Signal, Want


@dataclass(frozen=True)
class Counts:
    """The counts of one source in the WHOLE mini-batch. A slice of the batch keeps these numbers, so no mean depends on the division into micro-batches."""

    actions: int
    trajectories: int
    groups: int
    contexts: int  # contexts with at least one action


@dataclass(frozen=True, eq=False)
class Batch:
    """The A actions of `contexts`, in the order of the contexts. Float rows have the dtype of the update; ids are int64.

    `in_trajectory`: for every action, the number of actions of its trajectory. `in_group`: for every action, the number of actions in its group whose
    trajectories have the same source. Both numbers refer to the whole mini-batch.
    """

    contexts: tuple[Context, ...]
    context: Tensor  # [A] index into contexts
    trajectory: Tensor  # [A] ids 0..N-1, the same in every slice
    group: Tensor  # [A]
    position: Tensor  # [A] index of the action within its trajectory
    trajectories: tuple[Trajectory, ...]  # all trajectories of the mini-batch; the id is the index
    weight: Tensor  # [A] factor on the loss: weight of the trajectory * weight of the action; the counts ignore this weight
    advantages: Tensor  # [A]
    returns: Tensor  # [A], or [A, n] if a target has several numbers; NaN without an assigned return
    behaviour_logprobs: Tensor  # [A] nats at sampling time; NaN if the policy has none
    in_trajectory: Tensor  # [A]
    in_group: Tensor  # [A]
    counts: Mapping[str, Counts]  # source -> counts
    old: Mapping[Want, Tensor] = field(default_factory=dict)  # [A, ...] rows with the weights at the start of the update; no entry: unchanged weights
    signals: Mapping[Signal, Tensor] = field(default_factory=dict)  # [A, ...]
    move: int = 0  # the epoch of the update, from 0

    @property
    def actions(self) -> int:
        return len(self.context)

    @property
    def old_logprobs(self) -> Tensor | None:
        """The log-probabilities [A], in nats, under the weights at the start of the update. None: the weights have not changed since then."""
        return self.old.get(LogProb())

    def stream(self, name: str) -> Tensor:
        """The stream `name` of all contexts, [A, ...]. Floating-point numbers have the dtype of the update."""
        mine = torch.unique_consecutive(self.context).tolist()  # a batch contains only whole contexts
        rows = torch.from_numpy(np.concatenate([self.contexts[i].streams[name] for i in mine]))
        return rows.to(self.weight.dtype) if rows.is_floating_point() else rows

    def rows(self, index: Tensor, contexts: tuple[Context, ...] | None = None) -> Batch:
        """Returns a batch that has only the actions in `index`. The new batch keeps the counts of the whole mini-batch."""
        take = {name: getattr(self, name)[index] for name in _ROWS}
        old, signals = {w: v[index] for w, v in self.old.items()}, {s: v[index] for s, v in self.signals.items()}
        return replace(self, **take, old=old, signals=signals, contexts=self.contexts if contexts is None else contexts)

    def slice(self, contexts: Sequence[int]) -> tuple[Batch, Tensor]:
        """Returns (a batch that has only these contexts, in the given order; the indices of its rows in `self`)."""
        if list(contexts) == list(range(len(self.contexts))):
            return self, torch.arange(self.actions)
        starts = np.concatenate([[0], np.cumsum([c.actions for c in self.contexts])])
        index = torch.from_numpy(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in contexts]))
        piece = self.rows(index, tuple(self.contexts[i] for i in contexts))
        renumbered = np.repeat(np.arange(len(contexts)), [self.contexts[i].actions for i in contexts])
        return replace(piece, context=torch.from_numpy(renumbered)), index

    def subset(self, ids: Sequence[int]) -> Batch:
        """A new mini-batch of the trajectories with these ids. It has its own counts."""
        owners, places = self.owners(), self._places()
        members: dict[int, list[int]] = {}
        for i in ids:
            members.setdefault(int(owners[i]), []).append(i)
        groups = [Group(str(owner), tuple(self.trajectories[i] for i in mine)) for owner, mine in members.items()]
        index = torch.from_numpy(np.concatenate([places[i] for mine in members.values() for i in mine]))
        made = make_batch(groups, dtype=self.weight.dtype)
        old, signals = {w: v[index] for w, v in self.old.items()}, {s: v[index] for s, v in self.signals.items()}
        return replace(made, old=old, signals=signals, move=self.move)

    def owners(self) -> np.ndarray:
        """The group of every trajectory, int64 [N]. The batch must contain all trajectories."""
        return self.group.numpy()[[rows[0] for rows in self._places()]]

    def _places(self) -> list[np.ndarray]:
        """For every trajectory, the ascending indices of its rows."""
        ids = self.trajectory.numpy()
        lengths = np.bincount(ids, minlength=len(self.trajectories))
        return np.split(np.argsort(ids, kind="stable"), np.cumsum(lengths)[:-1])

    def of(self, source: str) -> tuple[Batch, Tensor | None]:
        """Returns (a batch of the actions whose trajectory comes from `source`; the indices of their rows in `self`). If all actions come from `source`,
        returns (self, None)."""
        mine = np.array([t.source == source for t in self.trajectories])
        if mine.all():
            return self, None
        index = torch.from_numpy(np.flatnonzero(mine[self.trajectory.numpy()]))
        return self.rows(index), index


_ROWS = ("context", "trajectory", "group", "position", "weight", "advantages", "returns", "behaviour_logprobs", "in_trajectory", "in_group")


def make_batch(groups: Sequence[Group], signals: Signals | None = None, *, dtype: torch.dtype = torch.float32) -> Batch:
    """Makes a batch of every trained trajectory of the groups that has actions, in order. Raises ValueError if such a trajectory has no advantages. Also
    raises ValueError if the number of its advantages or weights differs from the number of its actions."""
    rows = [(g, t) for g, group in enumerate(groups) for t in group.trajectories if t.trained and t.actions]
    trajectories = tuple(t for _, t in rows)
    lengths = np.array([t.actions for t in trajectories], dtype=np.int64)
    owners = np.array([g for g, _ in rows], dtype=np.int64)
    contexts = tuple(c for t in trajectories for c in t.contexts if c.actions)
    sources = [t.source for t in trajectories]
    per_group: dict[tuple[int, str], int] = {}
    for owner, source, length in zip(owners, sources, lengths, strict=True):
        per_group[(int(owner), source)] = per_group.get((int(owner), source), 0) + int(length)

    width = next((t.returns.shape[1:] for t in trajectories if t.returns is not None), ())  # numbers per target

    def floats(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts or [np.zeros(0)]).astype(np.float64)).to(dtype)

    counts = {
        source: Counts(
            actions=int(sum(n for s, n in zip(sources, lengths, strict=True) if s == source)),
            trajectories=sources.count(source),
            groups=sum(s == source for _, s in per_group),
            contexts=sum(c.actions > 0 for t in trajectories if t.source == source for c in t.contexts),
        )
        for source in dict.fromkeys(sources)
    }
    return Batch(
        contexts=contexts,
        context=torch.from_numpy(np.repeat(np.arange(len(contexts)), [c.actions for c in contexts])),
        trajectory=torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)),
        group=torch.from_numpy(np.repeat(owners, lengths)),
        position=torch.from_numpy(np.concatenate([np.arange(n) for n in lengths] or [np.zeros(0, np.int64)])),
        trajectories=trajectories,
        weight=floats([_weight(t) for t in trajectories]),
        advantages=floats([_assigned(t) for t in trajectories]),
        returns=floats([t.returns if t.returns is not None else np.full((t.actions, *width), np.nan) for t in trajectories]),
        behaviour_logprobs=floats([_behaviour(c) for c in contexts]),
        in_trajectory=torch.from_numpy(np.repeat(lengths, lengths)).to(dtype),
        in_group=torch.from_numpy(np.repeat([per_group[(int(g), s)] for g, s in zip(owners, sources, strict=True)], lengths)).to(dtype),
        counts=counts,
        signals={s: floats([rows_of[t.id] for t in trajectories]) for s, rows_of in (signals or {}).items()},
    )


def _assigned(trajectory: Trajectory) -> np.ndarray:
    if trajectory.advantages is None:
        raise ValueError(f"trajectory {trajectory.id} has no advantages; apply a credit rule before the batch is made")
    if len(trajectory.advantages) != trajectory.actions:
        raise ValueError(f"trajectory {trajectory.id} has {trajectory.actions} actions but {len(trajectory.advantages)} advantages; give one per action")
    return trajectory.advantages


def _weight(trajectory: Trajectory) -> np.ndarray:
    """For every action, the factor on its loss, [A]."""
    if trajectory.weights is None:
        return np.full(trajectory.actions, trajectory.weight)
    if len(trajectory.weights) != trajectory.actions:
        raise ValueError(f"trajectory {trajectory.id} has {trajectory.actions} actions but {len(trajectory.weights)} weights; give one per action")
    return trajectory.weight * trajectory.weights


def _behaviour(context: Context) -> np.ndarray:
    return context.logprobs if context.logprobs is not None else np.full(context.actions, np.nan)


def segment_sum(values: Tensor, ids: Tensor, count: int) -> Tensor:
    """Adds the rows of `values` that have the same id. The result has the shape [count, ...]. The forward index_add and the backward index_select are
    deterministic."""
    return torch.zeros((count, *values.shape[1:]), dtype=values.dtype).index_add(0, ids, values)


def only(batch: Batch, mask: Tensor) -> Batch:
    """Returns the batch with weight 0 for all actions that are not in `mask` [A]. All counts stay as they are."""
    ids, at = batch.trajectory.numpy(), batch.position.numpy()
    trajectories = list(batch.trajectories)
    for i, t in enumerate(trajectories):
        kept = np.zeros(t.actions)
        kept[at[ids == i]] = mask.numpy()[ids == i]
        trajectories[i] = t.but(weights=kept if t.weights is None else kept * t.weights)
    return replace(batch, weight=batch.weight * mask.to(batch.weight), trajectories=tuple(trajectories))
