"""A reward for each rank of a list, in addition to the verdict on the whole list. The task's verifier must know which ranks are hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, Problem, Trajectory
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.signals import Signal

RANK = "rank_"  # the components are rank_1, rank_2, ...
Form = Literal["hits", "tail"]
Hits = Callable[[Problem, str], Sequence[float]]
"""Returns 1 or 0 for every rank of the answer to a problem, from rank 1 on."""


def tail_gains(hits: np.ndarray) -> np.ndarray:
    """Computes r_k = sum over j >= k of rel_j / log2(j + 1), which is the gain of rank k and of all later ranks.

    Maps `hits` [N], from rank 1 on, to float64 [N].

    >>> tail_gains(np.array([0.0, 1.0, 1.0])).round(4).tolist()
    [1.1309, 1.1309, 0.5]
    """
    gains = np.asarray(hits, np.float64) / np.log2(np.arange(len(hits)) + 2)
    return np.cumsum(gains[::-1])[::-1].copy()


@dataclass(frozen=True)
class RankRewards(Combines):
    """The task's verdict on a ranked list. The rewards of the ranks are the components rank_1, ..., rank_N.

    With `form` "hits", the reward of a rank is 1 for a hit and 0 for any other item. With "tail", the reward of a rank is the discounted gain of the rank and
    of all later ranks. The function `hits` of the task's verifier finds the hits. If a task lacks this function, its answers get only the verdict. Reference:
    Zhu et al., Rank-GRPO, arXiv:2510.20150 ("hits" is its exp_inf, "tail" its log_decay).
    """

    form: Form = "hits"
    verified: Verified = Verified()
    name: ClassVar[str] = "ranks"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def check(self, task: Task) -> None:
        """Raises UserError if the task has no verifier."""
        self.verified.check(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = await self.verified.score(groups, signals, world)
        hits: Hits | None = getattr(world.task.verify, "hits", None)
        if hits is None:
            return found
        return [[self._ranked(j, hits, t) for j, t in zip(row, g.trajectories, strict=True)] for row, g in zip(found, groups, strict=True)]

    def _ranked(self, verdict: Judgement, hits: Hits, trajectory: Trajectory) -> Judgement:
        if not isinstance(verdict.reward, int | float):
            return verdict
        rows = self.rewards(np.array(hits(trajectory.problem, trajectory.completion)))
        ranks = {f"{RANK}{k}": float(value) for k, value in enumerate(rows, 1)}
        return Judgement(verdict.reward, Frozen({**(verdict.components or {Verified.name: verdict.reward}), **ranks}))

    def rewards(self, hits: np.ndarray) -> np.ndarray:
        """Returns the reward of every rank [N]. `hits` is [N]."""
        return hits if self.form == "hits" else tail_gains(hits)


def rank_rewards(trajectory: Trajectory) -> list[float]:
    """Returns the rewards of the ranks, from rank 1 on; an empty list if the answer has no ranks."""
    out: list[float] = []
    while isinstance(value := trajectory.components.get(f"{RANK}{len(out) + 1}"), int | float):
        out.append(float(value))
    return out
