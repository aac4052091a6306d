"""A tree search over answers: a node is a partial answer, and its children are the next steps that the policy samples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gradus.rollouts.asked import sampling_of, single
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.rollouts.spans import check_text
from gradus.search.best_of import affordable
from gradus.search.node_values import NodeValue, PlayerValue
from gradus.search.tree import UCT, Choice, Node, grow
from gradus.types import Context, Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges


@dataclass(eq=False)
class Tree:
    """The tree of one request, the complete answers with their values, and the number of sampled tokens."""

    request: Request
    world: World
    root: Node
    answers: list[tuple[float, Trajectory]] = field(default_factory=list)
    spent: int = 0
    expansions: int = 0


@dataclass(frozen=True)
class TreeSearch:
    """Grows a tree of partial answers, and returns the whole answer with the largest value.

    In every round, `choice` picks nodes. For each picked node, the policy samples `samples` answers that continue it. The first step of each answer becomes a
    child; equal steps become one child. A step ends with the text `step`. All answers count as results, and `value` gives the values of children and answers.

    Each child gets its value and one visit for every answer that begins with it, and these visits are added to the node and to all nodes above. If a complete
    answer is picked again, its value is added again. At the root, the samples are the same as in `BestOf`, so with one round the result is the best of
    `samples` answers.
    """

    choice: Choice = UCT()
    value: NodeValue = PlayerValue()
    step: str = "\n"
    samples: int = 5  # answers per expanded node
    visible: int | None = None  # only the children with the largest values can be picked, at most this number; None: all
    rounds: int = 15
    tokens: int | None = None  # largest number of sampled tokens per answer: a sample beyond it is discarded and ends the search; None: no limit

    def __post_init__(self) -> None:
        check_ranges(self, samples="[1, inf)", visible="[1, inf)", rounds="[1, inf)", tokens="[1, inf)")
        if not self.step:
            raise UserError("TreeSearch.step is empty; give the text that ends a step, such as a blank or a line break")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the best answer to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` judged answers to each problem. Each answer comes from its own tree."""
        best = iter([max(tree.answers, key=lambda found: found[0])[1] for tree in await self.trees(requests, world)])
        return await world.judge([Group(group_name(r), tuple(next(best) for _ in range(r.count))) for r in requests])

    async def trees(self, requests: Sequence[Request], world: World) -> list[Tree]:
        """Returns a grown tree for each answer of the requests."""
        found = [Tree(one, world, Node(world.prompt(one))) for one in single(requests)]
        await asyncio.gather(*(grow(tree.root, self.choice, partial(self._expanded, tree), self.rounds) for tree in found))
        return found

    async def _expanded(self, tree: Tree, nodes: Sequence[Node]) -> bool:
        """Expands the nodes one after another. Returns False if the limit of tokens is reached."""
        for node in nodes:
            if node.over:
                node.back_up(1, node.value if node.visits else (await self._values([node.state], tree))[0])
            elif not await self._expand(node, tree):
                return False
        return True

    async def _expand(self, node: Node, tree: Tree) -> bool:
        """Gives the node its children, and backs up the values. Returns False if the limit of tokens is reached."""
        drawn = await self._drawn(node, tree)
        left = None if self.tokens is None else self.tokens - tree.spent
        kept = affordable(drawn, left)
        if left is not None and tree.spent and kept[0].actions > left:
            return False
        tree.spent += sum(c.actions for c in kept)
        answers = [answer_of(node, c, tree, i) for i, c in enumerate(kept)]
        firsts = self._children(node, answers, tree)
        values = await self._values(answers, tree)
        tree.answers += zip(values, answers, strict=True)
        await self.back_up(node, firsts, values, tree)
        for child in sorted(node.children, key=lambda child: -child.value)[self.visible or len(answers) :]:
            child.hidden = True
        node.expanded = True
        return len(kept) == len(drawn)

    async def back_up(self, node: Node, firsts: Sequence[Node], values: Sequence[float], tree: Tree) -> None:
        """Backs values up after the expansion of a node. `firsts`: the child of each answer; `values`: the value of each answer."""
        own = dict(zip(node.children, await self._values([child.state for child in node.children], tree), strict=True))
        for child in firsts:
            child.back_up(1, own[child])

    async def _drawn(self, node: Node, tree: Tree) -> list[Context]:
        """Samples the continuations of a node. At the root, these are the samples of the request."""
        r, world, sampling = tree.request, tree.world, sampling_of(tree.request, tree.world)
        tree.expansions += 1
        if node.parent is None:
            return (await world.sample([replace(r, count=self.samples, sample=r.sample * self.samples)]))[0]
        context = node.state.contexts[0]
        limit = replace(sampling, max_tokens=max(1, sampling.limit - context.actions))
        tags = (*r.tags, "tree", r.sample, tree.expansions)
        return await world.fork(context, len(context.sequence), self.samples, problem=r.problem, tags=tags, sampling=limit, player=r.player)

    def _children(self, node: Node, answers: Sequence[Trajectory], tree: Tree) -> list[Node]:
        """Adds a child for each different first step. Returns the child of each answer."""
        known: dict[bytes, Node] = {}
        found = []
        for answer in answers:
            context = answer.contexts[0]
            said = 0 if node.parent is None else node.state.contexts[0].actions
            end = said + end_of_step(context, said, self.step, tree.world, answer.player)
            name = context.beginning(len(context.sequence) - context.actions + end)
            if name not in known:
                known[name] = node.add(cut(answer, end, tree.world), over=end == context.actions)
            found.append(known[name])
        return found

    async def _values(self, states: Sequence[Trajectory], tree: Tree) -> list[float]:
        values, tokens = await self.value.values(states, tree.world)
        tree.spent += tokens
        return values


def answer_of(node: Node, drawn: Context, tree: Tree, index: int) -> Trajectory:
    """Returns the complete answer of a continuation of the node, without a reward."""
    r, world = tree.request, tree.world
    context = drawn if node.parent is None else node.state.contexts[0].then(replace(drawn, parent=None))
    made = one_turn(r, 0, context, world)
    return made.but(id=f"{made.id}/tree/{tree.expansions}/{index}", links=Frozen(over=True))


def cut(answer: Trajectory, end: int, world: World) -> Trajectory:
    """Returns the first `end` actions of an answer, as a trajectory with the link `over`: whether this is the whole answer."""
    context = answer.contexts[0].first(end)
    whole = end == answer.contexts[0].actions
    text = world.text(context.tokens[context.chosen], answer.player)
    return answer.but(id=f"{answer.id}/first/{end}", contexts=(context,), completion=text, ended=context.ended, links=Frozen(over=whole))


def end_of_step(context: Context, said: int, step: str, world: World, player: str) -> int:
    """Returns the number of actions from the first `said` actions on to the end of the next step. If no text `step` follows, returns the number of all
    remaining actions.
    """
    tokens = context.tokens[context.chosen][said:]
    return next((n for n in range(1, len(tokens) + 1) if step in world.text(tokens[:n], player)), len(tokens))


def ends_of_steps(context: Context, step: str, world: World, player: str) -> list[int]:
    """Returns, for each step of an answer, the number of actions up to its end. The last number is the number of all actions."""
    found, said = list[int](), 0
    while said < context.actions:
        said += end_of_step(context, said, step, world, player)
        found.append(said)
    return found
