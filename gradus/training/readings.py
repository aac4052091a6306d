"""Reads signals and gradients from the players in a step. Each signal is read only once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradus.training.kept_rows import KeptRows
from gradus.types import Context, Group, Key, Trajectory, UserError, unknown
from gradus.types.parts import Signals
from gradus.types.returned import named
from gradus.types.signals import LogProb, LogProbs, Signal, Want, needed_first

Score = Callable[[Sequence[Context], Want, str], Awaitable[list[np.ndarray]]]
"""The rows of a `Want` for every action of each context, as a player computes them."""


class Readings:
    """The signals of one step. A signal is read once per context. A signal with `fresh` is read again after each update of its player."""

    def __init__(self, players: Mapping[str, Any], score: Score, key: Key, kept: KeptRows | None = None) -> None:
        self.players, self.score, self.key, self.kept = players, score, key, kept
        self._read: dict[tuple[Signal, int | None], dict[int, tuple[Context, np.ndarray]]] = {}  # the key is id(context); the entry also keeps the context in memory

    async def signals(self, groups: Sequence[Group], needs: Sequence[Signal]) -> Signals:
        """Reads the signals in `needs` for every trajectory.

        For a player's own samples, the log-probabilities from the sampling are used. If the signal is `fresh`, these log-probabilities are computed again.
        """
        trajectories = [t for g in groups for t in g.trajectories]
        parts = [(t, c) for t in trajectories for c in t.contexts]
        rows: dict[Signal, list[np.ndarray]] = {}
        for signal in needed_first(needs):
            rows[signal] = await self._rows(signal, parts, rows)
        out: dict[Signal, dict[str, np.ndarray]] = {}
        for signal in dict.fromkeys(needs):
            left = iter(rows[signal])
            out[signal] = {t.id: joined([next(left) for _ in t.contexts]) for t in trajectories}
        return out

    async def _rows(
        self, signal: Signal, parts: Sequence[tuple[Trajectory, Context]], found: Mapping[Signal, Sequence[np.ndarray]]
    ) -> list[np.ndarray]:
        """Returns the rows of a signal for every context. Only rows that are not yet known are read."""
        if signal.player not in self.players:
            raise unknown("player", signal.player, self.players, f"{type(signal).__name__} reads this player; add the player to players")
        version = self.players[signal.player].updates if signal.fresh else None
        known = self._read.setdefault((signal, version), {})
        missing = {id(c): i for i, (t, c) in enumerate(parts) if not as_sampled(signal, t) and id(c) not in known}
        if missing:
            mine, theirs = [parts[i][1] for i in missing.values()], [parts[i][0] for i in missing.values()]
            given = {need: [found[need][i] for i in missing.values()] for need in signal.needs}
            seen = signal.seen_by(mine, given, self.key)
            try:
                rows = await self._read_or_kept(signal, theirs, mine, seen)
            except UserError as error:
                raise UserError(f"{type(signal.want).__name__} cannot be read from player {signal.player}: {error}") from error
            known |= {id(c): (c, row) for c, row in zip(mine, rows, strict=True)}
        return [sampled(c) if as_sampled(signal, t) else known[id(c)][1] for t, c in parts]

    async def _read_or_kept(
        self, signal: Signal, trajectories: Sequence[Trajectory], contexts: Sequence[Context], seen: Sequence[Context]
    ) -> list[np.ndarray]:
        """Reads the rows of every context, except rows that the run has kept."""
        if self.kept is None or not self.kept.keeps(signal):
            return await self._scored(signal, contexts, seen)
        check_seen(signal, contexts, seen)
        return await self.kept.read(
            signal, trajectories, seen, lambda left: self._scored(signal, [contexts[i] for i in left], [seen[i] for i in left])
        )

    async def _scored(self, signal: Signal, contexts: Sequence[Context], seen: Sequence[Context]) -> list[np.ndarray]:
        """Reads the rows of every context that `seen_by` returned. If a signal is not `aligned`, contexts without an action are not read."""
        if signal.aligned:
            check_seen(signal, contexts, seen)
            return await self.score(seen, signal.want, signal.player)
        acting = [c for c in seen if c.actions]
        rows = iter(await self.score(acting, signal.want, signal.player) if acting else [])
        return [next(rows) if c.actions else np.zeros(0, np.float32) for c in seen]


def joined(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Joins the rows of all contexts of a trajectory, [A, ...]. A context without actions has no rows."""
    return np.concatenate([row for row in rows if len(row)] or list(rows[:1]) or [np.zeros(0, np.float32)])


def check_seen(signal: Signal, contexts: Sequence[Context], seen: Sequence[Context]) -> None:
    """Raises UserError unless `seen_by` returned one context per given context, with the same number of actions."""
    counts, found = [c.actions for c in contexts], [c.actions for c in seen]
    if counts != found:
        raise UserError(
            f"{named(signal, 'seen_by')} returned {len(found)} contexts with {sum(found)} actions for {len(counts)} contexts with {sum(counts)} "
            "actions; it must return one context per given context, in order, with the same actions"
        )


def as_sampled(signal: Signal, trajectory: Trajectory) -> bool:
    """Whether the rows of the signal are the trajectory's behaviour log-probabilities.

    Given answers have no behaviour log-probabilities, so they must be scored.
    """
    mine = trajectory.source == "policy" and trajectory.player == signal.player
    return isinstance(signal, LogProbs) and not signal.fresh and mine


def sampled(context: Context) -> np.ndarray:
    """Returns the behaviour log-probabilities of a context. Raises UserError if the policy gave none."""
    if context.logprobs is None:
        raise UserError(
            "this recipe reads the log-probabilities of sampled actions, but the policy gives no log-probabilities; choose another policy or recipe"
        )
    return context.logprobs


def output_head(player: Any) -> np.ndarray:
    """Returns the weights [V, d] of the output head, float32. Raises UserError if the logits are not the product of these weights and the hidden states."""
    trunk: Any = getattr(player.policy, "trunk", None)
    if not hasattr(trunk, "head_weight") or getattr(getattr(trunk, "config", None), "logit_cap", None) is not None:
        raise UserError(
            f"the output head of {player.name} cannot be read; take a language model of a built-in family, without a cap on its logits, such as Qwen or Llama"
        )
    return np.asarray(trunk.head_weight.detach().float().cpu().numpy())


def gradients(player: Any, contexts: Sequence[Context], project: int | None, key: Key) -> np.ndarray:
    """Computes, for each context, the gradient of the summed log-probability of its actions.

    Returns the norms [n] or random projections [n, project] of the gradients, float64.

    The gradient is with respect to the trained parameters. A projection adds every number of the gradient, times 1 or -1, to one of `project` sums.
    The key determines the sign and the sum. So the projection preserves inner products in expectation. Each context needs one backward pass. Raises
    UserError if the player has no trained parameters.
    """
    import torch

    from gradus.updates.forward_backward import evaluated

    parameters = [p for p in player.policy.network.parameters() if p.requires_grad]
    if not parameters:
        raise UserError(f"world.gradients needs gradients of {player.name}, but this player has no trained parameter; name a player that learns")
    out = np.zeros(len(contexts) if project is None else (len(contexts), project))
    places = None if project is None else [_places(p.numel(), project, key.fold(i)) for i, p in enumerate(parameters)]
    for row, context in enumerate(contexts):
        if not context.actions:
            continue
        with torch.enable_grad():
            total = evaluated(player.policy, [context], (LogProb(),), key)[LogProb()].sum()
        found = torch.autograd.grad(total, parameters, allow_unused=True)
        flat = [None if g is None else g.detach().double().cpu().numpy().ravel() for g in found]
        if places is None:
            out[row] = np.sqrt(sum(float(g @ g) for g in flat if g is not None))
        else:
            for g, (bucket, sign) in zip(flat, places, strict=True):
                if g is not None:
                    out[row] += np.bincount(bucket, sign * g, minlength=project or 0)
    return out


def _places(count: int, project: int, key: Key) -> tuple[np.ndarray, np.ndarray]:
    """Draws, for each of `count` numbers of the gradient, the index of its sum, and its sign."""
    drawn = key.uniform(count) * 2 * project
    return (drawn // 2).astype(np.int64), np.where(drawn.astype(np.int64) % 2, -1, 1).astype(np.int8)
