"""Trees: the formulas by hand, the rules on a small game tree, and exact values that never lose at noughts and crosses."""

from __future__ import annotations

import asyncio
import math
from functools import cache

import pytest

from gradus.search.tree import PUCT, UCT, Beam, BestFirst, BoundedUCT, Node, best_child, grow
from gradus.types import UserError


def parent_of(*rows, visits):
    """A root with these visits, and children (visits, total, prior)."""
    root = Node("root", visits=visits, expanded=True)
    return root, [root.add(i, visits=n, total=t, prior=p) for i, (n, t, p) in enumerate(rows)]


def test_uct_by_hand() -> None:
    root, (one, two) = parent_of((8, 4.0, 1), (2, 0.8, 1), visits=10)
    assert one.value + UCT(1.4).bonus(one) == pytest.approx(1.2511, abs=1e-4)  # 0.5 + 1.4 sqrt(2.302585 / 8)
    assert two.value + UCT(1.4).bonus(two) == pytest.approx(1.9022, abs=1e-4)  # 0.4 + 1.4 sqrt(2.302585 / 2)
    assert UCT(1.4).chosen(root) == [two]
    assert UCT(0.0).chosen(root) == [one]
    root, (one, two) = parent_of((1, 1.0, 1), (0, 0.0, 1), visits=1)
    assert UCT().bonus(two) == math.inf
    assert UCT().chosen(root) == [two]


def test_bounded_uct_by_hand() -> None:
    root = Node("root", visits=10, expanded=True)
    one, two = root.add("one", visits=4, total=2.0), root.add("two")
    assert one.value + BoundedUCT(0.2).bonus(one) == pytest.approx(0.6795, abs=1e-4)  # 0.5 + 0.2 sqrt(3.302585 / 4.1)
    assert BoundedUCT(0.2).bonus(two) == pytest.approx(1.1494, abs=1e-4)  # 0.2 sqrt(3.302585 / 0.1), and not infinite
    assert BoundedUCT(0.2).chosen(root) == [two]
    assert BoundedUCT(0.05).chosen(root) == [one]
    assert BoundedUCT(0.05).chosen(Node("root")) != []
    with pytest.raises(UserError, match=r"BoundedUCT\.c"):
        BoundedUCT(-1.0)


def test_puct_by_hand() -> None:
    root, (one, two) = parent_of((2, 1.0, 0.25), (6, 3.6, 0.05), visits=9)
    assert PUCT(1.25).bonus(one) == pytest.approx(0.3125)  # 1.25 * 0.25 * 3 / 3
    assert PUCT(1.25).bonus(two) == pytest.approx(1.25 * 0.05 * 3 / 7)
    assert PUCT(1.25).chosen(root) == [one]  # 0.8125 against 0.6268
    assert PUCT(0.0).chosen(root) == [two]


def test_values_are_backed_up_to_the_root() -> None:
    root = Node("r")
    a = root.add("a")
    b = a.add("b")
    b.back_up(2, 1.0)
    a.back_up(1, 1.0)
    assert [(n.visits, n.total) for n in (b, a, root)] == [(2, 1.0), (3, 2.0), (3, 2.0)]
    assert root.value == pytest.approx(2 / 3)
    assert (Node("x").value, b.depth) == (0.0, 2)


GAME = {"r": "ab", "a": "cd", "b": "ef"}
VALUES = {"r": 0.0, "a": 0.4, "b": 0.6, "c": 0.9, "d": 0.1, "e": 0.3, "f": 0.5}
"""A tree of two levels. The best leaf, c, is below the worse child of the root."""


def grown(choice, rounds, root=None):
    root = Node("r") if root is None else root
    order = []

    async def expand(nodes):
        for node in nodes:
            order.append(node.state)
            for state in GAME.get(node.state, ""):
                node.add(state, over=state not in GAME).back_up(1, VALUES[state])
            node.expanded = True
        return True

    asyncio.run(grow(root, choice, expand, rounds))
    return order, root


def test_each_rule_on_a_small_tree() -> None:
    assert grown(BestFirst(), 9)[0] == ["r", "b", "a"]  # b has 0.6, then a; all other nodes end the game
    assert grown(Beam(1), 9)[0] == ["r", "b"]
    assert grown(Beam(2), 9)[0] == ["r", "b", "a"]
    # UCT without exploration: below b the mean falls to (0.6 + 0.3 + 0.5) / 3 = 0.4667, still above a's 0.4, so f, which is over, is visited again
    order, root = grown(UCT(0.0), 3)
    assert order == ["r", "b", "f"]
    assert root.children[1].value == pytest.approx(1.4 / 3)
    assert grown(UCT(2.0), 3)[0] == ["r", "b", "a"]


def test_hidden_nodes_and_the_other_side() -> None:
    root, (one, two, three) = parent_of((1, 0.9, 1), (1, 0.5, 1), (1, 0.1, 1), visits=3)
    one.hidden = True
    assert best_child(root, lambda child: 0.0) is two
    below = one.add("below")
    below.back_up(1, 5.0)
    one.expanded = True
    assert BestFirst().chosen(root) == [two]  # a node below a hidden node cannot be chosen either
    one.expanded, one.children = False, []
    root.opponent = True
    assert best_child(root, lambda child: 0.0) is three
    for child in (two, three):
        child.hidden = True
    assert UCT().chosen(root) == []
    assert BestFirst().chosen(root) == Beam().chosen(root) == []
    with pytest.raises(UserError, match=r"Beam\.width"):
        Beam(0)


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def won(board):
    return next((board[a] for a, b, c in LINES if board[a] != "." and board[a] == board[b] == board[c]), None)


def mover(board):
    return "x" if board.count(".") % 2 else "o"


def after(board):
    return [] if won(board) else [board[:i] + mover(board) + board[i + 1 :] for i, c in enumerate(board) if c == "."]


@cache
def exact(board):
    """The value for x."""
    if won(board):
        return 1.0 if won(board) == "x" else -1.0
    values = [exact(b) for b in after(board)]
    return 0.0 if not values else max(values) if mover(board) == "x" else min(values)


def move(board, me, choice):
    sign = 1.0 if me == "x" else -1.0
    root = Node(board)

    async def expand(nodes):
        for node in nodes:
            for b in () if node.expanded or node.over else after(node.state):
                node.add(b, over=not after(b), opponent=mover(b) != me, prior=0.2)
            node.expanded = True
            node.back_up(1, sign * exact(node.state))
        return True

    asyncio.run(grow(root, choice, expand, 40))
    return max(root.children, key=lambda child: (child.visits, child.value)).state


@pytest.mark.parametrize("choice", [PUCT(1.0), UCT(0.3)])
@pytest.mark.parametrize("me", ["x", "o"])
def test_with_exact_values_the_search_never_loses(choice, me) -> None:
    """Against every line of play of the other side."""
    seen, waiting, results = set(), ["." * 9], set()
    while waiting:
        board = waiting.pop()
        if board in seen:
            continue
        seen.add(board)
        if not after(board):
            results.add(won(board))
        else:
            waiting += [move(board, me, choice)] if mover(board) == me else after(board)
    assert results <= {me, None}
    assert me in results
