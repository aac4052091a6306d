"""Rewards of single answers. The task's verdict stays a component, so for any of these rewards the accuracy is still the share of right answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, World

Terms = tuple[float, Mapping[str, float]]
"""The reward of an answer, and its components."""


async def beside_verdict(
    groups: Sequence[Group], world: World, of: Callable[[Trajectory, float], Terms | None], verified: Verified = Verified()
) -> list[list[Judgement]]:
    """Judges every answer by `of(answer, verdict)`. The components are the verdict (`verified`) and the components of `of`.

    If `of` returns None, or if the verdict failed or does not apply, the verdict is the reward.
    """

    def judged(t: Trajectory, verdict: Judgement) -> Judgement:
        found = of(t, float(verdict.reward)) if isinstance(verdict.reward, int | float) else None
        if found is None:
            return verdict
        return replace(verdict, reward=float(found[0]), components=Frozen({Verified.name: verdict.reward, **found[1]}))

    verdicts = await verified.score(groups, {}, world)
    return [[judged(t, v) for t, v in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, verdicts, strict=True)]
