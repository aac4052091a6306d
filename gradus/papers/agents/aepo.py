"""AEPO: entropies divide the episodes between roots and branches, a path branches more rarely each time, and uncertain tokens keep more gradient.

    m = round(k sigmoid(beta (H_root - H_tool)))
    P_t = (0.5 + 0.2 (H_t - H_root)) (1 - min(0.2 l, 1))
    A_(i,t) = (R_i - mean(R)) / (std(R)) max(1 + a z_(i,t), 0), quad z_(i,t) = (h_(i,t) - mean(h)) / (std(h))
    loss = 1/N sum_i 1/|o_i| sum_t -F(rho, A) A
    F(rho, A) = (1 + epsilon_h) rho / (sg[rho]) if A > 0 and rho > 1 + epsilon_h; 1 - epsilon_l if A < 0 and rho < 1 - epsilon_l; else rho

A segment is one answer of the agent. A question gets k episodes. The first episode is a trial without branches. $H_root$ is the mean entropy of the first
20 tokens of the trial's first segment, as a share of the largest entropy. $H_tool$ is the mean of the same quantity over the later segments of the
trial, which follow tool results. Of the k episodes, m (including the trial) start from the question; the others are branches. So m is large if the
model is more uncertain at the question than after tool results. $H_t$ is the same quantity for the segment after tool result t. l counts the
branchings in a row on the same path just before this segment. The path branches with probability $P_t$. So the branches spread over more paths.

$h_(i,t)$ is the entropy before token t of episode i; the mean and the deviation of h are over all tokens of the batch, and have no gradient. sg stops
the gradient. So the clip above 1 + $epsilon_h$ = 1.28 limits the value of the ratio, but a clipped token with A > 0 keeps a gradient. The lower clip
is PPO's. The reward is the reward of arpo. A batch is cut into 8 mini-batches, so ratios can leave the bounds. There is no KL term.

Use if: arpo branches mostly on few paths, or its entropy collapses or jumps in training.
Avoid if: the task has one turn, or each batch is used for one update only, because then no ratio is clipped (see arpo).
Reference: Dong et al., Agentic Entropy-Balanced Policy Optimization, arXiv:2510.14545, sections 3.2 and 3.3. No code was read.
Departures: beta = 1, the penalty of 0.2 per branching, a = 0.3, the rounding, and the use of $P_t$ as a probability are our choices; the weights 0.5 and 0.2
come from arpo. The factor of the advantage is at least 0. The trial is an episode of the group. m includes the trial and at least one further root, because
the trial has ended when branching begins. If the trial has one segment, m is k/2. The entropies are computed over the whole vocabulary and averaged over
tokens; arpo sums them. All else is as in arpo.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.objectives.ratios import Probability
from gradus.objectives.trust import clipped_surrogate, surrogate
from gradus.papers.agents.arpo import arpo
from gradus.papers.objectives.gppo import held_log_ratio
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.branches import STREAM, Branches, level
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.spans import streamed
from gradus.types import Group, Request
from gradus.types.batch import Batch
from gradus.types.parts import Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.readers import EntropyShare
from gradus.types.signals import Entropy, Signal
from gradus.types.tally import Tally, tally


def budget(count: int, gap: float, beta: float = 1.0) -> int:
    """Returns how many of `count` episodes start from the question, at least 1. `gap`: entropy at the question minus entropy after tool results.

    >>> [budget(16, gap) for gap in (0.0, 1.0, -1.0)]
    [8, 12, 4]
    """
    return max(1, min(count, round(count / (1.0 + math.exp(-beta * gap)))))


def entropy_gap(entropies: np.ndarray, turns: np.ndarray, tokens: int = 20) -> float:
    """Returns the mean entropy of the first `tokens` tokens of turn 0 minus the average of this quantity over the later turns; 0 without later turns.

    >>> entropy_gap(np.array([0.5, 0.7, 0.1, 0.3, 0.2]), np.array([0, 0, 1, 1, 2]))  # 0.6 - (0.2 + 0.2) / 2
    0.39999999999999997
    """
    levels = [level(entropies[turns == t], tokens, "mean") for t in np.unique(turns)]
    return levels[0] - float(np.mean(levels[1:])) if len(levels) > 1 else 0.0


@dataclass(frozen=True)
class RareBranches(Branches):
    """After l branchings in a row on the same path, the probability to branch is multiplied by max(1 - penalty * l, 0)."""

    total: Literal["sum", "mean"] = "mean"
    penalty: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, penalty="[0, 1]")

    def chance(self, rise: float, streak: int) -> float:
        return super().chance(rise, streak) * max(0.0, 1.0 - self.penalty * streak)


@dataclass(frozen=True)
class BalancedBranches:
    """Plays one episode of each problem, reads its entropies, and lets `branches` play the other episodes. `budget` gives the number of episodes that start
    from the problem.

    Metrics: `roots` (the planned share of episodes that start from the problem), and the metrics of `branches`.
    """

    beta: float = 1.0
    branches: Branches = RareBranches()
    gives: ClassVar[frozenset[str]] = frozenset({"turns", "branches"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, beta="[0, inf)")

    @property
    def test(self) -> Episodes:
        return self.branches.test

    def check_task(self, task: Task) -> None:
        self.branches.check_task(task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        trials = [_numbered(g) for g in await self.branches.play.run([replace(r, count=1) for r in requests], world)]
        return list(await asyncio.gather(*(self._rest(r, g, world) for r, g in zip(requests, trials, strict=True))))

    async def _rest(self, request: Request, trial: Group, world: World) -> Group:
        """Returns the trial with the other episodes of a request."""
        context, left = trial.trajectories[0].contexts[-1], request.count - 1
        gap = 0.0
        if context.actions and trial.trajectories[0].failed is None:
            (row,) = await world.score([context], EntropyShare(), request.player)
            gap = entropy_gap(row, context.streams["turn"], self.branches.tokens)
        roots = budget(request.count, gap, self.beta)
        world.note("roots", roots / request.count)
        if not left:
            return trial
        share = min(1.0, max(1, roots - 1) / left)
        (others,) = await replace(self.branches, share=share).run([replace(request, count=left, sample=request.sample + 1)], world)
        return trial.but(trajectories=(*trial.trajectories, *_numbered(others).trajectories), pool=(*trial.pool, *others.pool))


def _numbered(group: Group) -> Group:
    """Returns the group with a stream `branch` in which 0 means the trial. A trajectory without this stream (the trial) gets 0. The numbers of all other
    trajectories rise by 1.
    """
    none = {t.id: [np.full(c.actions, -1, np.int32) for c in t.contexts] for t in group.trajectories}
    rows = {t.id: [c.streams.get(STREAM, row) + np.int32(1) for c, row in zip(t.contexts, none[t.id], strict=True)] for t in group.trajectories}
    return streamed(group, STREAM, rows)


@dataclass(frozen=True)
class MoreIfUnsure:
    """The factor 1 + a z, at least 0, where z is the entropy before the action, standardised over all actions of the batch."""

    a: float = 0.3
    needs: ClassVar[tuple[Signal, ...]] = (Entropy(),)

    def __post_init__(self) -> None:
        check_ranges(self, a="[0, inf)")

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        rows = {t.id: np.asarray(signals[Entropy()][t.id], np.float64) for g in groups for t in g.trajectories}
        every = np.concatenate(list(rows.values())) if rows else np.zeros(0)
        mean, std = (float(every.mean()), float(every.std())) if len(every) else (0.0, 0.0)
        return [[np.maximum(1.0 + self.a * ((rows[t.id] - mean) / std if std > 0 else 0.0 * rows[t.id]), 0.0) for t in g.trajectories] for g in groups]


@dataclass(frozen=True)
class OpenTop:
    """PPO's clip with one change: if A > 0 and the ratio is above the upper bound, the action keeps the gradient of this bound."""

    low: float = 0.2
    high: float = 0.28
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1]", high="[0, inf]")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        held = held_log_ratio(log_ratio, advantages, low=1.0, high=self.high)
        losses = torch.where(advantages > 0, surrogate(held, advantages), clipped_surrogate(log_ratio, advantages, low=self.low, high=self.high))
        ratio = log_ratio.detach().exp()
        return losses, {"clip_share": tally(((ratio > 1 + self.high) & (advantages > 0)) | ((ratio < 1 - self.low) & (advantages < 0)))}


aepo = arpo.derive(
    "aepo",
    "Entropies divide the episodes between roots and branches, branchings in a row get rarer, and uncertain or clipped tokens keep more gradient.",
    family="agents",
    rollout=BalancedBranches(),
    credit=Scaled(GroupRelative(), MoreIfUnsure(0.3)),
    objective__policy__trust=OpenTop(0.2, 0.28),
)

claims = (
    same_weights(
        says="From a start that was shown calls, with one update per batch, a = 0 and the branches of ARPO, the final weights are those of ARPO.",
        source="arXiv:2510.14545, without its changes; stated again after a look at the built-in model, which earns no reward, so neither arm moves",
        against="arpo",
        own={"credit.factor.a": "0", "rollout": "Branches"},
        task="search_qa",
        options={"level": "1", "calculator": "true", "people": "40"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "update.count": "1"},
        budget="steps=2",
        script="benchmarks.warmed aepo-limit",
    ),
    Claim(
        says="On search_qa with two tools, the share of branchings that follow a branching on the same path is at most 0.95 times that of ARPO.",
        source=(
            "arXiv:2510.14545, section 2 (consecutive branchings use up the budget); the ratio, the task and the sizes are ours; stated again after a look at the "
            "number of branching points, which both arms share because each branching adds one episode"
        ),
        against="arpo --rollout.total mean",
        measure="in_a_row:mean",
        at_most=0.95,
        task="search_qa",
        options={"calculator": "true", "people": "40"},
        fields={"group": "16", "prompts": "4", "learning_rate": "3e-4", "study": "none"},
        budget="steps=6",
        seeds=3,
    ),
)
