"""A graph of thoughts: problems, their parts, and attempts at them. An agent chooses operations on the graph; a player writes the attempts.

Besta et al., Graph of Thoughts: Solving Elaborate Problems with Large Language Models, arXiv:2308.09687, for the graph and its operations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gradus.rollouts.asked import single
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import grouped
from gradus.search.node_values import RewardOfText
from gradus.types import Frozen, Group, Problem, Request, Trajectory
from gradus.types.answers import final_answer
from gradus.types.parts import World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges

CALLS = ("solve", "refine", "aggregate")  # the operations that let the player write an attempt


@dataclass(frozen=True)
class Operation:
    """An operation and the numbers of its nodes. For `keep_best`, the number of kept nodes comes first."""

    name: str
    nodes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.name, *map(str, self.nodes)])


@dataclass(frozen=True)
class ItemHalves:
    """Splits a problem with a column `items`, such as a problem of the task `sorting`, into two halves. Also writes the prompts of the reasoning agent."""

    kinds: tuple[str, ...] = ("up", "down", "letters", "words")  # the categories of problems that can be split
    join: str = "merge {answers}"
    repair: str = "repair {problem}: {answer}"

    def parts(self, problem: Problem) -> list[Problem]:
        """Returns both halves; an empty list if the problem cannot be split."""
        items, kind = tuple(problem.meta.get("items", ())), problem.meta.get("category")
        if kind not in self.kinds or len(items) < 2:
            return []
        half = (len(items) + 1) // 2
        return [self._half(problem, str(kind), some, i) for i, some in enumerate((items[:half], items[half:]))]

    def _half(self, problem: Problem, kind: str, items: tuple[str, ...], number: int) -> Problem:
        named = replace(problem, id=f"{problem.id}.{number}", answer=None, meta=Frozen({**problem.meta, "items": items}))
        return worded(named, f"{kind} {' '.join(items)}")

    def joined(self, problem: Problem, answers: Sequence[str]) -> str:
        return filled(self.join, problem=problem.question, answers=", ".join(answers))

    def repaired(self, problem: Problem, answer: str) -> str:
        return filled(self.repair, problem=problem.question, answer=answer)


def worded(problem: Problem, text: str) -> Problem:
    """Returns the problem with another question."""
    return replace(problem, text=text) if problem.text is not None else replace(problem, messages=({"role": "user", "content": text},))


@dataclass(eq=False)
class Thought:
    """A node: a problem, or (with `answer`) an attempt at the problem of node `of`."""

    problem: Problem
    parents: tuple[int, ...] = ()
    of: int = -1
    made: str = "problem"
    answer: Trajectory | None = None
    score: float | None = None
    dropped: bool = False

    @property
    def said(self) -> str:
        return "" if self.answer is None else final_answer(self.answer.completion).rpartition("=")[2].strip()


@dataclass(eq=False)
class ThoughtGraph:
    """The graph of one episode. Changes by `apply`; a refused operation leaves the nodes as they are."""

    request: Request
    splits: ItemHalves
    nodes: list[Thought] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    refused: int = 0
    calls: int = 0
    policy_calls: int = 0

    def parts(self, node: int) -> list[int]:
        """Returns the problems into which a problem was split."""
        return [i for i, n in enumerate(self.nodes) if n.parents == (node,) and n.answer is None]

    def attempts(self, node: int) -> list[int]:
        """Returns the attempts at a problem that were not dropped."""
        return [i for i, n in enumerate(self.nodes) if n.of == node and not n.dropped]

    def best(self, node: int) -> int | None:
        """Returns the attempt at a problem with the largest score; if scores are equal, the earliest. An attempt without a score counts as 0."""
        return max(self.attempts(node), key=self.worth, default=None)

    def worth(self, node: int) -> float:
        return self.nodes[node].score or 0.0

    def shown(self) -> str:
        """Returns the graph as text, one line per node that was not dropped."""
        lines = []
        for i, n in enumerate(self.nodes):
            origin = "".join(f" {p}" for p in n.parents)
            what = n.problem.question if n.answer is None else f"={n.said}" + ("" if n.score is None else f" score {n.score:g}")
            lines += [] if n.dropped else [f"{i} {n.made}{origin}: {what}"]
        return "\n".join(lines)

    def objection(self, action: Operation) -> str | None:
        """Returns the reason why an operation is not possible; None if it is possible."""
        nodes = action.nodes[1:] if action.name == "keep_best" else action.nodes
        if any(i >= len(self.nodes) or self.nodes[i].dropped for i in nodes) or len(set(nodes)) < len(nodes):
            return "no such node"
        answered = [self.nodes[i].answer is not None for i in nodes]
        of = [self.nodes[i].of for i in nodes]
        if action.name == "stop":
            return None if not nodes else "stop has no node"
        if not nodes or (action.name in ("decompose", "solve", "refine") and len(nodes) > 1):
            return "wrong number of nodes"
        if action.name in ("decompose", "solve"):
            if any(answered):
                return "the node is an attempt"
            if action.name == "decompose" and (self.parts(nodes[0]) or not self.splits.parts(self.nodes[nodes[0]].problem)):
                return "the node cannot be split"
        elif not all(answered):
            return "a node is not solved"
        if action.name == "keep_best" and (len(set(of)) > 1 or action.nodes[0] < 1):
            return "these are not attempts at one problem"
        if action.name == "aggregate" and of != self.parts(self.nodes[of[0]].parents[0] if self.nodes[of[0]].parents else -1):
            return "these are not the parts of one problem, in order"
        return None

    async def apply(self, action: Operation | None, world: World) -> None:
        """Carries an operation out, or refuses it. Both are written to the history."""
        reason = "no operation" if action is None else self.objection(action)
        self.history.append(f"{action}: {reason or 'done'}")
        if action is None or reason is not None:
            self.refused += 1
        elif action.name == "decompose":
            self.nodes += [Thought(p, action.nodes) for p in self.splits.parts(self.nodes[action.nodes[0]].problem)]
        elif action.name == "score":
            found, _ = await RewardOfText().values([t for i in action.nodes if (t := self.nodes[i].answer) is not None], world)
            for i, value in zip(action.nodes, found, strict=True):
                self.nodes[i].score = value
        elif action.name == "keep_best":
            for i in sorted(action.nodes[1:], key=lambda i: -self.worth(i))[action.nodes[0] :]:
                self.nodes[i].dropped = True
        elif action.name in CALLS:
            await self._call(action, world)

    async def _call(self, action: Operation, world: World) -> None:
        """Lets the reasoning agent write one attempt."""
        first = self.nodes[action.nodes[0]]
        of = action.nodes[0]
        if action.name == "refine":
            of = first.of
        elif action.name == "aggregate":
            of = self.nodes[first.of].parents[0]
        problem = self.nodes[of].problem
        asked = problem
        if action.name == "refine":
            asked = worded(problem, self.splits.repaired(problem, first.said))
        elif action.name == "aggregate":
            asked = worded(problem, self.splits.joined(problem, [self.nodes[i].said for i in action.nodes]))
        r = self.request
        tags = (*r.tags, "thought", r.sample, len(self.history))
        (group,) = await grouped([replace(r, problem=asked, count=1, sample=0, tags=tags)], world)
        self.calls += 1
        self.nodes.append(Thought(problem, action.nodes, of, action.name, group.trajectories[0].but(problem=problem)))


class GraphAgent(Protocol):
    """Chooses the next operation on a graph."""

    async def chosen(self, graph: ThoughtGraph, world: World) -> Operation | None:
        """Returns the next operation; None if no operation was found."""
        ...


def aggregate(graph: ThoughtGraph, parts: Sequence[int]) -> Operation:
    """Returns the aggregate of the best attempts at the parts."""
    return Operation("aggregate", tuple(best for part in parts if (best := graph.best(part)) is not None))


@dataclass(frozen=True)
class FixedSchedule:
    """Decomposes `depth` times, makes `attempts` attempts at each node, scores them, keeps the best, and aggregates. No result changes the schedule."""

    depth: int = 1
    attempts: int = 3

    def __post_init__(self) -> None:
        check_ranges(self, depth="[0, inf)", attempts="[1, inf)")

    async def chosen(self, graph: ThoughtGraph, world: World) -> Operation | None:
        return self.next(graph, 0, self.depth) or Operation("stop")

    def next(self, graph: ThoughtGraph, node: int, depth: int) -> Operation | None:
        """Returns the next operation for a problem; None if its best attempt is known."""
        parts, made = graph.parts(node), sum(n.of == node for n in graph.nodes)
        if depth > 0 and not parts and graph.splits.parts(graph.nodes[node].problem):
            return Operation("decompose", (node,))
        for part in parts:
            if (found := self.next(graph, part, depth - 1)) is not None:
                return found
        if made < self.attempts:
            return aggregate(graph, parts) if parts else Operation("solve", (node,))
        tries = tuple(graph.attempts(node))
        if any(graph.nodes[i].score is None for i in tries):
            return Operation("score", tries)
        return Operation("keep_best", (1, *tries)) if len(tries) > 1 else None


@dataclass(frozen=True)
class ThoughtGraphSearch:
    """Plays one episode on a graph of thoughts for each answer. `agent` chooses the operations, and the player of the request is the reasoning agent."""

    agent: GraphAgent = FixedSchedule()
    splits: ItemHalves = ItemHalves()
    steps: int = 30  # largest number of operations of an episode, including refused operations

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the answer to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` judged answers to each problem. Each answer has its own graph."""
        found = await asyncio.gather(*(self._answer(r, world) for r in single(requests)))
        made, costs = iter([answer for answer, _ in found]), iter([cost for _, cost in found])
        groups = await world.judge([Group(group_name(r), tuple(next(made) for _ in range(r.count))) for r in requests])
        return [g.but(trajectories=tuple(t.but(extra=Frozen({**t.extra, **next(costs)})) for t in g.trajectories)) for g in groups]

    async def _answer(self, request: Request, world: World) -> tuple[Trajectory, dict[str, float]]:
        """Returns the best attempt at the whole problem, and the cost of the episode."""
        graph = await self.played(request, world)
        best = graph.best(0)
        assert best is not None
        answer = graph.nodes[best].answer
        assert answer is not None
        cost = {"calls": graph.calls, "policy_calls": graph.policy_calls, "refused": graph.refused / len(graph.history)}
        for name, value in cost.items():
            world.note(name, value)
        return answer, cost

    async def played(self, request: Request, world: World) -> ThoughtGraph:
        """Returns the graph at the end of an episode. It has an attempt at the whole problem."""
        graph = ThoughtGraph(request, self.splits, [Thought(request.problem)])
        for _ in range(self.steps):
            action = await self.agent.chosen(graph, world)
            await graph.apply(action, world)
            if action == Operation("stop"):
                break
        if graph.best(0) is None:
            await graph.apply(Operation("solve", (0,)), world)
        return graph
