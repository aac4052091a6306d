"""M-GRPO: a main agent calls sub-agents. Each kind of agent has a policy, and is compared with its own kind; calls are aligned to a fixed number.

    R_k^M = 1 "if the answer of rollout" k "is right, else" 0
    R_(k,j)^S = 0.1 f_(k,j) + 0.6 R_k^M + 0.3 q_(k,j)
    A_k^M = (R_k^M - mean(R^M)) / (std(R^M)), quad A_(k,j)^S = (R_(k,j)^S - mean(R^S)) / (std(R^S))
    loss = mean of -min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A) "for each agent over its own tokens"

Rollout k of a query, k = 1, ..., K, has $d_k$ calls of the sub-agent S: the main agent M writes a sub-task, S works on it with tools in its
own context, and M reads the result. $f_(k,j)$ is 1 if call j has no illegal action and ends with a result. $q_(k,j)$ is the quality of the result. The mean
and the deviation of $R^S$ are taken over all calls of all rollouts of the query.

The numbers $d_k$ differ, so calls are aligned to D = 8 places per rollout. If a rollout has more than D calls, D of them are drawn. If the rollout has fewer
calls, every call has a place, and the other places are drawn from the rollout's calls with replacement. If the rollout has no call, the places are drawn from
the calls of the query's other rollouts. A call counts in the loss as often as it has a place, so each query has K D places. The advantages are computed
before this alignment, from the real calls. M and S are different players; no gradient passes between them. Metrics: `calls`, the mean of $d_k$;
`calls/reward`, the mean of $R^S$.

Use if: a planner delegates to tool users, and the sub-agents should learn from the outcome of the whole team.
Avoid if: one policy with one context is enough (see search_r1), or if no result of a sub-agent can be scored and outcomes rarely differ.
Reference: Hong et al., Multi-Agent Deep Research: Training Multi-Agent Systems with M-GRPO, arXiv:2511.13288: separate group-relative advantages, the
alignment by duplication and dropping, decoupled training. The clip is as in the released scripts (AQ-MedAI/MrlX, MrlX-DeepResearch).
Departures: The weights 0.1, 0.6 and 0.3, D = 8, and the rule for rollouts without calls are our choices; the paper names the three parts of the
reward. The quality is the reward of the sub-agent's own episode (in the task `research`: whether the finding has the answer); in the paper a judge
gives it. In the paper M's reward also has a part for the form; here an episode with a bad form has the outcome 0. In the released code the reward of a call
is 0 for a bad form; else it is 0.1 or 1, and depends on the outcome alone. The released code does not align calls: a queue passes the calls of all queries in
their order to the sub-agent's trainer. The number of places is a weight of the call, so the loss is divided by the number of calls, not of places.
Queries are not ordered from simple to multi-hop. All players are in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.auto import rolled
from gradus.rollouts.episodes import Episodes
from gradus.types import Ended, Failed, Frozen, Group, Request, Trajectory
from gradus.types.parts import Rollout
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges


def places(calls: Sequence[int], due: int, draw: Random) -> list[list[int]]:
    """Returns, for each call of each rollout, its number of places. `calls`: the number of calls of each rollout; `due`: the number of places of a rollout.

    >>> places([2, 0], 2, Random(0))[1], sum(map(sum, places([1, 0, 3], 2, Random(0))))
    ([], 6)
    """
    counts = [[0] * n for n in calls]
    every = [(k, j) for k, n in enumerate(calls) for j in range(n)]
    for k, n in enumerate(calls):
        own = [(k, j) for j in range(n)]
        drawn = draw.sample(own, due) if n >= due else [*own, *draw.choices(own or every, k=due - n)] if every else []
        for i, j in drawn:
            counts[i][j] += 1
    return counts


@dataclass(frozen=True)
class AlignedCalls:
    """Plays episodes by `rollout`. Gives each sub-agent a reward from form, outcome of its main agent, and quality, and a weight by `places`."""

    rollout: Rollout = Episodes(roles=Frozen(explorer="explorer"))
    calls: int = 8  # D, the number of places for calls of sub-agents in one rollout
    form: float = 0.1
    outcome: float = 0.6
    quality: float = 0.3
    gives: ClassVar[frozenset[str]] = frozenset({"turns", "errands"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, calls="[1, inf)")

    @property
    def test(self) -> Any:
        return self.rollout

    async def run(self, requests: Sequence[Request], world: Any) -> list[Group]:
        """Returns the groups of the main agent. The groups of its sub-agents are auxiliary, with their rewards and weights."""
        groups: list[Group] = await rolled(self.rollout, requests, world)
        senders = {t.id: (t, g) for g in groups for t in g.trajectories}
        made = [g if "parent" not in g.trajectories[0].links else self._aligned(g, senders, world) for g in await world.aside()]
        world.also(made)
        for name in senders:
            world.note("calls", sum(t.links.get("parent") == name for g in made for t in g.trajectories))
        return groups

    def _aligned(self, calls: Group, senders: dict[str, tuple[Trajectory, Group]], world: Any) -> Group:
        """Returns the calls of one query with rewards and weights. Calls without a reward have no place."""
        judged = [self._judged(t, senders[str(t.links["parent"])][0]) for t in calls.trajectories]
        rollouts = [t.id for t in senders[str(judged[0].links["parent"])][1].trajectories]
        sent = [[t for t in judged if t.links["parent"] == name and t.failed is None] for name in rollouts]
        counts = places([len(row) for row in sent], self.calls, world.key.fold("places", calls.key).random())
        weights = {t.id: float(n) for row, own in zip(sent, counts, strict=True) for t, n in zip(row, own, strict=True)}
        for t in (t for row in sent for t in row):
            world.note("calls/reward", t.value)
        return calls.but(trajectories=tuple(t.but(weight=weights.get(t.id, 0.0)) for t in judged), pool=tuple(t.reward for t in judged if t.reward is not None))

    def _judged(self, call: Trajectory, sender: Trajectory) -> Trajectory:
        """Returns a call with its reward. If the call or its sender has failed, the call keeps this failure."""
        if call.failed is not None or sender.failed is not None:
            return call if call.failed is not None else call.but(reward=sender.reward if isinstance(sender.reward, Failed) else Failed(str(sender.failed)))
        form = float(call.ended is Ended.ENVIRONMENT and call.links["invalid"] == 0)
        reward = self.form * form + self.outcome * sender.value + self.quality * call.value
        return call.but(reward=reward, components=Frozen(form=form, outcome=sender.value, quality=call.value))


_OBJECTIVE = grpo.but(objective__policy__trust=Clip(0.2, 0.28), objective__kl=None, players__reference=None).objective

m_grpo = grpo.derive(
    "m_grpo",
    "A main agent and its sub-agents are separate policies, each compared with its own kind; calls are aligned to a fixed number per rollout.",
    family="multi_agent",
    rollout=AlignedCalls(),
    reward=EnvironmentReturn(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__kl=None,
    players__reference=None,
    players__explorer=Player(Copy("policy"), objective=_OBJECTIVE, credit=grpo.credit),
    update__count=2,
)

claims = (
    Claim(
        says="From a start that was shown both roles, accuracy on research is at least 0.05 above that with a frozen sub-agent, with equal rollouts.",
        source="arXiv:2511.13288, the comparison with frozen sub-agents; the start, the task and the size of the effect are ours",
        against="m_grpo --players.explorer.objective none",
        measure="accuracy",
        better_by=0.05,
        task="research",
        options={"people": "40", "level": "1"},
        fields={"prompts": "4", "group": "4", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "8", "rollout.calls": "2"},
        budget="steps=12",
        problems=12,
        samples=6,
        script="benchmarks.warmed m_grpo",
    ),
)
