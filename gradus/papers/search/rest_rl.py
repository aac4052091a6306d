"""ReST-RL: GRPO on problems whose rewards vary and on their partial solutions; then a value model, learned from tree search, guides decoding by lines.

    "keep x if" std(R(y_1), ..., R(y_n)) >= 0.05
    P(i) = alpha^(i-1) / (sum_(j=1)^L alpha^(j-1)), quad i = 1, ..., L
    u = V + c sqrt((1 + ln N) / (0.1 + n))
    loss_V = "mean over states" s "of" (V(s) - hat V(s))^2

Stage 1, ReST-GRPO. A step samples n answers per problem. A problem whose rewards have a deviation below 0.05 is dropped. If the best answer has a
reward of at least 0.9, it is cut after each of its L lines, including the last line. Each cut gives a partial answer, and ceil(L / 2) of the partial
answers are drawn by P with replacement. alpha is 0.95, so short partial answers are drawn more often. A further group of answers continues each drawn
partial answer. The reward and the loss are as in GRPO. The tokens of the partial answer have no loss.

Stage 2. The policy does not change, and a value model learns from tree search (`TreeStates`). In each of 100 rounds, 5 answers continue the picked node. The
first lines of these answers become the children of the node, and the rewards of the answers are added to the node and to all nodes above; c is 0.2. The
target $hat V$ of an expanded node is the mean of the rewards that were added to this node. The target of a whole answer is its own reward.

At test time the value model replaces the reward (`TreeSearch`). The value model gives each new child a value. Every answer that begins with the child
counts this value once more; c is 0.1, and there are 15 rounds. The result is the answer with the largest value.

Metrics: spread (share of trained groups with unequal rewards), partial (groups that continue partial answers, per problem), kept_problems (share),
nodes (states per tree).

Use if: answers have several steps, their rewards differ within groups, and test time allows many samples.
Avoid if: answers have only one step, or a vote is enough (see grpo with --search Majority).
Reference: Zhoubian et al., ReST-RL: Achieving Accurate Code Reasoning of LLMs with Optimized Self-Training and Decoding, arXiv:2508.19576: both stages, the
UCT formula, and all numbers. The released code was read (THUDM/ReST-RL).
Departures: A step filters and trains on the same answers; the paper samples a data set, filters it, and then trains. The small rewards for an end
mark (0.001) and against trailing text (10^-6 per character) are left out, because an answer has an end token. If several children have equal scores, the
earliest child is picked; the code draws at random. Every child can be picked; in the code by default only the best 3 of 5 children can be picked, and in its
documented runs all 5. The learning rate 10^-7 of the original is not used. The value model starts from the policy. A step keeps at least one group. The code
cuts the answer after an added line break; here the longest partial answer ends where the answer ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.prompt_returns import PromptReturns
from gradus.objectives.terms import ValueLoss
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.single_turn import one_turn
from gradus.schedules.stages import Stage, Stages
from gradus.search.node_values import NodeValue, RewardOfText
from gradus.search.tree import BoundedUCT, Choice, Node
from gradus.search.tree_search import Tree, TreeSearch, ends_of_steps
from gradus.types import Frozen, Group, Key, Request, Trajectory, prompt_context
from gradus.types.contexts import after_prompt
from gradus.types.moments import Steps
from gradus.types.parts import Rollout, World
from gradus.types.players import Copy, Head, Player
from gradus.types.ranges import check_ranges


def weights(lines: int, alpha: float) -> np.ndarray:
    """Returns the probability of each partial answer, which is the first 1, 2, ..., or `lines` lines of an answer.

    >>> [round(float(w), 4) for w in weights(3, 0.95)]
    [0.3506, 0.333, 0.3164]
    """
    row = alpha ** np.arange(lines)
    return row / row.sum()


def beginnings(lines: int, share: float, alpha: float, key: Key) -> list[int]:
    """Draws ceil(share * lines) partial answers, and returns the number of lines of each, from 1 to `lines`."""
    ends = np.cumsum(weights(lines, alpha))
    return [1 + int(np.searchsorted(ends[:-1], u, side="right")) for u in key.uniform(math.ceil(share * lines))]


@dataclass(frozen=True)
class PartialSolutions:
    """Adds groups of answers that continue partial answers, which are cut from the best answer in a group of `rollout`. Drops groups whose rewards hardly
    differ.

    If no group differs, the first group is returned, so that a step is never empty. The added groups are auxiliary. At test time only `rollout` plays.
    """

    rollout: Rollout = Auto()
    step: str = "\n"  # the text that ends a line
    std_min: float = 0.05  # a group with a smaller deviation of its rewards is dropped
    best_min: float = 0.9  # the best answer is cut only if its reward is at least this number
    share: float = 0.5  # partial answers per line of the best answer; 0: none
    alpha: float = 0.95
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, std_min="[0, inf)", best_min="(-inf, inf)", share="[0, inf)", alpha="(0, 1]")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the kept groups. The groups that continue partial answers become auxiliary groups."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        kept = [(r, g) for r, g in zip(requests, groups, strict=True) if deviation(g) >= self.std_min]
        asked = [r for request, group in kept for r in self._cut(request, group, world)]
        found = await world.sample(asked)
        partial = await world.judge([_continued(r, contexts, world) for r, contexts in zip(asked, found, strict=True)]) if asked else []
        world.also(partial)
        world.note("kept_problems", len(kept) / len(groups))
        world.note("partial", len(partial) / len(groups))
        for group in (*(g for _, g in kept), *partial):
            world.note("spread", float(deviation(group) > 0))
        return [g for _, g in kept] or groups[:1]

    def _cut(self, request: Request, group: Group, world: World) -> list[Request]:
        """Returns the requests that continue partial answers, which are cut from the best answer of a group."""
        judged = [t for t in group.trajectories if t.failed is None]
        best = max(judged, key=lambda t: t.value, default=None)
        if best is None or best.value < self.best_min or self.share == 0:
            return []
        context = best.contexts[0]
        ends = ends_of_steps(context, self.step, world, best.player)
        ends[-1] -= int(context.actions > 1 and not world.text(context.sequence[-1:], best.player))  # an end token is no part of a partial answer
        ends = sorted(set(ends))  # an end token alone is no line
        limit, start = sampling_of(request, world), len(context.sequence) - context.actions
        out = []
        for i, line in enumerate(beginnings(len(ends), self.share, self.alpha, world.key.fold("beginnings", request.problem.id, *request.tags))):
            at = ends[line - 1]
            sampling = replace(limit, max_tokens=max(1, limit.limit - at))
            state = prompt_context(context.sequence[: start + at], context.shown_in(start + at))
            out.append(replace(request, prompt=state, at=None, sampling=sampling, tags=(*request.tags, "partial", i)))
        return out


def deviation(group: Group) -> float:
    """Returns the deviation (of the population) of a group's rewards; 0 without a reward."""
    found = [t.value for t in group.trajectories if t.failed is None]
    return float(np.std(found)) if found else 0.0


def _continued(request: Request, contexts: Sequence[Any], world: World) -> Group:
    """Returns the group that continues a partial answer, before it is judged. A text is the whole answer, but its first tokens are not actions."""
    first = len(world.prompt(replace(request, prompt=None)).sequence)
    made = []
    for i, context in enumerate(contexts):
        text = world.text(context.sequence[first:], request.player)
        made.append(one_turn(request, i, context, world).but(completion=text))
    return Group(group_name(request), tuple(made))


@dataclass(frozen=True)
class AnswerSearch(TreeSearch):
    """The search of stage 2. A node and all nodes above it get the rewards of the answers. Children begin without visits."""

    choice: Choice = BoundedUCT(0.2)
    value: NodeValue = RewardOfText()
    rounds: int = 100

    async def back_up(self, node: Node, firsts: Sequence[Node], values: Sequence[float], tree: Tree) -> None:
        node.back_up(len(values), sum(values))


@dataclass(frozen=True)
class TreeStates:
    """Gives the states of search trees as trajectories of one action, whose reward is the value of the state. `search` grows the trees.

    The states are the expanded nodes and the whole answers. A state is read after its last token, as `PlayerValue` reads it.
    """

    search: TreeSearch = AnswerSearch()

    @property
    def test(self) -> Auto:
        return Auto()

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group of one trajectory for each state of one tree per request."""
        trees = await self.search.trees([replace(r, count=1) for r in requests], world)
        groups = [g for tree in trees for g in self._states(tree, world)]
        world.note("nodes", len(groups) / len(trees))
        return groups

    def _states(self, tree: Tree, world: World) -> list[Group]:
        inner = [(n.state if n.parent is None else n.state.contexts[0], n.value) for n in (tree.root, *tree.root.below()) if n.expanded]
        return [_state(tree.request, i, context, value, world) for i, (context, value) in enumerate([*inner, *((t.contexts[0], v) for v, t in tree.answers)])]


def _state(request: Request, index: int, context: Any, value: float, world: World) -> Group:
    named = replace(request, tags=(*request.tags, "state", index))
    made = Trajectory(
        id=trajectory_name(world.step, named, 0), problem=request.problem, contexts=(after_prompt(prompt_context(context.sequence)),), player=request.player,
        reward=value, components=Frozen(value=value), source="expert",
    )  # fmt: skip
    return Group(group_name(named), (made,), (value,))


_LEARNER = Player(
    Head(of=Copy("policy")), objective=Frozen(value=ValueLoss(None, "value", source="expert")), credit=PromptReturns(), learns_from="policy",
)  # fmt: skip
LEARNING = Frozen({"rollout": TreeStates(), "players.value": _LEARNER})
"""The fields that differ in stage 2: the states of the trees come from another source than the policy's answers, so only the value model learns from them."""

rest_rl = grpo.derive(
    "rest_rl",
    "GRPO also continues partial solutions of problems whose rewards vary; a value model learned from tree search guides decoding by lines.",
    family="search",
    rollout=PartialSolutions(),
    players__value=Player(Head(of=Copy("policy"))),
    schedule=Stages(Frozen(policy=Stage(until=Steps(100)), value=Stage(until=Steps(100), changes=LEARNING))),
    search=TreeSearch(BoundedUCT()),
)

_SMALL = {"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "60", "study.greedy": "false"}
_OURS = "the task, the sizes and the size of the effect are ours; a step of a solution ends with a blank"

claims = (
    same_weights(
        says="If no group is dropped and no answer is cut, the final weights after stage 1 are those of GRPO.",
        source="arXiv:2508.19576, without ReST-GRPO's data",
        against="grpo", own={"rollout.share": "0", "rollout.std_min": "0", "schedule": "ConstantSchedule"},
    ),
    Claim(
        says="Over 8 steps of stage 1, the share of trained groups with unequal rewards is at least 0.1 above that of the same problems without both changes.",
        source=f"arXiv:2508.19576, section on reward variance; {_OURS}",
        against="rest_rl --rollout.share 0 --rollout.std_min 0",
        measure="spread:mean", better_by=0.1, task="arithmetic", options={"level": "3"},
        fields={**_SMALL, "schedule": "ConstantSchedule", "rollout.step": " ", "study": "none"}, budget="steps=8",
    ),
    Claim(
        says="After 30 steps of stage 2 on the start model, the search is at least 0.03 above best of n by the same value model at equal sampled tokens.",
        source=f"arXiv:2508.19576, comparison of VM-MCTS with best of n; {_OURS}. 300 tokens are about 12 answers; the policy makes one step of stage 1",
        against="rest_rl --search.rounds 1 --search.samples 20",
        measure="held_out/accuracy:last", better_by=0.03, task="arithmetic", options={"level": "3"},
        fields={
            **_SMALL, "prompts": "4", "search.tokens": "300", "search.step": " ", "rollout.step": " ", "schedule.stages.policy.until": "Steps(count=1)",
            "schedule.stages.value.until": "Steps(count=30)", "schedule.stages.value.changes.rollout.search.step": " ",
            "schedule.stages.value.changes.rollout.search.rounds": "12",
        },
        budget="steps=31",
    ),
)  # fmt: skip
