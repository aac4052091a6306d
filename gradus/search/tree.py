"""A search tree: its nodes, the rules that choose the next node, and the loop that grows the tree. A state can be anything: a text, a position of a game."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gradus.types.ranges import check_ranges


@dataclass(eq=False)
class Node:
    """A state, its children, and the values that were backed up through this node. All values are those of one side: the player who moves at the root."""

    state: Any
    parent: Node | None = None
    prior: float = 1.0  # the probability of the step to this node, for `PUCT`
    over: bool = False  # whether the state has no further step
    opponent: bool = False  # whether the other side moves in this state; it prefers small values
    hidden: bool = False  # whether no rule may choose this node
    expanded: bool = False
    visits: int = 0
    total: float = 0.0
    children: list[Node] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The mean of the values that were backed up through the node; 0 if there are none."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def depth(self) -> int:
        return len(self.way) - 1

    @property
    def way(self) -> list[Node]:
        """The nodes from this node up to the root."""
        return [self] if self.parent is None else [self, *self.parent.way]

    def below(self) -> list[Node]:
        """All nodes below this node, parents first."""
        return [node for child in self.children for node in (child, *child.below())]

    def add(self, state: Any, **fields: Any) -> Node:
        """Adds a child and returns it."""
        child = Node(state, self, **fields)
        self.children.append(child)
        return child

    def back_up(self, visits: int, total: float) -> None:
        """Adds `visits` visits, with the sum `total` of their values, to this node and to all nodes above."""
        for node in self.way:
            node.visits, node.total = node.visits + visits, node.total + total


class Choice(Protocol):
    """Chooses the nodes of the next round."""

    def chosen(self, root: Node) -> list[Node]:
        """Returns the nodes to expand. If a node has no further step, it is only visited again. An empty list ends the search."""
        ...


def best_child(node: Node, score: Callable[[Node], float]) -> Node | None:
    """Returns the visible child with the largest sum of mean value and `score`, or None if no child is visible. If sums are equal, returns the earliest
    child.

    If the other side moves at the node, the values count with the opposite sign.
    """
    side = -1.0 if node.opponent else 1.0
    seen = [child for child in node.children if not child.hidden]
    return max(seen, key=lambda child: side * child.value + score(child)) if seen else None


def descend(root: Node, score: Callable[[Node], float]) -> list[Node]:
    """Goes down from the root, to the best child of each expanded node, and returns the first node that is not expanded."""
    node = root
    while node.expanded and not node.over:
        child = best_child(node, score)
        if child is None:
            return []
        node = child
    return [node]


@dataclass(frozen=True)
class UCT:
    """Goes down to the child with the largest V + c sqrt(ln N / n). N and n are the visits of the parent and of the child.

    If n is 0, the bonus is infinite. Kocsis and Szepesvari, Bandit based Monte-Carlo planning, 2006.
    """

    c: float = 1.4

    def __post_init__(self) -> None:
        check_ranges(self, c="[0, inf)")

    def bonus(self, node: Node) -> float:
        """Returns the second term of a child."""
        assert node.parent is not None
        if node.visits == 0:
            return math.inf
        return self.c * math.sqrt(math.log(max(1, node.parent.visits)) / node.visits)

    def chosen(self, root: Node) -> list[Node]:
        return descend(root, self.bonus)


@dataclass(frozen=True)
class BoundedUCT:
    """Goes down to the child with the largest V + c sqrt((1 + ln N) / (0.1 + n)). N and n are the visits of the parent and of the child.

    A child without a visit has a finite bonus, so the search can leave such a child out.
    """

    c: float = 0.1

    def __post_init__(self) -> None:
        check_ranges(self, c="[0, inf)")

    def bonus(self, node: Node) -> float:
        """Returns the second term of a child."""
        assert node.parent is not None
        return self.c * math.sqrt((1 + math.log(max(1, node.parent.visits))) / (0.1 + node.visits))

    def chosen(self, root: Node) -> list[Node]:
        return descend(root, self.bonus)


@dataclass(frozen=True)
class PUCT:
    """Goes down to the child with the largest V + c p sqrt(N) / (1 + n), where p is the prior of the child. Silver et al., 2017."""

    c: float = 1.25

    def __post_init__(self) -> None:
        check_ranges(self, c="[0, inf)")

    def bonus(self, node: Node) -> float:
        """Returns the second term of a child."""
        assert node.parent is not None
        return self.c * node.prior * math.sqrt(node.parent.visits) / (1 + node.visits)

    def chosen(self, root: Node) -> list[Node]:
        return descend(root, self.bonus)


def leaves(root: Node) -> list[Node]:
    """Returns the visible nodes that can be expanded, parents first."""
    return [n for n in (root, *root.below()) if not n.expanded and not n.over and not any(one.hidden for one in n.way)]


@dataclass(frozen=True)
class BestFirst:
    """Expands the leaf with the largest value in the whole tree. If values are equal, expands the earliest leaf. The search ends if no leaf is left."""

    def chosen(self, root: Node) -> list[Node]:
        found = leaves(root)
        return [max(found, key=lambda node: node.value)] if found else []


@dataclass(frozen=True)
class Beam:
    """Expands the `width` leaves of the deepest level with the largest values. The search ends if no leaf of this level is left."""

    width: int = 4

    def __post_init__(self) -> None:
        check_ranges(self, width="[1, inf)")

    def chosen(self, root: Node) -> list[Node]:
        depth = max(node.depth for node in (root, *root.below()))
        return sorted((n for n in leaves(root) if n.depth == depth), key=lambda node: -node.value)[: self.width]


async def grow(root: Node, choice: Choice, expand: Callable[[Sequence[Node]], Awaitable[bool]], rounds: int) -> None:
    """Grows the tree for `rounds` rounds, or until no node can be chosen, or until `expand` returns False.

    `expand` gives the chosen nodes their children, marks them as expanded, and backs values up.
    """
    for _ in range(rounds):
        nodes = choice.chosen(root)
        if not nodes or not await expand(nodes):
            return
