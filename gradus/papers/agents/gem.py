"""GEM: turn-level REINFORCE. The return of each turn is standardised over all turns of the batch (return batch normalisation, ReBN).

    G_(i,t) = sum_(k >= t) gamma^(k - t) r_(i,k)
    A_(i,t) = (G_(i,t) - mean(G)) / (std(G) + 10^(-9))
    loss = -1/N sum_(i=1)^N sum_t A_(i,t) log pi(a_(i,t) | s_(i,t))

A turn t of episode i is one action of the agent: a whole response $a_(i,t)$, after everything that the agent has seen, $s_(i,t)$. The environment answers
with a reward $r_(i,k)$. gamma discounts turns, not tokens. The mean and the population deviation are over all turns of all N episodes of the batch, so long
and short turns have equal weight. All tokens of a turn get $A_(i,t)$.

No group of episodes is needed, and turns may have their own rewards. With gamma below 1 a fast success has larger returns than a slow one.

Use if: an agent works over turns, turns have rewards or speed matters, and only one episode can be played from each start state (so there are no groups).
Avoid if: problems differ much in difficulty and groups are cheap, because the batch is then a poor baseline (see grpo), or if episodes have one turn.
Reference: Liu et al., GEM: A Gym for Agentic LLMs, arXiv:2510.01051: the turn as the action, REINFORCE with ReBN; gamma 0.9 is the number for the
games, and 1 is the default of the released trainer (axon-rl/gem, examples/train_oat).
Departures: An episode has one context to which turns are added; the released trainer makes one sample of each turn. The task `gem:GAME` plays the
games of GEM; the claims use tasks of Gradus. GEM's wrappers of observations and of tools are not rebuilt. Instead, `Tools` gives tools to a task of single
answers, and executes at most `calls` calls per episode. `Tools` shows no notice at the last call. A further call gets no result; GEM passes such a call to
the game. The population deviation is as in train_oat; two other released trainers take the sample deviation. Episodes of a batch run in parallel
(`Episodes`). Only `Lanes`, for environments of arrays, begins the next episode in a slot at once. If all returns are equal, every advantage is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.gae import discounted
from gradus.credit.turns import turns_of
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.types import Frozen, Group
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def batch_normalised(returns: Sequence[np.ndarray], *, eps: float = 1e-9) -> list[np.ndarray]:
    """Shifts and scales the returns of all turns together: (G - mean) / (std + eps), with the deviation of the population. Returns zeros if all returns are
    equal.

    >>> [row.round(4).tolist() for row in batch_normalised([np.array([0.81, 0.9, 1.0]), np.zeros(2)])]
    [[0.6001, 0.8016, 1.0255], [-1.2136, -1.2136]]
    """
    every = np.concatenate(list(returns)) if len(returns) else np.zeros(0)
    if not len(every) or every.std() <= 1e-12 * np.abs(every).max():  # such a deviation comes from rounding alone
        return [np.zeros_like(row) for row in returns]
    return [(row - every.mean()) / (every.std() + eps) for row in returns]


@dataclass(frozen=True)
class TurnReturns:
    """Gives all tokens of a turn the discounted return from this turn on, standardised over all turns of the batch."""

    gamma: float = 0.9  # discount per turn
    normalised: bool = True  # False: returns are neither shifted nor scaled
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        episodes = [turns_of(t) for g in groups for t in g.trajectories]
        returns = [discounted(e.rewards, gamma=self.gamma) for e in episodes]
        made = iter(zip(episodes, batch_normalised(returns) if self.normalised else returns, strict=True))
        return [[Credited(e.spread(row)) for e, row in (next(made) for _ in g.trajectories)] for g in groups]


gem = reinforce.derive(
    "gem",
    "Each turn gets its discounted return, standardised over all turns of the batch.",
    family="agents",
    rollout=Episodes(),
    reward=EnvironmentReturn(),
    credit=TurnReturns(),
)

_LAKE = {"prompts": "4", "group": "4", "learning_rate": "3e-4", "warmup": "0", "study": "none"}

claims = (
    same_weights(
        says="With gamma 1 and without normalisation the final weights are those of REINFORCE without a baseline.",
        source="arXiv:2510.01051, REINFORCE; the limit is ours",
        against="reinforce --rollout Episodes --reward EnvironmentReturn --credit.baseline none",
        own={"credit.gamma": "1", "credit.normalised": "false"},
        task="frozen_lake",
        options={"level": "1"},
    ),
    Claim(
        says="With normalised returns the mean success over 12 steps on frozen_lake is at least 0.05 above that of plain returns.",
        source="arXiv:2510.01051, REINFORCE with and without ReBN; the size of the effect and the task are ours",
        against="gem --credit.normalised false",
        measure="accuracy:mean",
        better_by=0.05,
        task="frozen_lake",
        options={"level": "3"},
        fields=_LAKE,
        budget="steps=12",
    ),
    Claim(
        says="Gamma 0.9 ends with at least a twentieth fewer tokens per episode of frozen_lake than gamma 1.",
        source=(
            "arXiv:2510.01051, the effect of gamma on the number of turns; tokens count the agent's own words, which grow with the turns; the task "
            "and the size of the effect are ours"
        ),
        against="gem --credit.gamma 1",
        measure="length",
        at_most=0.95,
        task="frozen_lake",
        options={"level": "1"},
        fields=_LAKE,
        budget="steps=12",
        problems=64,
        samples=2,
    ),
)
