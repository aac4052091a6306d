"""ARPO: an agent is most uncertain right after a tool's result. So an episode branches after a call if the entropy has risen since its start.

    H_t = 1/(log V) sum_(j=1)^k h_j
    P_t = clip(0.5 + 0.2 (H_t - H_0), 0, 1)
    A_i = (R_i - mean(R)) / (std(R))
    loss = 1/N sum_i 1/|o_i| sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i)

A segment is one answer of the agent. $H_t$ belongs to the segment after tool result t. $H_t$ is the sum of the entropies $h_j$ of the first k = 20
tokens of this segment, divided by the logarithm of the vocabulary's size V. $H_0$ is the same quantity for the first segment. $o_i$ are the tokens of
the agent in episode i, rho is the ratio of a token to the sampling policy, and N counts the episodes of the mini-batch. Tool results are not
actions, so they have no loss.

A question gets M episodes. M/2 episodes start from the question. After each result, if the question has fewer than M episodes, the episode branches
with probability $P_t$ into Z = 2 episodes that continue from the result. If all episodes of a question have ended and there are fewer than M, the
missing episodes start from the question. The reward R is -1 for a broken format and 0 for a wrong answer. For a right answer, R is acc, the
environment's reward, plus 0.1 if both tools were used. The mean and the deviation of R are over all M episodes.

Soft credit is the default: every token of episode i has $A_i$. With hard credit (`--credit SharedPrefix`), a shared token has the mean A of the
episodes that contain this token. All copies of a shared token have the same ratio. So soft and hard credit have the same gradient in a mini-batch if
all tokens have equal weight (`--objective.policy.average TokenMean`) and no clip acts. With GRPO's mean over each episode's tokens the gradients
differ, because the episodes differ in length. A batch is cut into 8 mini-batches of whole episodes, so the clip acts from the second mini-batch on.
There is no KL term.

Use if: an agent calls tools over several turns, tool calls are expensive, and the reward comes at the end.
Avoid if: the task has one turn (see grpo, dapo), or the environment cannot continue one state twice. If several episodes reach the same states
without branching, single steps can be compared (see gigpo).
Reference: Dong et al., Agentic Reinforced Policy Optimization, arXiv:2507.19849. The released scripts (dongguanting/ARPO) give M, Z, k, the weights
0.5 and 0.2, the clip, and mini-batches of 16 of the 128 questions. These scripts have no KL term either. The paper branches if P = alpha + beta dH
passes a threshold; the released code draws a random number, as here.
Departures: The entropy is computed over the whole vocabulary. A copy keeps the $H_0$ of the episode that it was copied from, and can branch after its
next segment at the earliest. All missing episodes start at the same time. A format is right if every action is legal and the last action is an
answer. A tool counts as used if a line of the agent calls it by name. With a small vocabulary the sum over 20 tokens drives the probability to its
bound; `--rollout.total mean` takes the mean instead. The bonus has an effect only on tasks with both tools, such as `--task search_qa
--task.calculator true`. The released code computes entropies from the ten likeliest tokens, and it computes $H_t$ from the segment that ended with
the call. So $H_t - H_0$ is 0 at the first call. In the released code the $H_0$ of a copy comes from the first segment of the copy. In the released
code the first entropies are never cleared between batches. In the released code a question whose episodes have all ended gets one more episode per
round. The released code reads the format from the tags of one text, and its acc is the F1 of the words. The released loss is a mean over tokens, and is
constant above ratio 3 if A < 0. The released code divides by the sample deviation plus 1e-6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.credit.within import calls
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.branches import STREAM, Branches
from gradus.types import Ended, Frozen, Group, Trajectory, UserError
from gradus.types.parts import Credited, Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class ToolReward:
    """Gives -1 for a broken format, else the environment's return. Adds `bonus` if this return is above 0 and every tool of `tools` was called.

    The format is broken if an action was illegal, or if the episode ended before the environment ended it. A call is a line of an action that begins
    with the tool's name and a colon.
    """

    bonus: float = 0.1
    tools: tuple[str, ...] = ("search", "calculate")
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, bonus="[0, inf)")
        if not self.tools or not all(self.tools):
            raise UserError(f"ToolReward.tools is {self.tools!r}; give one or more names, and no empty name (the agent writes the name of a tool before a colon)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Returns the judgements. The accuracy of the judgements is computed from the component `environment`."""
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, trajectory: Trajectory, plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, float | int):
            return plain
        if trajectory.ended is not Ended.ENVIRONMENT or trajectory.links["invalid"]:
            return replace(plain, reward=-1.0, components=Frozen({**plain.components, "format": -1.0}))
        used = plain.reward > 0 and all(called(tool, trajectory.completion) for tool in self.tools)
        tools = self.bonus if used else 0.0
        return replace(plain, reward=plain.reward + tools, components=Frozen({**plain.components, "format": 0.0, "tools": tools}))


def called(tool: str, text: str) -> bool:
    """Returns whether a line begins with the tool's name and a colon.

    >>> called("search", "search: home of Ann"), called("search", "I search: Ann")
    (True, False)
    """
    return calls(tool, text) > 0


def shared_mean(branches: Sequence[np.ndarray], advantages: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Replaces every advantage by its mean over the trajectories that contain the same action.

    Args: `branches`: per trajectory int [A], the number of the trajectory that drew each action; two actions with the same index and branch are the
    same action. `advantages`: per trajectory float64 [A]. Returns: arrays with the shapes of `advantages`.

    >>> [a.tolist() for a in shared_mean([np.array([0, 0]), np.array([0, 1])], [np.ones(2), -np.ones(2)])]
    [[0.0, 1.0], [0.0, -1.0]]
    """
    held: dict[tuple[int, int], list[float]] = defaultdict(list)
    for branch, advantage in zip(branches, advantages, strict=True):
        for place, (drawer, value) in enumerate(zip(branch.tolist(), advantage.tolist(), strict=True)):
            held[drawer, place].append(value)
    return [np.array([float(np.mean(held[drawer, place])) for place, drawer in enumerate(branch.tolist())]) for branch in branches]


@dataclass(frozen=True)
class SharedPrefix:
    """Averages the advantages of `credit` at each shared action over the trajectories that contain it (hard credit)."""

    credit: Any = GroupRelative()
    asks: ClassVar[Frozen[str]] = Frozen({"branches": "--rollout Branches"})
    plays: ClassVar[str] = "episodes"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(self.credit.needs)

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(g, row) for g, row in zip(groups, self.credit.assign(groups, signals), strict=True)]

    def _group(self, group: Group, row: Sequence[Credited]) -> list[Credited]:
        means = shared_mean([t.stream(STREAM) for t in group.trajectories], [c.advantages for c in row])
        return [replace(c, advantages=mean) for c, mean in zip(row, means, strict=True)]


arpo = grpo.derive(
    "arpo",
    "Episodes branch after a tool's result if the agent's entropy has risen there; the group contains whole episodes and branches.",
    family="agents",
    rollout=Branches(),
    reward=ToolReward(),
    objective__kl=None,
    players__reference=None,
    update__count=8,
)

claims = (
    Claim(
        says=(
            "On search_qa with two tools, at least a quarter of the turns of 16 episodes per question are shared by branches, so the tools do not "
            "play them; independent episodes share none."
        ),
        source="arXiv:2507.19849 (half of the tool calls); the size at this scale is ours",
        against="arpo --rollout.share=1.0",
        measure="saved_turns:mean",
        better_by=0.25,
        task="search_qa",
        options={"calculator": "true", "people": "40"},
        fields={"rollout.total": "mean", "group": "16", "prompts": "4", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64"},
        budget="steps=10",
        seeds=3,
    ),
)
