"""GiGPO: compares whole episodes, and also actions taken in the same state across the group; this gives credit to single steps without a critic.

    A_(i,t) = A_i^E + omega A_(i,t)^S
    A_i^E = (R_i - mean(R)) / F
    A_(i,t)^S = (G_(i,t) - mean over S of G) / F_S
    G_(i,t) = sum_(k >= t) gamma^(k - t) r_(i,k)

Episode i of a group takes steps t with state $s_(i,t)$ and reward $r_(i,t)$; its return is $R_i = sum_t r_(i,t)$. S is the set of all steps of the
group's episodes in the state $s_(i,t)$; S may have several steps of one episode. F is 1 (`scale` "none") or the deviation ("population"). gamma 0.95
discounts steps, not tokens. All tokens of a step get $A_(i,t)$. $A^S$ is 0 if the state occurs once, or if all returns of the state are equal.

Every step is a sample, whose prompt is the instruction, the last two turns and the observation. The loss is averaged over the tokens of a step, then
over all steps. An illegal action costs 0.01. The cost is part of the reward of its step, so it counts in $R_i$ and in the returns of this step and of
all earlier steps. States are equal if the environment's keys are equal; without keys, if the observations are equal. A batch is cut into 8
mini-batches of whole episodes. Metric: clip_share.

Use if: an agent acts over many turns, the reward comes at the end, and the episodes of a group reach the same states.
Avoid if: states never recur, as in free text. The method then equals GRPO on episodes (see grpo).
Reference: Feng et al., Group-in-Group Policy Optimization for LLM Agent Training, arXiv:2505.10978: episode and step relative advantages, their sum,
and the objective, a mean over N episodes of T steps. In the paper a success earns 10, an illegal action costs 0.1, and the KL coefficient is 0.01.
Departures: Here a success earns 1, so the cost of an illegal action (0.01) and the KL coefficient (0.001) are a tenth of the paper's numbers. With
the deviation as F, advantages do not depend on the scale of rewards. Therefore, set `--objective.kl.coefficient 0.01` with `--credit.scale population`. The
mean is over all steps of the mini-batch, even if episodes differ in length. In the released code F is 1 by default and for WebShop; for ALFWorld F is
the deviation (of the sample, plus 1e-6). The released code computes mean and deviation of R over step rows, so long episodes weigh more. The code
subtracts the cost of an illegal action only from the step of the action, averages over all tokens, and keeps the loss constant above ratio 3 if A <
0. The code cuts a batch of 128 episodes into mini-batches of 256 steps (ALFWorld).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.gae import discounted
from gradus.credit.groups import Scale, group_relative
from gradus.credit.turns import turns_of
from gradus.objectives.aggregation import ContextMean
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn, invalid_actions
from gradus.rollouts.episodes import Episodes
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Credited, Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def by_state(states: np.ndarray, returns: np.ndarray, *, scale: Scale) -> np.ndarray:
    """Returns [T]: the return of each step, compared with the returns of all steps in the same state. Args: `states` [T], equal numbers are equal
    states; `returns` [T]."""
    out = np.zeros(len(states))
    for state in np.unique(states):
        rows = np.flatnonzero(states == state)
        out[rows] = group_relative(returns[rows], scale=scale)
    return out


@dataclass(frozen=True)
class AnchorStates:
    """Adds the advantage of the episode within its group and omega times the advantage of the step among all steps in the same state."""

    omega: float = 1.0
    gamma: float = 0.95  # discount per step
    scale: Scale = "none"  # the divisor F of both comparisons
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})
    plays: ClassVar[str] = "episodes"

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[Credited]:
        episodes = [turns_of(t) for t in group.trajectories]
        returns = [discounted(e.rewards, gamma=self.gamma) for e in episodes]
        steps = by_state(np.concatenate([e.states for e in episodes]), np.concatenate(returns), scale=self.scale)
        each = np.split(steps, np.cumsum([len(r) for r in returns])[:-1])
        whole = group_relative(group.rewards, scale=self.scale)
        return [Credited(e.spread(a + self.omega * s)) for e, a, s in zip(episodes, whole, each, strict=True)]


@dataclass(frozen=True)
class LegalReturn(EnvironmentReturn):
    """The return minus `invalid_penalty` for every illegal action, at its last token. The penalties form the component `invalid`."""

    invalid_penalty: float = 0.01  # 0: illegal actions have no penalty and no component

    def __post_init__(self) -> None:
        check_ranges(self, invalid_penalty="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        rows = await super().score(groups, signals, world)
        return [[self.judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, rows, strict=True)]

    def judged(self, trajectory: Trajectory, plain: Judgement) -> Judgement:
        """Returns the judgement of an episode with its penalties. `plain`: the judgement without penalties."""
        if not isinstance(plain.reward, int | float) or self.invalid_penalty == 0.0:
            return plain
        steps = tuple((i, action, "invalid", -self.invalid_penalty) for i, action in invalid_actions(trajectory))
        penalty = 0.0 - self.invalid_penalty * len(steps)  # 0.0 instead of -0.0 for no steps
        return replace(plain, reward=plain.reward + penalty, components=Frozen({**plain.components, "invalid": penalty}), steps=steps)


gigpo = grpo.derive(
    "gigpo",
    "Actions taken in the same state are compared across the episodes of a group, which gives credit to single steps.",
    family="credit",
    rollout=Episodes(history=2),
    reward=LegalReturn(),
    credit=AnchorStates(),
    objective__policy__average=ContextMean(),
    objective__kl=KL(0.001, average=ContextMean()),
    update__count=8,
)

claims = (
    Claim(
        says="Comparison of actions in the same state gives a mean success over 8 steps at least 0.05 above that of whole episodes alone.",
        source="arXiv:2505.10978, abstract (more than 12 % above GRPO on ALFWorld); the size of the effect and the task are ours",
        against="gigpo --credit.omega 0",
        measure="accuracy:mean",
        better_by=0.05,
        task="frozen_lake",
        options={"level": "3"},
        fields={"prompts": "3", "group": "6", "learning_rate": "3e-4", "warmup": "0", "study": "none", "update.count": "2"},
        budget="steps=6",
    ),
)
