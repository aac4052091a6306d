"""Whether what samples and what learns are one model: log-probabilities of fresh samples, as sampled and as the update computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradus.training.health import weigh
from gradus.types import Context, Group, UserError
from gradus.types.guards import Agreement
from gradus.types.signals import LogProb

if TYPE_CHECKING:
    from gradus.training.run import Run
    from gradus.training.world import RunWorld


def differences(sampled: np.ndarray, computed: np.ndarray) -> dict[str, float]:
    """{mean, max, kl} of how far log-probabilities lie apart, nats a token. Args: float [A] each, A >= 1. Returns: float64.

    mean |d|, max |d|, and the mean of exp(d) - 1 - d, d = computed - sampled: an estimate of KL(sampled || computed) that is never negative
    (Schulman, Approximating KL Divergence, 2020, k3).
    """
    apart = computed.astype(np.float64) - sampled.astype(np.float64)
    return {"mean": float(np.abs(apart).mean()), "max": float(np.abs(apart).max()), "kl": float((np.expm1(apart) - apart).mean())}


def fresh(groups: Sequence[Group], players: Mapping[str, Any], most: int) -> dict[str, list[Context]]:
    """By player, contexts that it sampled with the weights that it has now, at most so many of each and each once, in the order of the groups."""
    found: dict[str, dict[int, Context]] = {}
    for trajectory in (t for g in groups for t in g.trajectories if t.source == "policy" and t.player in players):
        mine = found.setdefault(trajectory.player, {})
        for context in trajectory.contexts:
            known = context.logprobs is not None and context.actions and context.versions is not None and context.finite
            if known and len(mine) < most and bool((context.versions == players[trajectory.player].updates).all()):
                mine[id(context)] = context
    return {name: list(mine.values()) for name, mine in found.items() if mine}


async def agree(run: Run, groups: Sequence[Group], world: RunWorld) -> None:
    """Compares where it is due, and does what the run's setting says where the two lie too far apart. Raises UserError where that is to stop."""
    spec: Agreement = run.recipe.setting.agreement
    if not spec.every or world.step % spec.every:
        return
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    for name, contexts in fresh(groups, run.players, spec.sequences).items():
        computed = await world.score(contexts, LogProb(), name, purpose="agreement")
        rows += [(c.logprobs, row) for c, row in zip(contexts, computed, strict=True) if c.logprobs is not None]
    if not rows:
        return
    apart = differences(np.concatenate([s for s, _ in rows]), np.concatenate([c for _, c in rows]))
    for metric, value in apart.items():
        world.note(f"agreement/{metric}", value)
    above = not apart[spec.metric] <= spec.limit  # also where it is NaN
    run.numbers = {**run.numbers, "correcting": above and spec.above in ("truncate", "mask")}
    weigh(run.players, spec, correcting=run.numbers["correcting"])
    if above:
        _tell(run, world.step, apart[spec.metric])


def _tell(run: Run, step: int, value: float) -> None:
    spec = run.recipe.setting.agreement
    what = (
        f"step {step}: the log-probabilities of samples lie {value:.2g} nats a token ({spec.metric}) from those that the update computes, "
        f"more than the {spec.limit:g} of agreement.limit"
    )
    if spec.above == "stop":
        raise UserError(
            f"{what}. Take --precision float32, or an engine that holds the same weights in the same precision; or go on and correct for it "
            "with --agreement.above truncate"
        )
    doing = {"truncate": "; losses are weighted by truncated ratios", "mask": "; actions beyond agreement.cap are not learned from"}
    if run.view is not None:
        run.view.message(what + doing.get(spec.above, ""))
