"""Flow of Reasoning: trains the policy so that the probability of an answer is proportional to its reward (trajectory balance), with replay and a local
search.

    R = 100 if right, else 0.001, quad "plus" quad w min(10, -1 / log pi_ref(y))
    loss = mean over problems of 1/K sum_k (s_k - 1/K sum_j s_j)^2, quad s_k = sum_t log pi(y_(k,t)) - beta log R(y_k)

A generative flow gives every answer y to a problem a probability proportional to $R(y)^beta$. Then $log pi(y) = beta log R(y) - log Z$, and all scores
$s_k$ of the problem are equal. So the policy keeps every way to a reward, and does not give all its probability to the best way. The loss is valid for
answers of any sampler. beta rises from 1 to 2 over training. The bonus (w = 1) is for answers that the start model $pi_ref$ finds likely.

Each step samples K = 4 answers to a problem. The best answer is cut in the middle and completed 16 times; completions with a higher reward join the
group. A buffer keeps the 50 best answers of each problem; in half of the draws, an update uses K of these answers in place of the new answers. Metrics:
balance_error, found_better.

Use if: problems are few, many different answers are right, and variety matters.
Avoid if: one right answer is enough (see grpo), or ratios of rewards have no meaning.
Reference: Yu et al., Flow of Reasoning: Training LLMs for Divergent Problem Solving with Minimal Examples, arXiv:2406.05673.
Departures: An answer of one turn is one action of the paper's state graph. The cap 10 and the reward 0.001 are our choices; for its task with blocks the
paper rewards the share of reached goals, times 10. New samples have temperature 1; in the paper half of them have a temperature that falls from 2 to 1, and
some actions are random. All buffered answers are drawn with equal probabilities; in the released code the probabilities are proportional to the rewards. In
the released code beta is 2 after half of the epochs, and w is 1.5 for blocks. The paper trains an adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import LogReward
from gradus.curricula.rates import Mean, SuccessRates
from gradus.objectives.balance import TrajectoryBalance
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward, name_of
from gradus.rewards.verified import Verified
from gradus.rollouts.local_search import LocalSearch
from gradus.schedules.ramp import Ramp
from gradus.selection.best_replay import BestReplay
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProbs, Signal


@dataclass(frozen=True)
class FlowReward(Combines):
    """A positive reward: base + weight * min(cap, -1 / log-probability under `player`). The base is `success` for a right answer, else `failure`."""

    reward: Reward = Verified()
    success: float = 100.0
    failure: float = 0.001
    weight: float = 1.0
    cap: float = 10.0
    player: str = "reference"
    name: ClassVar[str] = "flow"

    def __post_init__(self) -> None:
        check_ranges(self, success="(0, inf)", failure="(0, inf)", weight="[0, inf)", cap="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.reward.needs, LogProbs(player=self.player))

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        judged, rows = await self.reward.score(groups, signals, world), signals[LogProbs(player=self.player)]
        return [[self._flowing(t, j, rows) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, judged, strict=True)]

    def _flowing(self, trajectory: Trajectory, judged: Judgement, rows: Any) -> Judgement:
        if not isinstance(judged.reward, int | float):
            return judged
        parts = judged.components or Frozen({name_of(self.reward): judged.reward})
        right = trajectory.but(reward=judged.reward, components=parts).right
        bonus = likely(float(np.sum(rows[trajectory.id])), cap=self.cap) if trajectory.actions else 0.0
        reward = (self.success if right else self.failure) + self.weight * bonus
        return replace(judged, reward=reward, components=Frozen({**parts, "likely": bonus}))


def likely(logprob: float, *, cap: float) -> float:
    """Returns min(cap, -1 / logprob); `cap` for a log-probability of 0. Args: `logprob`, nats, at most 0."""
    return cap if -logprob * cap <= 1 else -1 / logprob


flow_of_reasoning = reinforce.derive(
    "flow_of_reasoning",
    "Trajectory balance makes answers frequent in proportion to their reward; a buffer and a local search find and keep different good answers.",
    family="objectives",
    curriculum=SuccessRates(Mean(), factor=1, pool=15, group=4),
    rollout=LocalSearch(tries=16),
    reward=FlowReward(),
    selection=BestReplay(share=0.5, size=50),
    credit=LogReward(beta=1.0),
    objective=Frozen(policy=TrajectoryBalance()),
    players__reference=Player(Copy("policy")),
    schedule=Ramp("credit.beta", ((0.0, 1.0), (1.0, 2.0)), over="progress"),
)

claims = (
    same_weights(
        says="With the share 0 the buffer changes nothing: the final weights are those of training on new answers only.",
        source="arXiv:2406.05673, training without replay",
        against="flow_of_reasoning --selection Everything",
        own={"selection.share": "0"},
        options={"level": "2"},
        fields={"prompts": "4", "study": "none", "rollout.tries": "4"},
    ),
    Claim(
        says="A problem has at least one more different right answer among 16 than after as many steps of GRPO without a KL term.",
        source="arXiv:2406.05673, diversity of solutions; the task and the size of the effect are ours",
        against="grpo --objective.kl none --players.reference none",
        measure="distinct",
        better_by=1.0,
        ground="many_ways",
        own={"rollout.tries": "4"},
    ),
)
