"""EAG-RL: an expert model names the features that matter for a patient. First these features guide a tree search for answers, then they are a part of
the reward.

    E(x) = "the" k "features with the largest" a_e(x), quad C(y) = "the features that" y "cites"
    R(y) = R_acc + 0.1 R_fmt + 0.5 (|C inter E|) / (|C union E|)
    A_i = (R_i - mean(R)) / (std(R))
    loss = 1/G sum_i 1/|y_i| sum_t -min(rho_t A_i, clip(rho_t, 1 - 0.2, 1 + epsilon_t) A_i)
    epsilon_t = 0.2 + 0.08 H_t / (max_t H_t)

A small expert network gives the importance $a_e(x)$ of each feature of the patient x. Stage 1: a tree search finds one answer per patient. A node of
the tree is a partial answer, and an edge is one step. Each of 16 simulations goes down from the root by UCT (c = 1.4), adds a child to the first node
with fewer than 4 children, and completes the answer from this child. The prompt names E(x). The value of an answer is 1 for the right label plus half
of its overlap with E. The best right answer is imitated under the plain prompt; a patient without a right answer is left out.

Stage 2 is GRPO. The answer must list the features that it relies on, before the first colon, and then give the label. $R_acc$ is 1 for the right
label, and $R_fmt$ is 1 if the list has at least one feature and no other word. The overlap is the overlap of the listed features with E; it is 0 if
nothing is listed. The upper bound of the clip grows with the entropy $H_t$ of the token, up to 0.28 for the largest entropy of the mini-batch, so
that uncertain tokens may rise further. There is no KL term. Metrics: search/found (share of patients with a right answer), search/overlap (mean
overlap of the imitated answers).

Use if: a small model for the same data knows which inputs matter, and the language model gives the right label for wrong reasons.
Avoid if: there is no expert, or its features do not cause the label (see grpo with a reward for the label alone).
Reference: Fang et al., Toward Better EHR Reasoning in LLMs: Reinforcement Learning with Expert Attention Guidance, arXiv:2508.13579: tree search guided by an expert
for the start, the overlap with the expert's features as reward, an upper clip that depends on entropy, GRPO.
Departures: No code could be reached. Our own choices are the Jaccard form of the overlap, k, all weights, the numbers of the search, the bound of the
clip, and the number of steps of stage 1. The task `patients` is our choice, too; its expert is a linear model. Labels are balanced, so no class has a
larger weight. A step ends with a blank.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.terms import Imitation
from gradus.objectives.trust import EntropyClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import jaccard
from gradus.rewards.verified import Verified
from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name
from gradus.rollouts.reprompted import reprompted
from gradus.rollouts.single_turn import one_turn
from gradus.schedules.stages import Stage, Stages
from gradus.search.tree import UCT, Node, best_child
from gradus.search.tree_search import end_of_step
from gradus.types import Context, Frozen, Group, Problem, Request, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

SALIENT = "salient"  # the column with all features of a problem, the most important first
_WORDS = re.compile(r"[a-z0-9_]+")


def cited(completion: str) -> list[str]:
    """Returns the words before the first colon, in lower case; none if there is no colon.

    >>> cited("b d: 7+2=9=high")
    ['b', 'd']
    """
    listed, colon, _ = completion.partition(":")
    return _WORDS.findall(listed.lower()) if colon else []


def attention(problem: Problem, completion: str, k: int) -> float:
    """Returns the Jaccard index of the cited features and the expert's `k` most important features; 0 if no feature is cited."""
    features = problem.meta[SALIENT]
    named = [word for word in cited(completion) if word in features]
    return jaccard(named, features[:k]) if named else 0.0


@dataclass(frozen=True)
class CitedOverlap(Combines):
    """A reward: the overlap of the features that an answer cites with the expert's `k` most important features."""

    k: int = 3
    name: ClassVar[str] = "attention"
    needs: ClassVar[tuple[Signal, ...]] = ()
    columns: ClassVar[frozenset[str]] = frozenset({SALIENT})

    def __post_init__(self) -> None:
        check_ranges(self, k="[1, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[judged(self.name, attention(t.problem, t.completion, self.k)) for t in g.trajectories] for g in groups]


@dataclass(frozen=True)
class ListsFeatures(Combines):
    """A reward: 1 if the text before the first colon has at least one feature of the problem and no other word, else 0."""

    name: ClassVar[str] = "form"
    needs: ClassVar[tuple[Signal, ...]] = ()
    columns: ClassVar[frozenset[str]] = frozenset({SALIENT})

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[judged(self.name, self.value(t.problem, t.completion)) for t in g.trajectories] for g in groups]

    def value(self, problem: Problem, completion: str) -> float:
        words = cited(completion)
        return float(bool(words) and set(words) <= set(problem.meta[SALIENT]))


def judged(name: str, value: float) -> Judgement:
    return Judgement(value, Frozen({name: value}))


@dataclass(frozen=True)
class GuidedTree:
    """Searches one answer per problem by UCT, with a prompt that names the expert's features. Gives the best right answer under the plain prompt, as a given
    answer. Problems without a right answer give nothing."""

    k: int = 3
    simulations: int = 16
    children: int = 4
    c: float = 1.4
    weight: float = 0.5  # weight of the overlap in the value of an answer
    step: str = " "  # the text that ends a step
    form: str = "look at {features}"
    plays: ClassVar[str] = "answers"
    columns: ClassVar[frozenset[str]] = frozenset({SALIENT})
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, k="[1, inf)", simulations="[1, inf)", children="[1, inf)", c="[0, inf)", weight="[0, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group with one answer for each problem with a right answer."""
        found = await asyncio.gather(*(self._search(r, world) for r in requests))
        for r, t in zip(requests, found, strict=True):
            world.note("search/found", float(t is not None))
            if t is not None:
                world.note("search/overlap", attention(r.problem, t.completion, self.k))
        groups = [Group(group_name(r), (t,), pool=(t.value,)) for r, t in zip(requests, found, strict=True) if t is not None]
        return [await reprompted(g, world.prompt(Request(g.trajectories[0].problem)), world, source="expert") for g in groups]

    async def _search(self, request: Request, world: World) -> Trajectory | None:
        text = self.form.replace("{features}", " ".join(request.problem.meta[SALIENT][: self.k]))
        asked = replace(request, count=1, prompt=after(prompt_of(request, world.task.system), text), tags=(*request.tags, "search"))
        prompt = world.prompt(asked)
        root, best = Node((prompt, len(prompt.sequence))), None
        for number in range(self.simulations):
            answer, value = await self._simulate(root, asked, number, world)
            if answer.right and (best is None or value > best[1]):
                best = (answer, value)
        return None if best is None else best[0]

    async def _simulate(self, root: Node, request: Request, number: int, world: World) -> tuple[Trajectory, float]:
        """Returns the answer of one simulation and its value. The value is already added to all nodes on the way to the answer."""
        node = root
        while len(node.children) >= self.children and (child := best_child(node, UCT(self.c).bonus)) is not None:
            node = child
        context, at = node.state
        said = at - root.state[1]
        limit = sampling_of(request, world)
        sampling = replace(limit, max_tokens=max(1, limit.limit - said))
        (drawn,) = await world.fork(context, at, 1, problem=request.problem, tags=("search", number), sampling=sampling, player=request.player)
        whole = joined_answer(node, drawn, root)
        (group,) = await world.judge([Group(f"{group_name(request)}/{number}", (one_turn(request, number, whole, world),))])
        (answer,) = group.trajectories
        value = (float(answer.right) if answer.failed is None else 0.0) + self.weight * attention(request.problem, answer.completion, self.k)
        end = at + end_of_step(whole, said, self.step, world, request.player)
        (node.add((whole, end)) if end < len(whole.sequence) else node).back_up(1, value)
        return answer, value


def joined_answer(node: Node, drawn: Context, root: Node) -> Context:
    """Returns the whole answer after the root's prompt: the partial answer of the node, then the drawn continuation."""
    if node is root:
        return drawn
    context, at = node.state
    begin = context.first(at - root.state[1])
    return begin.then(replace(drawn, parent=None))


SEARCH = Frozen(rollout=GuidedTree(), credit=Constant(), objective=Frozen(imitation=Imitation()))
"""The fields that differ in stage `search`."""

eag_rl = grpo.derive(
    "eag_rl",
    "Answers of a tree search along an expert's features are imitated; then the overlap with these features is a part of GRPO's reward.",
    family="guidance",
    reward=Verified() + 0.1 * ListsFeatures() + 0.5 * CitedOverlap(),
    objective__policy__trust=EntropyClip(),
    objective__kl=None,
    players__reference=None,
    update__count=4,
    schedule=Stages(Frozen(search=Stage(until=Steps(50), changes=SEARCH), reinforce=Stage(until=Steps(150)))),
    requires=frozenset({SALIENT}),
)

_LIMIT = same_weights(
    says="Without search, without the expert's reward, and with one bound of the clip, the final weights are those of GRPO without a KL term.",
    source="arXiv:2508.13579, without the expert",
    against="grpo --objective.kl none --players.reference none --update.count 4",
    own={"schedule": "ConstantSchedule", "reward": "Verified", "objective.policy.trust": "Clip"},
    task="patients",
)

claims = (
    _LIMIT,
    Claim(
        says="From a start model that was shown worked answers, accuracy after 10 steps is at least 0.05 above that with rewards for the label alone.",
        source="arXiv:2508.13579, comparison with GRPO without the expert's reward; the size of the effect, the task and the sizes are ours",
        against="eag_rl --reward Verified",
        measure="accuracy",
        better_by=0.05,
        task="patients",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "schedule": "ConstantSchedule"},
        budget="steps=10",
        problems=60,
        samples=2,
        script="benchmarks.warmed eag_rl",
    ),
    replace(
        _LIMIT,
        says="The final weights are also those of GRPO if the start model was shown worked answers.",
        source="arXiv:2508.13579, without the expert; stated again after a look at the built-in model, which gives no right answer, so neither arm moves",
        options=Frozen(level="2"),
        script="benchmarks.warmed eag_rl-limit",
    ),
)
