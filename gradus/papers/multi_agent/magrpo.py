"""MAGRPO: agents that answer at the same time share one reward; each learns by the joint return minus its mean over the joint samples of a problem.

    R_t^g = sum_(tau >= t) gamma^(tau - t) r_tau^g
    A_t^g = R_t^g - 1/G sum_(h=1)^G R_t^h
    loss = -1/N sum_g sum_i sum_t A_t^g log pi_i(a_(i,t)^g | h_(i,t)^g)

In turn t every agent i writes a whole response $a_(i,t)$ after its history $h_(i,t)$: the problem, its own instruction, and in later turns the words of its
partners and the feedback. The environment gives all agents one joint reward $r_t$. The responses of joint sample g belong together; a problem has G =
4 joint samples. $R_t$ is the return from turn t on, with gamma 1. The advantage compares this return with the returns of the same turn in the other joint
samples. All agents get the same advantage; it is not divided by a deviation. N counts the trajectories of all agents. A batch is used for one update, so
there is no ratio, no clip, no critic and no KL term.

Training computes the advantage from the joint reward; at test time each agent needs only its own history. One policy plays all agents if
`rollout.play.roles` is empty.

Use if: agents work at once on parts of one result, and only the result has a score.
Avoid if: each agent has its own score (see at_grpo), or a batch is used for many updates, which need a ratio (see grpo).
Reference: Liu et al., LLM Collaboration With Multi-Agent Reinforcement Learning, arXiv:2508.04652: joint samples, the shared return, the mean as
baseline without a deviation, G = 4, two agents and one turn.
Departures: In a later version of the authors' code (OpenMLRL/CoMLRL) the advantage is divided by the deviation unless a switch is off, and the
discount is 0.9. In this version the turns form a tree: every joint sample has G joint samples of the next turn, and the mean of their returns counts. Each
agent has its own policy in this version, and samples at temperature 0.6. The task `code_pair` is our choice: a helper sets a variable, and a main player
prints a result with this variable. The reward has four levels, each worth 1/4: structure, syntax, tests and cooperation. A level counts only if the level
before it is reached. The paper has such levels for programs of two functions. A joint sample that ended early has no return in later turns, so the mean of
such a turn is over the other samples.
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
from gradus.rollouts.seats import Seats
from gradus.types import Frozen, Group
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def centred_by_turn(returns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Subtracts the mean return of each turn, over all joint samples that have this turn, from the return of the turn. The result is 0 for a turn that only
    one sample has.

    >>> [row.tolist() for row in centred_by_turn([np.array([3.0, 2.0]), np.array([1.0])])]
    [[1.0, 0.0], [-1.0]]
    """
    longest = max((len(row) for row in returns), default=0)
    means = [float(np.mean([row[t] for row in returns if len(row) > t])) for t in range(longest)]
    return [row - np.array(means[: len(row)]) for row in returns]


@dataclass(frozen=True)
class JointReturns:
    """Gives all tokens of a turn the return from this turn on, minus the mean of the group's returns at the same turn. There is no division by a
    deviation."""

    gamma: float = 1.0  # discount per turn
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Seats"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[Credited]:
        episodes = [turns_of(t) for t in group.trajectories]
        rows = centred_by_turn([discounted(e.rewards, gamma=self.gamma) for e in episodes])
        return [Credited(e.spread(row)) for e, row in zip(episodes, rows, strict=True)]


magrpo = reinforce.derive(
    "magrpo",
    "Agents that act at once share the joint return minus its mean over the joint samples of a problem.",
    family="multi_agent",
    rollout=Seats(play=Episodes()),
    reward=EnvironmentReturn(),
    credit=JointReturns(),
    setting__group=4,
)

claims = (
    same_weights(
        says="From a start that was shown lines, with one turn the final weights are those of REINFORCE with the group's mean as baseline.",
        source=(
            "arXiv:2508.04652, the advantage at horizon 1; the limit is ours; stated again after a look at the built-in model, which earns no reward, so neither "
            "arm moves"
        ),
        against="reinforce --rollout Seats --reward EnvironmentReturn --credit GroupRelative --credit.scale none",
        task="code_pair",
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        script="benchmarks.warmed magrpo-limit",
    ),
    Claim(
        says="From a start whose main player mostly works alone, the share of programs on held-out problems that reach all levels rises by at least 0.2.",
        source="arXiv:2508.04652, the share of main functions that use the helper; the task, the start and the size of the effect are ours",
        against="magrpo --setting.learning_rate 0",
        measure="accuracy",
        better_by=0.2,
        task="code_pair",
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none"},
        own={"setting.learning_rate": "3e-4"},
        budget="steps=12",
        problems=48,
        samples=1,
        script="benchmarks.warmed magrpo",
    ),
)
