"""Kinds of questions about graphs. Each kind has a solver for a worked answer, and a function for checking any answer against the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any


@dataclass(frozen=True)
class Graph:
    """Every node is a capital letter and belongs to an edge. `ends`: the nodes in the question. `planted`: a walk built into the graph."""

    edges: tuple[tuple[str, str, int], ...]  # from, to, weight (1 if the question shows none)
    directed: bool = False
    ends: tuple[str, ...] = ()
    planted: str = ""

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted({node for a, b, _ in self.edges for node in (a, b)}))

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Two letters -> weight of the edge from the first letter to the second."""
        there = {a + b: w for a, b, w in self.edges}
        return there if self.directed else there | {b + a: w for a, b, w in self.edges}

    @cached_property
    def after(self) -> Mapping[str, str]:
        """Node -> its successors, in alphabetical order."""
        return {node: "".join(sorted(pair[1] for pair in self.weights if pair[0] == node)) for node in self.nodes}

    @cached_property
    def networkx(self) -> Any:
        """The graph for networkx. The graph's nodes are indices into `nodes`, because a set of texts has a different order in each process."""
        import networkx

        place = {node: i for i, node in enumerate(self.nodes)}
        made = networkx.DiGraph() if self.directed else networkx.Graph()
        made.add_nodes_from(range(len(place)))
        made.add_weighted_edges_from((place[a], place[b], w) for a, b, w in self.edges)
        return made

    def names(self, places: Sequence[int]) -> str:
        return "".join(self.nodes[i] for i in places)

    def place(self, node: str) -> int:
        return self.nodes.index(node)


@dataclass(frozen=True)
class Solved:
    """A worked solution and its answer. `best`: the value with which an answer is compared (a number, a set, or whether an answer exists)."""

    worked: str
    answer: str
    best: Any


Check = Callable[[Graph, str, Any], bool]
"""Checks an answer: graph, text of the answer, `best`."""


def walk(graph: Graph, said: str) -> str | None:
    """Returns the nodes of "ABD", "A B D", "A,B,D", "A-B-D" or "A>B>D"; None if a step is not an edge or a letter is not a node."""
    nodes = letters(said)
    if nodes is None or any(node not in graph.nodes for node in nodes):
        return None
    return nodes if all(a + b in graph.weights for a, b in pairwise(nodes)) else None


def letters(said: str) -> str | None:
    """Returns the capital letters of a text that otherwise has only spaces, commas, hyphens and arrows; else None.

    The result is also None if there is no letter, or if there are more than 200 letters.
    """
    bare = re.sub(r"[ ,>-]", "", said)
    return bare if re.fullmatch(r"[A-Z]{1,200}", bare) else None


def pairs(said: str) -> list[str] | None:
    """Returns edges such as "AB CD" or "A-B, C-D", each with its letters in alphabetical order; None for any other text."""
    found = said.replace("-", "").replace(",", " ").split()
    return ["".join(sorted(pair)) for pair in found] if all(re.fullmatch("[A-Z]{2}", pair) for pair in found) else None


def exact(graph: Graph, said: str, best: Any) -> bool:
    return said == str(best)


def breadth_first(graph: Graph, start: str) -> Iterator[tuple[str, str]]:
    """Yields (predecessor, node) for every other reachable node, in breadth-first order."""
    seen, waiting = {start}, [start]
    for node in waiting:
        for other in graph.after[node]:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
                yield node, other


def _parts(graph: Graph) -> list[str]:
    found: list[str] = []
    for node in graph.nodes:
        if not any(node in part for part in found):
            found.append("".join(sorted([node, *(other for _, other in breadth_first(graph, node))])))
    return found


def solve_path(graph: Graph) -> Solved:
    """The worked solution lists the edges of a breadth-first search, up to the goal."""
    start, goal = graph.ends
    seen: list[tuple[str, str]] = []
    for step in breadth_first(graph, start):
        seen.append(step)
        if step[1] == goal:
            break
    parent = {b: a for a, b in seen}
    way = goal
    while way[0] != start:
        way = parent[way[0]] + way
    return Solved(" ".join(a + b for a, b in seen), way, len(way) - 1)


def check_path(graph: Graph, said: str, best: Any) -> bool:
    way = walk(graph, said)
    return way is not None and (way[0], way[-1]) == graph.ends and len(way) - 1 == best


def solve_distance(graph: Graph) -> Solved:
    """The worked solution lists the distances in breadth-first order, up to the goal."""
    start, goal = graph.ends
    far = {start: 0}
    for a, b in breadth_first(graph, start):
        if goal not in far:
            far[b] = far[a] + 1
    return Solved(" ".join(f"{node}{d}" for node, d in far.items()), str(far[goal]), far[goal])


def solve_cheapest(graph: Graph) -> Solved:
    """The worked solution lists the settled nodes of Dijkstra's algorithm, the nearest first, each with its predecessor and cost."""
    start, goal = graph.ends
    open_, settled = {start: (0, "")}, dict[str, tuple[int, str]]()
    while goal not in settled:
        node = min(open_, key=lambda n: (open_[n][0], n))
        settled[node] = open_.pop(node)
        for other in graph.after[node]:
            cost = settled[node][0] + graph.weights[node + other]
            if other not in settled and (other not in open_ or cost < open_[other][0]):
                open_[other] = (cost, node)
    way = goal
    while way[0] != start:
        way = settled[way[0]][1] + way
    return Solved(" ".join(f"{came}{node}{cost}" for node, (cost, came) in settled.items()), way, settled[goal][0])


def check_cheapest(graph: Graph, said: str, best: Any) -> bool:
    way = walk(graph, said)
    return way is not None and (way[0], way[-1]) == graph.ends and sum(graph.weights[a + b] for a, b in pairwise(way)) == best


def solve_linked(graph: Graph) -> Solved:
    """The worked solution lists the set of reached nodes after each of the last steps. The set grows by one node per step."""
    start, goal = graph.ends
    reached = start
    lines = [start]
    for _, node in breadth_first(graph, start):
        if goal not in reached:
            reached += node
            lines.append(reached)
    return Solved(" ".join(lines[-6:]), answer := "yes" if goal in reached else "no", answer)


def solve_parts(graph: Graph) -> Solved:
    parts = _parts(graph)
    return Solved(" ".join(parts), str(len(parts)), len(parts))


def solve_cycle(graph: Graph) -> Solved:
    """Removes, one after another, nodes that have at most one neighbour. If nodes remain at the end, they contain a cycle."""
    left = {node: set(graph.after[node]) for node in graph.nodes}
    gone = ""
    while loose := [node for node in left if len(left[node]) < 2]:
        gone += loose[0]
        for other in left.pop(loose[0]):
            left[other].discard(loose[0])
    if not left:
        return Solved(f"-{gone}", "none", False)
    way = min(left)
    while way[-1] not in way[:-1]:
        back = way[-2] if len(way) > 1 else ""
        way += min(node for node in left[way[-1]] if node != back)
    return Solved(f"-{gone}", way[way.index(way[-1]) : -1], True)


def check_cycle(graph: Graph, said: str, best: Any) -> bool:
    """Accepts "ABC" and "ABCA" for the same cycle. Otherwise no node may repeat."""
    if said == "none":
        return not best
    ring = walk(graph, said)
    ring = ring[:-1] if ring and len(ring) > 3 and ring[0] == ring[-1] else ring
    return ring is not None and len(ring) > 2 and len(set(ring)) == len(ring) and ring[-1] + ring[0] in graph.weights


def solve_colour(graph: Graph) -> Solved:
    """Colours nodes alternately in breadth-first order from the first node. An edge between equal colours proves the answer "none"."""
    colour = {graph.nodes[0]: 0}
    for a, b in breadth_first(graph, graph.nodes[0]):
        colour[b] = 1 - colour[a]
    clash = [a + b for a, b, _ in graph.edges if colour[a] == colour[b]]
    worked = " ".join(f"{node}{c}" for node, c in colour.items())
    if clash:
        return Solved(f"{worked} {clash[0]}", "none", False)
    return Solved(worked, " ".join(f"{node}{colour[node]}" for node in graph.nodes), True)


def check_colour(graph: Graph, said: str, best: Any) -> bool:
    """Expects every node once, with its colour, in any order."""
    if said == "none":
        return not best
    bare = re.sub(r"[ ,:-]", "", said)
    given = re.findall(r"([A-Z])([01])", bare)
    colour = dict(given)
    if bare != "".join(a + b for a, b in given) or sorted(a for a, _ in given) != list(graph.nodes):
        return False
    return all(colour[a] != colour[b] for a, b, _ in graph.edges)


def solve_order(graph: Graph) -> Solved:
    """At each step, the worked solution lists the nodes without a remaining predecessor. The step then removes the first of these nodes."""
    left, lines, order = set(graph.nodes), [], ""
    while free := "".join(node for node in graph.nodes if node in left and not any(b == node and a in left for a, b, _ in graph.edges)):
        lines.append(free)
        order += free[0]
        left.remove(free[0])
    return Solved(" ".join([*lines, "-"] if left else lines), "none" if left else order, not left)


def check_order(graph: Graph, said: str, best: Any) -> bool:
    if said == "none":
        return not best
    order = letters(said)
    return order is not None and tuple(sorted(order)) == graph.nodes and all(order.index(a) < order.index(b) for a, b, _ in graph.edges)


def _degrees(graph: Graph) -> str:
    return " ".join(f"{node}{len(graph.after[node])}" for node in graph.nodes)


def solve_visit(graph: Graph) -> Solved:
    return Solved(_degrees(graph), graph.planted, True)


def check_visit(graph: Graph, said: str, best: Any) -> bool:
    way = walk(graph, said)
    return way is not None and tuple(sorted(way)) == graph.nodes


def solve_trail(graph: Graph) -> Solved:
    """The worked solution lists the degrees. If more than two degrees are odd, there is no trail."""
    return Solved(_degrees(graph), graph.planted or "none", bool(graph.planted))


def check_trail(graph: Graph, said: str, best: Any) -> bool:
    if said == "none":
        return not best
    way = walk(graph, said)
    return way is not None and sorted("".join(sorted(step)) for step in pairwise(way)) == sorted(a + b for a, b, _ in graph.edges)


def solve_flow(graph: Graph) -> Solved:
    """The worked solution lists ways from source to sink, each with its flow. Together these flows are a maximum flow."""
    import networkx

    start, goal = graph.ends
    most, flow = networkx.maximum_flow(graph.networkx, graph.place(start), graph.place(goal), capacity="weight")
    ways = []
    while left := {a: {b: f for b, f in out.items() if f} for a, out in flow.items()}.get(graph.place(start)):
        way = [graph.place(start), min(left)]
        while way[-1] != graph.place(goal):
            way.append(min(b for b, f in flow[way[-1]].items() if f))
        carried = min(flow[a][b] for a, b in pairwise(way))
        for a, b in pairwise(way):
            flow[a][b] -= carried
        ways.append(f"{graph.names(way)}{carried}")
    return Solved(" ".join(ways), str(most), most)


def solve_span(graph: Graph) -> Solved:
    """The worked solution lists the edges of a minimum spanning tree, the lightest first, each with the total weight so far."""
    import networkx

    tree = sorted(networkx.minimum_spanning_edges(graph.networkx, data=True), key=lambda e: (e[2]["weight"], *sorted(e[:2])))
    total, lines = 0, []
    for a, b, data in tree:
        total += data["weight"]
        lines.append(f"{graph.names(sorted((a, b)))}{data['weight']}:{total}")
    return Solved(" ".join(lines), str(total), total)


def _neighbours(graph: Graph) -> str:
    return " ".join(f"{node}:{others}" for node, others in graph.after.items())


def solve_clique(graph: Graph) -> Solved:
    import networkx

    found = min((sorted(clique) for clique in networkx.find_cliques(graph.networkx)), key=lambda c: (-len(c), c))
    return Solved(_neighbours(graph), graph.names(found), len(found))


def check_clique(graph: Graph, said: str, best: Any) -> bool:
    return _chosen(graph, said, best, lambda a, b: a + b in graph.weights)


def solve_apart(graph: Graph) -> Solved:
    import networkx

    others = networkx.complement(graph.networkx)
    found = min((sorted(clique) for clique in networkx.find_cliques(others)), key=lambda c: (-len(c), c))
    return Solved(_neighbours(graph), graph.names(found), len(found))


def check_apart(graph: Graph, said: str, best: Any) -> bool:
    return _chosen(graph, said, best, lambda a, b: a + b not in graph.weights)


def _chosen(graph: Graph, said: str, best: Any, fits: Callable[[str, str], bool]) -> bool:
    """Returns whether the answer names exactly `best` different nodes, and `fits` is true for any two of them."""
    nodes = letters(said)
    if nodes is None or len(nodes) != best or len(set(nodes)) != best or not set(nodes) <= set(graph.nodes):
        return False
    return all(fits(a, b) for a, b in combinations(nodes, 2))


def solve_match(graph: Graph) -> Solved:
    import networkx

    found = sorted(graph.names(sorted(pair)) for pair in networkx.max_weight_matching(graph.networkx, maxcardinality=True, weight="one"))
    return Solved(_neighbours(graph), " ".join(found), len(found))


def check_match(graph: Graph, said: str, best: Any) -> bool:
    chosen = pairs(said)
    return (
        chosen is not None
        and len(chosen) == best
        and len(set("".join(chosen))) == 2 * best
        and all(pair in graph.weights for pair in chosen)
    )


def solve_degree(graph: Graph) -> Solved:
    (node,) = graph.ends
    own = [a + b for a, b, _ in graph.edges if node in (a, b)]
    return Solved(" ".join(own), str(len(own)), len(own))


def solve_bridges(graph: Graph) -> Solved:
    """The worked solution lists for every edge a shortest way around this edge, or "-" if there is no such way."""
    lines, found = [], []
    for edge in sorted(graph.edges):
        without = Graph(tuple(e for e in graph.edges if e != edge), ends=edge[:2])
        there = {edge[0], edge[1]} <= set(without.nodes) and any(edge[1] == b for _, b in breadth_first(without, edge[0]))
        lines.append(f"{edge[0]}{edge[1]}:{solve_path(without).answer if there else '-'}")
        found += [] if there else [edge[0] + edge[1]]
    return Solved(" ".join(lines), " ".join(found) or "none", tuple(found))


def check_bridges(graph: Graph, said: str, best: Any) -> bool:
    if said == "none":
        return not best
    return sorted(pairs(said) or []) == sorted(best) != []


def solve_reach(graph: Graph) -> Solved:
    steps = list(breadth_first(graph, graph.ends[0]))
    found = "".join(sorted([graph.ends[0], *(b for _, b in steps)]))
    return Solved(" ".join([graph.ends[0], *(a + b for a, b in steps)]), found, found)


def check_reach(graph: Graph, said: str, best: Any) -> bool:
    nodes = letters(said)
    return nodes is not None and "".join(sorted(nodes)) == best
