"""Finds the origin of NaN or infinite numbers: the first tensor with such a number, its trajectory and action, and the values around it.

While all numbers are finite, only the samples, the batch and the weights are checked, once per update. Only `of_update`, which runs after a
skipped mini-batch, repeats a forward and a backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.terms import Term, evaluate, wants_of
from gradus.types import Context, Frozen, Group, Key, Trajectory
from gradus.types.batch import Batch
from gradus.types.signals import Want
from gradus.types.tally import Tally
from gradus.updates.forward_backward import backward, evaluated, passes

AROUND = 3  # actions shown on either side
LOGPROBS = "log-probabilities as sampled"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The first tensor of a player's update, in the order of computation, that contains a value that is not finite."""

    player: str
    tensor: str  # the name of the tensor, in words
    count: int  # number of values in the tensor that are not finite
    of: int  # number of all values in the tensor
    trajectory: Trajectory | None = None  # the first trajectory with such a value; None if unknown
    action: int | None = None  # number of the action within the trajectory, counted from 0
    values: tuple[str, ...] = ()  # the values around the action, as text, because JSON has no NaN
    rows: Mapping[str, Tensor] = field(default_factory=Frozen)  # all rows of the mini-batch, by name, [A, ...]
    trajectories: tuple[str, ...] = ()  # ids of the mini-batch's trajectories; the rows "trajectory" index them

    @property
    def token(self) -> int | None:
        """Returns the token that was chosen at the action."""
        if self.trajectory is None or self.action is None:
            return None
        return int(_tokens(self.trajectory.contexts)[self.action])

    def __str__(self) -> str:
        where = "" if self.trajectory is None else f", first in trajectory {self.trajectory.id}"
        at = "" if self.action is None else f" at action {self.action} (token {self.token})"
        if self.of == 1:
            return f"{self.player}'s {self.tensor} is not finite{where}{at}"
        return f"{self.count} of {self.of} numbers of {self.player}'s {self.tensor} are not finite{where}{at}"


def of_samples(groups: Sequence[Group]) -> Diagnosis | None:
    """Finds the first trajectory with a sampled log-probability that is not finite; None if all are finite.

    Such log-probabilities mean that the weights that sampled the trajectory are broken.
    """
    trajectories = [t for g in groups for t in g.trajectories if any(c.logprobs is not None for c in t.contexts)]
    if all(c.finite for t in trajectories for c in t.contexts):
        return None
    known = [np.concatenate([_behaviour(c) for c in t.contexts]) for t in trajectories]
    bad = [~np.isfinite(row) for row in known]
    count = int(sum(row.sum() for row in bad))
    first = next(i for i, row in enumerate(bad) if row.any())
    action = int(np.flatnonzero(bad[first])[0])
    lengths = [len(row) for row in known]
    rows = {
        "trajectory": torch.from_numpy(np.repeat(np.arange(len(known)), lengths)),
        "action": torch.from_numpy(np.concatenate([np.arange(n) for n in lengths])),
        "token": torch.from_numpy(np.concatenate([_tokens(t.contexts) for t in trajectories])),
        LOGPROBS: torch.from_numpy(np.concatenate(known)),
    }
    return Diagnosis(
        player=trajectories[first].player,
        tensor=LOGPROBS,
        count=count,
        of=sum(lengths),
        trajectory=trajectories[first],
        action=action,
        values=_shown(known[first], action),
        rows=Frozen(rows),
        trajectories=tuple(t.id for t in trajectories),
    )


def _tokens(contexts: Sequence[Context]) -> np.ndarray:
    """Returns the chosen tokens of the contexts, in order."""
    return np.concatenate([c.tokens[c.chosen] for c in contexts])


def _behaviour(context: Context) -> np.ndarray:
    return context.logprobs if context.logprobs is not None else np.zeros(context.actions, np.float32)  # unknown log-probabilities are no error


def of_weights(players: Mapping[str, Any]) -> Diagnosis | None:
    """Finds the first trained weight that is not finite; None if all are finite. No later update can repair such a weight."""
    for player in players.values():
        if getattr(player, "others", None) is not None:  # each process has already checked its own part
            for name in player.others.not_finite():
                return Diagnosis(player.name, f"weight {name} after its move", 1, 1)
            continue
        for name, p in player.policy.network.named_parameters() if player.learns else ():
            if p.requires_grad and not bool(p.isfinite().all()):
                return Diagnosis(player.name, f"weight {name} after its move", _bad(p), p.numel())
    return None


def of_batch(player: str, batch: Batch) -> Diagnosis | None:
    """Finds the first input of an update that is not finite; None if all are finite.

    NaN is allowed for unassigned returns and unknown log-probabilities.
    """
    rows = dict(given(batch))
    found = next((found for name, values in rows.items() if (found := _of_rows(player, name, values, batch)) is not None), None)
    return None if found is None else _with_rows(found, batch, rows)


def _with_rows(found: Diagnosis, batch: Batch, rows: Mapping[str, Tensor]) -> Diagnosis:
    """Adds to the diagnosis all rows of its mini-batch, with the trajectory, action and token of each row."""
    token = torch.from_numpy(_tokens(batch.contexts))
    placed = {"trajectory": batch.trajectory, "action": batch.position, "token": token, **rows}
    return replace(found, rows=Frozen(placed), trajectories=tuple(t.id for t in batch.trajectories))


def given(batch: Batch) -> Iterator[tuple[str, Tensor]]:
    """Yields each input of an update as (name, rows). A value that is unknown is replaced by 0."""
    known = np.repeat([c.logprobs is not None for c in batch.contexts], [c.actions for c in batch.contexts])
    assigned = np.repeat(
        [t.returns is not None for t in batch.trajectories], np.bincount(batch.trajectory, minlength=len(batch.trajectories))
    )
    yield LOGPROBS, torch.where(torch.from_numpy(known), batch.behaviour_logprobs, 0.0)
    for signal, rows in batch.signals.items():
        yield f"{type(signal).__name__} of {signal.player}", rows
    yield "advantages", batch.advantages
    several = batch.returns.ndim > 1  # NaN is "no target" there
    returns = batch.returns.nan_to_num(0.0, torch.inf, -torch.inf) if several else batch.returns
    yield "returns", torch.where(torch.from_numpy(assigned).view(-1, *[1] * several), returns, 0.0)
    yield "weights of actions", batch.weight


def of_update(
    player: str, policy: Any, batch: Batch, terms: Mapping[str, Term], micro_tokens: int, key: Key, spoilt: Sequence[str] = ()
) -> Diagnosis:
    """Finds why the loss or the gradient of a mini-batch is not finite. Repeats the mini-batch's passes with the current weights.

    The checks follow the computation: first the inputs, the rows of the forward pass, and the derivative of the loss with respect to the rows. Then come the
    loss of every term and the gradient of the parameters. If the gradient is not finite, the function shortens the context to find the first action that causes
    it. If all numbers of the repeated passes are finite, the diagnosis names `spoilt`: the losses or gradients that were not finite in the first pass.
    """
    wants = wants_of(terms)
    rows = _forward(policy, batch, wants, micro_tokens, key)
    saved = {**dict(given(batch)), **{_named(w): r for w, r in rows.items()}}
    saved |= {f"{_named(w)} at the start": r for w, r in batch.old.items()}

    def first(rows: Mapping[str, Tensor]) -> Diagnosis | None:
        found = next((f for name, values in rows.items() if (f := _of_rows(player, name, values, batch)) is not None), None)
        return None if found is None else _with_rows(found, batch, saved)

    if (bad := first(saved)) is not None:
        return bad
    leaves = {w: r.clone().requires_grad_() for w, r in rows.items()}
    loss, tallies = evaluate(terms, leaves, batch)
    if loss.requires_grad:
        loss.backward()
    slopes = {w: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for w, leaf in leaves.items()}
    named = {f"slope of the loss by {_named(w)}": s for w, s in slopes.items()}
    saved |= named
    if (bad := first(named)) is not None:
        return bad
    if losses := broken_losses(tallies):
        return _with_rows(Diagnosis(player, losses[0], 1, 1), batch, saved)
    divided = getattr(policy, "divided", False)  # no process has the whole network, so the search for a single sequence is left out
    found = None if divided else _of_gradient(player, policy, batch, slopes, micro_tokens, key)
    if found is None and spoilt:
        others = f" and {len(spoilt) - 1} more" if len(spoilt) > 1 else ""
        found = Diagnosis(player, f"{spoilt[0]}{others} (no sequence reproduces it)", 1, 1)
    return _with_rows(found or Diagnosis(player, "norm of the gradient (the norm overflows, each number is finite)", 1, 1), batch, saved)


def broken_losses(tallies: Mapping[str, Tally]) -> list[str]:
    """Returns the names, `loss/name`, of the terms whose loss is not finite."""
    return [name for name, seen in tallies.items() if name.startswith("loss/") and not bool(seen.total.isfinite())]


def _forward(policy: Any, batch: Batch, wants: Sequence[Want], micro_tokens: int, key: Key) -> dict[Want, Tensor]:
    """Returns, for each `Want`, a row per action, in the order of the batch."""
    pieces = [(batch.slice(chosen)[1], found) for chosen, found in passes(policy, batch.contexts, wants, micro_tokens, key)]
    place = torch.argsort(torch.cat([index for index, _ in pieces]))
    return {w: torch.cat([found[w].cpu() for _, found in pieces]).index_select(0, place).to(batch.weight) for w in wants}


def _of_gradient(player: str, policy: Any, batch: Batch, slopes: Mapping[Want, Tensor], micro_tokens: int, key: Key) -> Diagnosis | None:
    """Finds the first parameter whose gradient is not finite, and the first context and action that cause it, if they can be found."""

    def spoilt(contexts: Sequence[Context], index: Tensor) -> list[tuple[str, Tensor]]:
        """Returns the gradients that are not finite, by parameter, after a backward pass through only these contexts."""
        policy.network.zero_grad(set_to_none=True)
        rows = evaluated(policy, contexts, tuple(slopes), key)
        backward(rows, {w: s[index].to(rows[w]) for w, s in slopes.items()})
        grads = [(n, p.grad) for n, p in policy.network.named_parameters() if p.grad is not None]
        bad = [(n, g.detach().clone()) for n, g in grads if not bool(g.isfinite().all())]
        policy.network.zero_grad(set_to_none=True)
        return bad

    for chosen in policy.micro_batches(batch.contexts, micro_tokens):
        if not spoilt([batch.contexts[i] for i in chosen], batch.slice(chosen)[1]):
            continue
        for i in chosen:
            index, context = batch.slice([i])[1], batch.contexts[i]
            bad = spoilt([context], index)
            if not bad:
                continue
            low, high = 0, context.actions  # the first `low` actions give finite gradients, but the first `high` actions do not
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if spoilt([cut(context, middle)], index[:middle]) else (middle, high)
            name, grad = bad[0]
            row = int(index[high - 1])
            trajectory = batch.trajectories[int(batch.trajectory[row])]
            return Diagnosis(player, f"gradient of {name}", _bad(grad), grad.numel(), trajectory, int(batch.position[row]))
        return Diagnosis(player, "gradient (of several sequences together, of no single one)", 1, 1)
    return None


def cut(context: Context, actions: int) -> Context:
    """Returns the context as it was after its first `actions` actions. `actions` is at least 1."""
    own = int(np.flatnonzero(context.chosen)[actions - 1]) + 1
    return replace(
        context,
        tokens=context.tokens[:own],
        chosen=context.chosen[:own],
        logprobs=None if context.logprobs is None else context.logprobs[:actions],
        versions=None if context.versions is None else context.versions[:actions],
        rewards=tuple(r for r in context.rewards if r[0] < actions),
        streams=Frozen({name: rows[:actions] for name, rows in context.streams.items()}),
    )


def _of_rows(player: str, name: str, rows: Tensor, batch: Batch) -> Diagnosis | None:
    bad = ~rows.isfinite()
    if not bool(bad.any()):
        return None
    actions = bad.reshape(len(bad), -1).any(1)
    row = int(torch.nonzero(actions)[0])
    mine = torch.nonzero(batch.trajectory == batch.trajectory[row])[:, 0]
    mine = mine[torch.argsort(batch.position[mine])]
    action = int(batch.position[row])
    shown = _shown(rows[mine].numpy(), int(torch.nonzero(batch.position[mine] == action)[0]))
    return Diagnosis(player, name, _bad(rows), rows.numel(), batch.trajectories[int(batch.trajectory[row])], action, shown)


def _bad(values: Tensor) -> int:
    return int((~values.isfinite()).sum())


def _shown(rows: np.ndarray, action: int) -> tuple[str, ...]:
    """Returns the values of `action`, and of AROUND actions before and after it, as text."""
    part = rows[max(0, action - AROUND) : action + AROUND + 1]
    return tuple(np.array2string(v, precision=6, threshold=8) if np.ndim(v) else f"{float(v):.6g}" for v in part)


def _named(want: Want) -> str:
    return f"rows of {type(want).__name__}"
