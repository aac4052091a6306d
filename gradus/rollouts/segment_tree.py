"""A tree of segments of equal length: every node continues the text of its parent, and the leaves are complete answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name
from gradus.rollouts.spans import check_text
from gradus.types import Context, Ended, Frozen, Group, Request, Trajectory
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges


@dataclass(eq=False)
class SegmentNode:
    """One segment: its context, the sampled tokens from the start of the answer to the end of the segment, its children, and its value (None: no reward)."""

    path: tuple[int, ...]
    context: Context
    said: np.ndarray  # int32
    children: list[SegmentNode] = field(default_factory=list)
    value: float | None = None

    def below(self) -> list[SegmentNode]:
        """Returns all nodes below this node, parents first."""
        return [node for child in self.children for node in (child, *child.below())]


@dataclass(frozen=True)
class SegmentTree:
    """Grows a tree for each problem. At level l every node gets `branching[l]` children. A child has at most `tokens` tokens. At the last level, a child
    instead continues to the end of the answer.

    The trajectory of a node contains only the node's segment. A leaf ends an answer. The reward and the value of a leaf are the reward of the whole text. The
    value of an inner node or of the problem is the mean value of its children, without leaves that have no reward. The links of a trajectory are the `value`
    of the node, the `base` (value of its parent), the `unit` (deviation of the siblings' values) and the `path`. Leaves form the group of the problem.
    Updates also use inner nodes, as an auxiliary group with their values as rewards. The number of samples of a request has no effect. Metrics: `nodes`,
    `leaves` (per problem).
    """

    branching: tuple[int, ...] = (6, 6, 6)
    tokens: int = 600
    gives: ClassVar[frozenset[str]] = frozenset({"tree values"})
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, branching="[1, inf)", tokens="[1, inf)")

    @property
    def test(self) -> Auto:
        """The rollout of evaluation: independent answers."""
        return Auto()

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the leaves of each problem as one judged group."""
        roots = [SegmentNode((), world.prompt(request), np.zeros(0, np.int32)) for request in requests]
        await asyncio.gather(*(self._grown(root, request, world) for root, request in zip(roots, requests, strict=True)))
        groups = await world.judge([self._group(root, request, world) for root, request in zip(roots, requests, strict=True)])
        return [self._valued(root, request, group, world) for root, request, group in zip(roots, requests, groups, strict=True)]

    async def _grown(self, node: SegmentNode, request: Request, world: World) -> None:
        """Samples all nodes below a node."""
        sampling, level = sampling_of(request, world), len(node.path)
        left = sampling.limit - len(node.said)
        limit = left if level == len(self.branching) - 1 else min(left, self.tokens)
        drawn = await world.fork(
            node.context,
            len(node.context.sequence),
            self.branching[level],
            problem=request.problem,
            tags=(*request.tags, "tree", *node.path),
            sampling=replace(sampling, max_tokens=limit),
            player=request.player,
            trained=request.trained,
        )
        node.children = [SegmentNode((*node.path, i), one, np.concatenate([node.said, one.tokens[one.chosen]])) for i, one in enumerate(drawn)]
        open_ = [c for c in node.children if c.context.ended is Ended.LENGTH and limit < left]
        await asyncio.gather(*(self._grown(child, request, world) for child in open_))

    def _group(self, root: SegmentNode, request: Request, world: World) -> Group:
        return Group(group_name(request), tuple(_trajectory(n, request, world) for n in root.below() if not n.children))

    def _valued(self, root: SegmentNode, request: Request, group: Group, world: World) -> Group:
        """Sets the values of all nodes, adds the inner nodes to the step, and returns the leaves with their links."""
        nodes = root.below()
        leaves = [n for n in nodes if not n.children]
        for node, t in zip(leaves, group.trajectories, strict=True):
            node.value = t.value if t.failed is None else None
        for node in (*reversed(nodes), root):
            if node.children:
                known = [c.value for c in node.children if c.value is not None]
                node.value = float(np.mean(known)) if known else None
        links = {child.path: _links(node, child) for node in (root, *nodes) for child in node.children}
        inner = [_trajectory(n, request, world).but(reward=n.value, links=links[n.path]) for n in nodes if n.children and n.value is not None]
        if inner:
            world.also([Group(f"{group.key}/inner", tuple(inner))])
        world.note("nodes", len(nodes))
        world.note("leaves", len(leaves))
        return group.but(trajectories=tuple(t.but(links=Frozen({**t.links, **links[n.path]})) for n, t in zip(leaves, group.trajectories, strict=True)))


def _trajectory(node: SegmentNode, request: Request, world: World) -> Trajectory:
    return Trajectory(
        id=f"{world.step}/{group_name(request)}/tree/{'.'.join(map(str, node.path))}",
        problem=request.problem,
        contexts=(node.context,),
        player=request.player,
        completion=world.text(node.said, request.player),
        ended=node.context.ended,
        trained=request.trained,
    )


def _links(parent: SegmentNode, node: SegmentNode) -> Frozen[object]:
    """Returns the links of a node. A node without a value has the value of its parent, so that its advantage is 0."""
    known = [c.value for c in parent.children if c.value is not None]
    base = parent.value if parent.value is not None else 0.0
    value = node.value if node.value is not None else base
    return Frozen(value=value, base=base, unit=float(np.std(known)) if known else 0.0, path=node.path)
