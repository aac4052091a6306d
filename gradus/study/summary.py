"""The summary of a step: the numbers of `metrics.jsonl`. The numbers are computed from the groups, from the metrics of the update, and from the numbers of
tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradus.types import Ended, Group, Trajectory, without_aside


def summarise(step: int, groups: Sequence[Group], update: Mapping[str, float], spent: Mapping[str, int]) -> dict[str, float | int | None]:
    """Returns the numbers of one step. A number that does not exist is None.

    `rollouts`: number of all trajectories of the step, including trajectories that no update uses.

    `reward`: mean of the combined reward. `reward/<component>`: mean over the trajectories with this component. `accuracy`: share of right trajectories among
    those with a reward. `length`: mean number of actions. `entropy`: exact if the objective computes the entropy, else the mean of -log p of the sampled
    actions, which is an unbiased estimate. `kl`: the KL to the reference, if the recipe has a reference. `failed`: number of trajectories without a reward.

    All numbers except `rollouts` and the numbers of tokens leave out trajectories that no update uses. If the policy sampled at least one trajectory, then
    the reward, its components, accuracy, length and truncated also leave out trajectories from other sources. Auxiliary groups (`Group.aside`) count in
    rollouts and in their own numbers (aside/reward, ...), but in no other number. If no update uses an auxiliary group (example: a sub-agent), all
    trajectories of the group count in the group's own numbers.
    """
    rollouts = sum(len(g.trajectories) for g in groups)
    learned = [g.but(trajectories=tuple(t for t in g.trajectories if t.trained)) for g in groups]
    auxiliary = _aside([g if not mine.trajectories else mine for g, mine in zip(groups, learned, strict=True) if g.aside])
    groups = without_aside(learned)
    trajectories = [t for g in groups for t in g.trajectories]
    own = [t for t in trajectories if t.source == "policy"] or trajectories
    judged = [t for t in own if t.failed is None]
    names = list(dict.fromkeys(n for t in own for n in t.components))
    return {
        "step": step,
        "rollouts": rollouts,
        "reward": mean([t.value for t in judged]),
        **{f"reward/{n}": mean([float(v) for t in judged if isinstance(v := t.components.get(n), (int, float))]) for n in names},
        "accuracy": mean([float(t.right) for t in judged]),
        "length": mean([t.actions for t in own]),
        "entropy": update.get("entropy", surprise(trajectories)),
        "kl": update.get("kl"),
        "clip_share": update.get("clip_share"),
        "truncated": mean([float(t.ended in (Ended.LENGTH, Ended.CONTEXT, Ended.TRUNCATED)) for t in own]),
        "informative": mean([float(len({t.value for t in g.trajectories if t.failed is None}) > 1) for g in groups]),
        "failed": sum(t.failed is not None for t in trajectories),
        **auxiliary,
        **{k: v for k, v in update.items() if k not in ("entropy", "kl", "clip_share")},
        **{f"tokens/{purpose}": count for purpose, count in spent.items()},
    }


def _aside(groups: Sequence[Group]) -> dict[str, float | int | None]:
    """Returns the numbers of auxiliary groups; an empty result if there are no such groups."""
    if not groups:
        return {}
    trajectories = [t for g in groups for t in g.trajectories]
    judged = [t for t in trajectories if t.failed is None]
    return {
        "aside/groups": len(groups),
        "aside/reward": mean([t.value for t in judged]),
        "aside/accuracy": mean([float(t.right) for t in judged]),
        "aside/length": mean([t.actions for t in trajectories]),
        "aside/failed": len(trajectories) - len(judged),
    }


def surprise(trajectories: Sequence[Trajectory]) -> float | None:
    """Returns the mean of -log p of all sampled actions, an unbiased estimate of the entropy in nats; None without log-probabilities."""
    rows = [c.logprobs for t in trajectories for c in t.contexts if c.logprobs is not None and len(c.logprobs)]
    return -float(np.concatenate(rows).astype(np.float64).mean()) if rows else None


def mean(values: Sequence[float]) -> float | None:
    """Returns the mean; None for an empty sequence."""
    return float(np.mean(values)) if len(values) else None
