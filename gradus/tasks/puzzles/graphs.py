"""Graph problems of eighteen kinds: ways, parts, cycles, orders, flows, trees, cliques. Every answer is checked on the graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, combinations, pairwise

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, ending, hints
from gradus.tasks.puzzles import graph_kinds as on
from gradus.tasks.puzzles.graph_kinds import Check, Graph, Solved
from gradus.types import Frozen, Outcome, Problem, unknown
from gradus.types.parts import Task

Edges = Sequence[tuple[str, str]]

_SIZES = {1: (4, 90), 2: (6, 150), 3: (8, 240), 4: (12, 450), 5: (18, 900), 6: (26, 1800)}
"""Level -> number of nodes, and the limit of a completion: the characters of the longest worked solution, and some more."""
_TAIL = 1024
_NONE = 0.3  # share of the problems whose right answer is "none"


@dataclass(frozen=True)
class Kind:
    """`draw`: nodes and level -> edges and the walk planted in them. `ends`: number of nodes in the question. `rule`, `plan`: hints."""

    draw: Callable[[random.Random, str, int], tuple[Edges, str]]
    solve: Callable[[Graph], Solved]
    check: Check
    rule: str
    plan: str
    chance: float  # share of the most frequent answer at level 2, measured on 4,000 problems
    ends: int = 0
    directed: bool = False
    weighted: bool = False


def graphs(level: int = 2, kinds: str = "all", encoding: str = "edges") -> Task:
    """Graphs of 4, 6, 8, 12, 18 and 26 nodes at `level` 1 to 6.

    `kinds`: "all" or a list of keys of `KINDS`, which contains the rule of each kind. `encoding`: a key of `ENCODINGS`; the answers do not depend on the
    encoding. Raises: UserError for an unknown kind or encoding.
    """
    names = chosen("graphs", kinds, KINDS)
    if encoding not in ENCODINGS:
        raise unknown("encoding", encoding, ENCODINGS, "Give one with --task.encoding")
    return generated_task(
        "graphs",
        partial(_graphs, kinds=names) if encoding == "edges" else partial(_graphs, kinds=names, encoding=encoding),
        verify,
        level=level,
        levels=(min(_SIZES), max(_SIZES)),
        max_tokens=_SIZES.get(level, (0, 0))[1],
        chance=sum(KINDS[name].chance for name in names) / len(names),
        about=f'graphs: "path A D: AB AC BD" -> "AB AC BD =ABD"; A>B leads one way, AB3 weighs 3; kinds: {", ".join(names)}',
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" is one of the right answers, else 0.0."""
    said = ending(completion, _TAIL)
    if not said or not said.isascii():
        return 0.0
    kind, meta = KINDS[problem.meta["category"]], problem.meta
    graph = Graph(tuple((a, b, w) for a, b, w in meta["edges"]), kind.directed, tuple(meta["ends"]))
    return float(kind.check(graph, said, meta["best"]))


def _tree(rng: random.Random, nodes: Sequence[str]) -> list[tuple[str, str]]:
    order = rng.sample(nodes, len(nodes))
    return [(rng.choice(order[:i]), node) for i, node in enumerate(order) if i]


def _more(rng: random.Random, edges: Edges, allowed: Edges, count: int) -> list[tuple[str, str]]:
    """Returns the edges, and up to `count` more edges from `allowed` that join other pairs of nodes."""
    there = {frozenset(edge) for edge in edges}
    free = [edge for edge in allowed if frozenset(edge) not in there]
    return [*edges, *rng.sample(free, min(count, len(free)))]


def _connected(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    return _more(rng, _tree(rng, nodes), list(combinations(nodes, 2)), rng.randint(1, len(nodes) // 2)), ""


def _dense(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns about two edges per node. Some of the edges form a clique of up to 6 nodes."""
    some = rng.sample(nodes, min(6, rng.randint(3, 3 + level // 2)))
    edges = _more(rng, _tree(rng, nodes), list(combinations(some, 2)), 99)
    return _more(rng, edges, list(combinations(nodes, 2)), max(0, 2 * len(nodes) - len(edges) - 4)), ""


def _scattered(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns a graph of one or several connected parts. Each part has at least two nodes."""
    sizes = [2] * rng.randint(1, min(len(nodes) // 2, 6))
    for _ in range(len(nodes) - sum(sizes)):
        sizes[rng.randrange(len(sizes))] += 1
    mixed = rng.sample(nodes, len(nodes))
    parts = [mixed[b - size : b] for size, b in zip(sizes, accumulate(sizes), strict=True)]
    within = [pair for part in parts for pair in combinations(part, 2)]
    return _more(rng, [edge for part in parts for edge in _tree(rng, part)], within, rng.randint(0, len(nodes) // 3)), ""


def _forest(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns two trees or, more often, a connected graph with a cycle."""
    if rng.random() < _NONE:
        cut = rng.randint(2, len(nodes) - 2)
        mixed = rng.sample(nodes, len(nodes))
        return [*_tree(rng, mixed[:cut]), *_tree(rng, mixed[cut:])], ""
    return _more(rng, _tree(rng, nodes), list(combinations(nodes, 2)), rng.randint(1, 2)), ""


def _two_sided(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns a connected graph, in most cases without an odd cycle."""
    tree = _tree(rng, nodes)
    side = {tree[0][0]: 0}
    for a, b in tree:
        side[b] = 1 - side[a]
    across = [(a, b) for a, b in combinations(nodes, 2) if side[a] != side[b]]
    within = [(a, b) for a, b in combinations(nodes, 2) if side[a] == side[b]]
    edges = _more(rng, tree, across, rng.randint(1, len(nodes) // 2))
    return _more(rng, edges, within, 1 if rng.random() < _NONE else 0), ""


def _arrows(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    edges = _more(rng, _tree(rng, nodes), list(combinations(nodes, 2)), len(nodes) // 3)
    return [rng.choice(((a, b), (b, a))) for a, b in edges], ""


def _before(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns directed edges that agree with one order of the nodes. In some graphs, an additional edge closes a cycle."""
    order = rng.sample(nodes, len(nodes))
    place = {node: i for i, node in enumerate(order)}
    edges, _ = _connected(rng, nodes, level)
    arrows = [(a, b) if place[a] < place[b] else (b, a) for a, b in edges]
    if rng.random() < _NONE:
        graph = Graph(tuple((a, b, 1) for a, b in arrows), directed=True)
        arrows = _more(rng, arrows, [(b, a) for a in nodes for _, b in on.breadth_first(graph, a)], 1)
    return arrows, ""


def _tour(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns the edges of a walk through every node, and further edges."""
    way = "".join(rng.sample(nodes, len(nodes)))
    return _more(rng, list(pairwise(way)), list(combinations(nodes, 2)), rng.randint(1, len(nodes) // 2)), way


def _drawing(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns the edges of a graph, and a walk that visits every node and uses every edge once. Some graphs have no such walk, because more than two nodes have
    an odd degree."""
    while rng.random() < _NONE:
        edges, _ = _connected(rng, nodes, level)
        ends = [node for edge in edges for node in edge]
        if sum(ends.count(node) % 2 for node in nodes) > 2:
            return edges, ""
    while True:
        way = rng.sample(nodes, len(nodes))
        for _ in range(len(nodes) // 3):
            way.insert(rng.randint(0, len(way)), rng.choice(nodes))
        edges = list(pairwise(way))
        if all(a != b for a, b in edges) and len({frozenset(edge) for edge in edges}) == len(edges):
            return edges, "".join(way)


def _network(rng: random.Random, nodes: str, level: int) -> tuple[Edges, str]:
    """Returns a flow network from the first node of a random order to the last node. Every node lies on a way between these two."""
    order = rng.sample(nodes, len(nodes))
    edges = dict.fromkeys((rng.choice(order[:i]), node) for i, node in enumerate(order) if i)
    for i, node in enumerate(order[:-1]):
        if not any(a == node for a, _ in edges):
            edges[(node, rng.choice(order[i + 1 :]))] = None
    return _more(rng, list(edges), list(combinations(order, 2)), rng.randint(1, len(nodes) // 2)), order[0] + order[-1]


KINDS: dict[str, Kind] = {
    "path": Kind(_connected, on.solve_path, on.check_path, "a shortest way", "mark the nodes one step away, then two", 0.0, ends=2),
    "dist": Kind(_connected, on.solve_distance, on.exact, "steps of a shortest way", "mark the nodes one step away, then two", 0.57, ends=2),
    "cheap": Kind(
        _connected, on.solve_cheapest, on.check_cheapest, "a way of least weight", "settle the nearest node first", 0.0, 2, weighted=True
    ),
    "linked": Kind(_scattered, on.solve_linked, on.exact, "is there a way, yes or no", "collect all that can be reached", 0.56, ends=2),
    "parts": Kind(_scattered, on.solve_parts, on.exact, "how many connected parts", "collect connected nodes", 0.37),
    "cycle": Kind(_forest, on.solve_cycle, on.check_cycle, "a cycle or none", "take nodes with one edge away again and again", 0.32),
    "colour": Kind(
        _two_sided, on.solve_colour, on.check_colour, "every node 0 or 1, neighbours different (A0 B1), or none", "go on by turns", 0.3
    ),
    "order": Kind(
        _before,
        on.solve_order,
        on.check_order,
        "all nodes so that every arrow points ahead, or none",
        "take a free one",
        0.26,
        directed=True,
    ),
    "visit": Kind(_tour, on.solve_visit, on.check_visit, "a way through every node once", "begin at a node with few edges", 0.0),
    "trail": Kind(_drawing, on.solve_trail, on.check_trail, "a way along every edge once, or none", "count nodes of odd degree", 0.18),
    "flow": Kind(_network, on.solve_flow, on.exact, "the most that can flow", "fill one way after the other", 0.09, 2, True, True),
    "span": Kind(
        _connected, on.solve_span, on.exact, "least weight that connects all", "light edges first, no circle", 0.08, weighted=True
    ),
    "clique": Kind(_dense, on.solve_clique, on.check_clique, "most nodes of which any two have an edge", "compare neighbours", 0.0),
    "apart": Kind(_dense, on.solve_apart, on.check_apart, "most nodes of which no two have an edge", "begin with few neighbours", 0.0),
    "match": Kind(_connected, on.solve_match, on.check_match, "most edges that share no node", "begin at a node with one edge", 0.0),
    "degree": Kind(_connected, on.solve_degree, on.exact, "how many edges a node has", "write them down and count", 0.39, ends=1),
    "bridges": Kind(
        _connected, on.solve_bridges, on.check_bridges, "the edges without which it falls apart, or none", "look for a way round", 0.22
    ),
    "reach": Kind(_arrows, on.solve_reach, on.check_reach, "all nodes one can get to, itself too", "follow the arrows", 0.0, 1, True),
}


def _by_edge(edges: Sequence[tuple[str, str, int]], directed: bool, weighted: bool) -> str:
    arrow = ">" if directed else ""
    return " ".join(f"{a}{arrow}{b}{w if weighted else ''}" for a, b, w in edges)


def _by_node(edges: Sequence[tuple[str, str, int]], directed: bool, weighted: bool) -> str:
    near: dict[str, list[str]] = {node: [] for a, b, _ in edges for node in (a, b)}
    for a, b, w in edges:
        near[a].append(f"{b}{w if weighted else ''}")
        if not directed:
            near[b].append(f"{a}{w if weighted else ''}")
    return " ".join(f"{node}:{','.join(sorted(near[node])) or '-'}" for node in sorted(near))


def _as_story(edges: Sequence[tuple[str, str, int]], directed: bool, weighted: bool) -> str:
    verb = "knows" if directed else "is a friend of"
    return " ".join(f"{a} {verb} {b}{f' since {w} years' if weighted else ''}." for a, b, w in edges)


ENCODINGS: dict[str, Callable[[Sequence[tuple[str, str, int]], bool, bool], str]] = {"edges": _by_edge, "nodes": _by_node, "story": _as_story}
"""How a question writes its graph: its edges ("AB BC"), the neighbours of each node ("A:B B:A,C C:B"), or sentences about friends."""


def _graphs(rng: random.Random, level: int, kinds: tuple[str, ...], encoding: str = "edges") -> Draft:
    name = rng.choice(kinds)
    kind = KINDS[name]
    nodes = "".join(sorted(rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _SIZES[level][0])))
    drawn, planted = kind.draw(rng, nodes, level)
    sorted_ends = [(a, b) if kind.directed else (min(a, b), max(a, b)) for a, b in rng.sample(drawn, len(drawn))]
    most = (9 if level < 4 else 50) if kind.weighted else 1
    edges = tuple((a, b, rng.randint(1, most)) for a, b in sorted_ends)
    graph = Graph(edges, kind.directed, _ends(rng, kind, Graph(edges, kind.directed), planted), planted)
    solved = kind.solve(graph)
    written = ENCODINGS[encoding](edges, kind.directed, kind.weighted)
    solution = f"{solved.worked} ={solved.answer}"
    knowledge = (kind.rule, f"; {len(nodes)} nodes", f", {len(edges)} edges")
    return Draft(
        question=f"{' '.join([name, *graph.ends])}: {written}",
        answer=solved.answer,
        solution=solution,
        content=_content(graph),
        meta=Frozen(category=name, edges=edges, ends=graph.ends, best=solved.best, hints=hints(knowledge, (kind.plan,), solution)),
    )


def _ends(rng: random.Random, kind: Kind, graph: Graph, planted: str) -> tuple[str, ...]:
    """Returns the nodes in the question. Between two such nodes there is no edge, if possible, and every distance that occurs is equally likely. For the kind
    `linked`, most pairs of nodes have no way between them, if possible."""
    if kind.draw is _network:
        return tuple(planted)
    if kind.ends < 2:
        return tuple(rng.sample(graph.nodes, kind.ends))
    by_steps: dict[int, list[tuple[str, str]]] = {}
    for a, b in combinations(graph.nodes, 2):
        by_steps.setdefault(_steps(graph, a, b), []).append((a, b))
    far = [steps for steps in by_steps if steps != 1] or [1]
    if kind.draw is _scattered and 0 in far and rng.random() < 0.7:
        far = [0]  # "no" is right for about half of the problems at every level
    return tuple(rng.sample(rng.choice(by_steps[rng.choice(far)]), 2))


def _steps(graph: Graph, start: str, goal: str) -> int:
    """Returns the number of edges of a shortest way; 0 if there is no way."""
    far = {start: 0}
    for a, b in on.breadth_first(graph, start):
        far[b] = far[a] + 1
    return far.get(goal, 0)


def _content(graph: Graph) -> str:
    """Returns the graph as text, with indices in place of letters. The question is not part of this text, so all questions about a graph are in the same split."""
    places = [(graph.place(a), graph.place(b), w) for a, b, w in graph.edges]
    return f"{'>' if graph.directed else '-'} {sorted(places)}"
