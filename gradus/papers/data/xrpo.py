"""XRPO: gives further answers where they make the mean reward most certain, shows solved examples, and rewards unlikely right answers.

    h(n) = t_(1 - alpha/2, n - 1) s / sqrt(n)
    Pi = h(n) - h(n + 1) + lambda sqrt((ln(1 + T)) / n)
    A_i = (r_i - mean(r)) / (std(r))
    eta_i = exp(s_i - mean(s)), quad s_i = 1/|o_i| sum_t log pi(o_(i,t))
    A_i^+ = A_i + min("max"(lambda_n (1 - eta_i), 0), kappa A_i)
    loss = -1/N sum_i sum_t min(rho_(i,t) A_i^+, clip(rho_(i,t), 1 - epsilon, 1 + epsilon) A_i^+) + beta k_3

Every problem first gets 4 answers. The other answers of the step go in blocks of 4 to the problems with the highest priority Pi. The rewards of the n
answers have the deviation s, so h(n) is half the width of Student's interval of the mean reward, with alpha = 0.05. The bonus favours problems with
few answers; T counts all answers of the step so far. The priorities are renewed after as many blocks as there are problems.

If the first answers to a problem are all wrong, half of its further answers are seeded. The prompt of a seeded answer begins with the two solved
problems whose texts are nearest, and with the policy's own right answers to them from earlier steps. The update sees a seeded answer under the plain
prompt, with its log-probability under this prompt. A right answer with A > 0 is sharpened if the policy finds it less likely than the group's mean
($eta_i$ < 1). Sharpening adds at most kappa = 0.5 times $A_i$; $lambda_n$ is 2.5. N counts all tokens. Metrics: allotted (answers per problem),
allotted_most (to one problem), seeded (share of seeded answers in a request).

Use if: problems differ in difficulty, some are never solved although similar ones are, and the policy settles on few ways to solve.
Avoid if: groups are small, because with four answers or fewer nothing is left to divide. The rounds of a step wait for each other (see grpo).
Reference: Bamba et al., XRPO: Pushing the limits of GRPO with Targeted Exploration and Exploitation, arXiv:2510.06672: h, Pi, eta, $lambda_n$ and
kappa are the paper's.
Departures: lambda = 0.1, 4 first answers, blocks of 4, two examples, the half of the answers that are seeded, and the nearness of texts (TF-IDF in
place of an embedding model) are ours. The released code (UIUC-MLSys/XRPO) could not be read. The likelihood of a sequence is its likelihood at
sampling. Clip, KL and one update per batch are GRPO's. Tasks with an environment are refused, because an answer of several turns has no plain prompt
to move to.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.allot import Allot, HalfWidth, joined
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.mismatched_prompts import exchanged, opening
from gradus.types import Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Credit, Credited, Rollout, Signals, Task, World
from gradus.types.prompts import before, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import LogProb, LogProbs, Signal


def nearest(question: str, questions: Sequence[str], count: int) -> list[int]:
    """Returns the indices of the `count` nearest texts, the nearest first: by the cosine of TF-IDF vectors of words. Of equally near texts the earlier come first.

    >>> nearest("7 plus 5", ["3 minus 1", "7 plus 8", "7 times 5"], 2)
    [1, 2]
    """
    words = [Counter(re.findall(r"\w+|[^\w\s]", text.lower())) for text in (question, *questions)]
    seen = Counter(word for row in words for word in row)
    rare = {word: math.log((1 + len(words)) / (1 + n)) + 1 for word, n in seen.items()}
    vectors = [{word: n * rare[word] for word, n in row.items()} for row in words]
    lengths = [math.sqrt(sum(v * v for v in row.values())) or 1.0 for row in vectors]
    own = vectors[0]
    near = [sum(own.get(word, 0.0) * v for word, v in row.items()) / length for row, length in zip(vectors[1:], lengths[1:], strict=True)]
    return sorted(range(len(near)), key=lambda i: -near[i])[:count]


@dataclass(frozen=True)
class Seeded:
    """Shows solved examples for a share of the further answers to a problem whose first answers were all wrong.

    A request with `sample` above 0 asks for further answers. The examples are the nearest solved problems, with the newest right answer of the policy
    to each. The examples are removed afterwards: a seeded answer then has the plain prompt, with new log-probabilities. If the examples fill more
    than half of the model's context, no examples are shown. Metric: seeded (share of seeded answers in a request).
    """

    rollout: Rollout = Auto()
    examples: int = 2
    share: float = 0.5  # of the further answers, rounded down
    most: int = 1000  # solved problems that are remembered; the oldest are removed first
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, examples="[1, inf)", share="[0, 1)", most="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task has an environment."""
        if task.environment is not None:
            raise UserError(
                f"rollout is Seeded, which works only for answers of one turn, but task {task.name} has several turns; set "
                "--rollout.rollout Auto"
            )

    def start(self) -> dict[str, Any]:
        return {"solved": {}, "wrong": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns one judged group per request, and the state with the problems whose first answers were all wrong."""
        seeds = [self._seeded(r, world, state) for r in requests]
        plain = [replace(r, count=r.count - (s.count if s else 0)) for r, s in zip(requests, seeds, strict=True)]
        groups = one_each(await rolled(self.rollout, plain, world), plain, self)
        asked = [s for s in seeds if s is not None]
        found = iter(one_each(await rolled(self.rollout, asked, world), asked, self) if asked else ())
        for i, seed in enumerate(seeds):
            if seed is not None:
                groups[i] = joined(groups[i], await unseeded(next(found), groups[i], world, seed.player))
            world.note("seeded", seed.count / requests[i].count if seed else 0.0)
        wrong = [r.problem.id for r, g in zip(requests, groups, strict=True) if not r.sample and g.accuracy == 0.0]
        return groups, {**state, "wrong": [*state["wrong"], *wrong]}

    def _seeded(self, request: Request, world: World, state: dict[str, Any]) -> Request | None:
        """Returns the request for the seeded part of the further answers; None if this part is empty."""
        count = int(self.share * request.count)
        others = {name: row for name, row in state["solved"].items() if name != request.problem.id}
        if not request.sample or not count or not others or request.problem.id not in state["wrong"]:
            return None
        rows = list(others.values())
        chosen = nearest(request.problem.question, [question for question, _ in rows], self.examples)
        text = "\n".join(f"{rows[i][0]}\n{rows[i][1]}" for i in reversed(chosen))
        prompt = before(prompt_of(request, world.task.system), text)
        if 2 * len(world.opening(prompt, request.player).sequence) > world.context_length(request.player):
            return None
        return replace(request, count=count, prompt=prompt, sample=request.sample + request.count - count, tags=(*request.tags, "seeded"))

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with the right answers of the step. The problems of the step are no longer marked as wrong."""
        solved: Mapping[str, Any] = state["solved"]
        for t in (t for g in (*groups, *dropped) for t in g.trajectories):
            if t.right and t.source == "policy":
                solved = {**{name: row for name, row in solved.items() if name != t.problem.id}, t.problem.id: [t.problem.question, t.completion]}
        return {"solved": dict(list(solved.items())[-self.most :]), "wrong": []}


async def unseeded(group: Group, plain: Group, world: World, player: str) -> Group:
    """Returns the group under the prompt of the group `plain`, with the log-probabilities that its answers have there."""
    contexts = [t.contexts[0] for t in group.trajectories]
    prompt = opening(plain.trajectories[0].contexts[0])
    moved = [exchanged(c, prompt, world.context_length(player)) for c in contexts]
    rows = await world.score(moved, LogProb(), player)
    done = (replace(m, logprobs=row.astype(np.float32), versions=c.versions, ended=c.ended) for m, row, c in zip(moved, rows, contexts, strict=True))
    links = [Frozen({**t.links, "seeded": True}) for t in group.trajectories]
    return group.but(trajectories=tuple(t.but(contexts=(c,), links=link) for t, c, link in zip(group.trajectories, done, links, strict=True)))


def sharpened(advantages: np.ndarray, likelihoods: np.ndarray, right: np.ndarray, *, weight: float, most: float) -> np.ndarray:
    """Returns A + min(max(weight (1 - eta), 0), most A) for right answers with A > 0, and A for the others, float64 [G].

    eta = exp(s - mean s). Args: s, `likelihoods` [G]: the mean log-probability of each answer's tokens, in nats.
    """
    eta = np.exp(likelihoods - likelihoods.mean())
    extra = np.minimum(np.maximum(weight * (1 - eta), 0.0), most * advantages)
    return np.where(right & (advantages > 0), advantages + extra, advantages)


@dataclass(frozen=True)
class Sharpened:
    """Raises the advantages of right answers that the policy finds less likely than the mean of the group."""

    rule: Credit = GroupRelative()
    weight: float = 2.5  # lambda_n; 0: nothing is added
    most: float = 0.5  # kappa, the largest sum as a share of the advantage
    asks_right: ClassVar[str] = "GroupRelative"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", most="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, LogProbs())

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(g, row, signals[LogProbs()]) for g, row in zip(groups, assigned(self.rule, groups, signals), strict=True)]

    def _group(self, group: Group, row: Sequence[Credited], logprobs: Mapping[str, np.ndarray]) -> list[Credited]:
        first = np.array([float(c.advantages[0]) if len(c.advantages) else 0.0 for c in row])
        means = np.array([mean_of(logprobs[t.id], t) for t in group.trajectories])
        right = np.array([t.right for t in group.trajectories])
        extra = sharpened(first, means, right, weight=self.weight, most=self.most) - first
        return [replace(c, advantages=c.advantages + e) for c, e in zip(row, extra, strict=True)]


def mean_of(row: np.ndarray, trajectory: Trajectory) -> float:
    """Returns the mean of the rows of a trajectory; 0 without an action."""
    return float(np.asarray(row, np.float64).mean()) if trajectory.actions else 0.0


xrpo = grpo.derive(
    "xrpo",
    "The least certain problems get more answers, unsolved problems see solved examples, and unlikely right answers get larger advantages.",
    family="data",
    rollout=Allot(rule=HalfWidth(alpha=0.05, bonus=0.1, block=4), rollout=cast("Rollout", Seeded()), first=4, rounds=16),
    credit=Sharpened(GroupRelative(), weight=2.5, most=0.5),
    objective__policy__average=TokenMean(),
)

claims = (
    same_weights(
        says="If the first round has all answers and nothing is sharpened, the final weights are those of GRPO with a mean over tokens.",
        source="arXiv:2510.06672, GRPO as the method without its three parts",
        against="grpo --objective.policy.average TokenMean",
        own={"rollout.first": "none", "credit.weight": "0"},
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the mean share of problems with a gradient over 10 steps is at least 1.15 times that of "
            "equal groups with as many answers."
        ),
        source="arXiv:2510.06672, rollout allocation; the size of the effect and the ground are ours",
        against="xrpo --rollout Auto",
        measure="informative:mean",
        at_least=1.15,
        ground="ladder",
        fields={"prompts": "8", "group": "8", "eval_every": "0"},
        budget="steps=10",
    ),
)
