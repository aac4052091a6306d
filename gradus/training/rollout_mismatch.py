"""Compares two log-probabilities of each new sample. The sampling gives the first one, and the update computes the second one."""

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
    """Measures the differences d = computed - sampled of log-probabilities. Returns "mean", "max" and "kl", in nats per token.

    Both arguments are float [A] with A >= 1.

    `mean`: the mean of |d|. `max`: the maximum of |d|. `kl`: the mean of exp(d) - 1 - d. The number `kl` is an estimate of KL(sampled || computed), and is
    never negative (Schulman, Approximating KL Divergence, 2020, k3). All are computed in float64.
    """
    apart = computed.astype(np.float64) - sampled.astype(np.float64)
    return {"mean": float(np.abs(apart).mean()), "max": float(np.abs(apart).max()), "kl": float((np.expm1(apart) - apart).mean())}


def fresh(groups: Sequence[Group], players: Mapping[str, Any], most: int) -> dict[str, list[Context]]:
    """Returns, for each player, the contexts that it sampled with its current weights.

    A player has at most `most` contexts, each only once, in the order of the groups.
    """
    found: dict[str, dict[int, Context]] = {}
    for trajectory in (t for g in groups for t in g.trajectories if t.source == "policy" and t.player in players):
        mine = found.setdefault(trajectory.player, {})
        for context in trajectory.contexts:
            known = context.logprobs is not None and context.actions and context.versions is not None and context.finite
            if known and len(mine) < most and bool((context.versions == players[trajectory.player].updates).all()):
                mine[id(context)] = context
    return {name: list(mine.values()) for name, mine in found.items() if mine}


async def agree(run: Run, groups: Sequence[Group], world: RunWorld) -> None:
    """At the steps of the setting, measures the mismatch of all policies that can compute the log-probabilities of their samples again.

    If the mismatch is above the limit, `setting.agreement.above` decides the reaction: a warning, a correction of the losses, or UserError.
    """
    spec: Agreement = run.recipe.setting.agreement
    if not spec.every or world.step % spec.every:
        return
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    able = {name: player for name, player in run.players.items() if "logprobs" in player.policy.can}
    for name, contexts in fresh(groups, able, spec.sequences).items():
        computed = await world.score(contexts, LogProb(), name, purpose="agreement")
        rows += [(c.logprobs, row) for c, row in zip(contexts, computed, strict=True) if c.logprobs is not None]
    if not rows:
        return
    apart = differences(np.concatenate([s for s, _ in rows]), np.concatenate([c for _, c in rows]))
    for metric, value in apart.items():
        world.note(f"agreement/{metric}", value)
    above = not apart[spec.metric] <= spec.limit  # NaN also counts as above the limit
    run.numbers = {**run.numbers, "correcting": above and spec.above in ("truncate", "mask")}
    weigh(run.players, spec, correcting=run.numbers["correcting"])
    if above:
        _tell(run, world.step, apart[spec.metric])


def _tell(run: Run, step: int, value: float) -> None:
    spec = run.recipe.setting.agreement
    what = (
        f"step {step}: the log-probabilities of samples differ by {value:.2g} nats per token ({spec.metric}) from those of the update, which is "
        f"above agreement.limit ({spec.limit:g})"
    )
    if spec.above == "stop":
        raise UserError(
            f"{what}. Set --precision float32, set an engine with the same weights and precision, or correct the losses with --agreement.above truncate"
        )
    doing = {"truncate": "; truncated ratios weight the losses", "mask": "; actions beyond agreement.cap have weight 0"}
    if run.view is not None:
        run.view.message(what + doing.get(spec.above, ""))
