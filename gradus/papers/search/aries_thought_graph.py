"""ARIES: an agent looks at a graph of partial solutions and chooses the next operation on the graph; another agent writes the solutions in the nodes.

    s_t = (V_t, E_t), quad a_t = "mode"(a^1, ..., a^M), quad a^m ~ pi("policy agent", s_t, h_t)
    s_(t+1) = T(s_t, a_t), quad t < T
    y^* = argmax_(v in "attempts at the problem") "score"(v)

A node of the graph is a problem or an attempt. An attempt has a text, and after `score` also a score. Edges lead from the parents of a node to the node. The
policy agent reads the problem, the list of operations, the graph and the history $h_t$. The agent summarises the progress and names one operation with the
numbers of nodes. `decompose 0` adds the parts of problem 0. `solve 1`, `refine 3` and `aggregate 3 4` are calls of the reasoning agent: each call adds an
attempt. An aggregate needs one attempt at each part of a problem. `score 3 4` tests attempts, `keep_best 1 3 4` drops all but the best, and `stop` ends the
episode.

The policy agent is sampled M = 5 times, and the most frequent operation is taken. If several operations are equally frequent, the first one wins. An
impossible operation changes nothing, but costs one of the T = 30 steps; the history then contains the reason. No weights change.

A fixed schedule (`FixedSchedule`) is the baseline: it decomposes to a given depth, makes `attempts` attempts at each node, scores them, keeps the best and
aggregates. `RuleAgent` is a policy agent without a model: it decomposes a problem only after failed attempts, and makes no attempt after a good one.

Metrics: calls (of the reasoning agent, per answer), policy_calls (samples of the policy agent), refused (share of the steps). The answer has these metrics as
columns.

Use if: a problem has parts whose answers can be tested and merged, and errors become more frequent with the length of a problem.
Avoid if: the policy agent is a small model that cannot read the graph, or many levels of parts are needed, because errors of merging add up.
Reference: Gimenes et al., ARIES: Autonomous Reasoning with LLMs on Interactive Thought Graph Environments, arXiv:2502.21208: the operations, the prompt with a
summary, the ensemble, and the fixed schedules. No code was found.
Departures: M = 5, T = 30, the wording and the exact arguments of the operations are our choices. A sample without an operation in its last line has no vote;
an operation is refused only if no sample has one, or if it is not possible. Problems are split by rule (`ItemHalves`), so `decompose` calls no agent. The
score is the reward of the text, so it knows the verdict of the task. The rule agent stops at a right attempt, so it gains more from this knowledge than a
fixed schedule. An episode without an attempt at the whole problem ends with one call after the T operations. The fixed schedules have no `refine`. The rule
agent is ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.asked import sampling_of
from gradus.search.thought_graph import Operation, ThoughtGraph, ThoughtGraphSearch, aggregate, worded
from gradus.types import Request
from gradus.types.parts import World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges

_ACTION = re.compile(r"(decompose|solve|refine|score|keep_best|aggregate|stop)((?: \d+)*)")
FORM = """{problem}
operations: decompose N, solve N, refine N, score N.., keep_best K N.., aggregate N.., stop
{graph}
{history}
Summarise the progress in one line. Then write one operation in the last line."""


def read_operation(text: str) -> Operation | None:
    """Returns the operation in the last line of a text; None if this line is no operation.

    >>> read_operation("two parts are open\\nkeep_best 1 3 4")
    Operation(name='keep_best', nodes=(1, 3, 4))
    """
    found = _ACTION.fullmatch(text.strip().rpartition("\n")[2].strip())
    return None if found is None else Operation(found[1], tuple(map(int, found[2].split())))


def most_frequent(votes: Sequence[Operation | None]) -> Operation | None:
    """Returns the most frequent operation, the first one if several are equally frequent; None if there is no operation."""
    counted = Counter(vote for vote in votes if vote is not None)
    return max(counted, key=lambda vote: counted[vote], default=None)


@dataclass(frozen=True)
class AskedAgent:
    """A player reads the graph and is sampled `count` times. The agent takes the most frequent operation. The form shows {problem}, {graph} and {history}."""

    player: str = "policy"
    count: int = 5
    temperature: float = 1.0
    form: str = FORM
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", temperature="[0, inf)")

    async def chosen(self, graph: ThoughtGraph, world: World) -> Operation | None:
        r = graph.request
        text = filled(self.form, problem=r.problem.question, graph=graph.shown(), history="\n".join(graph.history))
        sampling = replace(sampling_of(r, world), temperature=self.temperature)
        tags = (*r.tags, "operation", r.sample, len(graph.history))
        asked = Request(worded(r.problem, text), self.count, self.player, sampling=sampling, tags=tags, trained=False)
        (found,) = await world.sample([asked])
        graph.policy_calls += self.count
        return most_frequent([read_operation(world.text(c.tokens[c.chosen], self.player)) for c in found])


@dataclass(frozen=True)
class RuleAgent:
    """Solves a problem, decomposes it after `patience` attempts without full score, and aggregates until the score is full."""

    patience: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, patience="[1, inf)")

    async def chosen(self, graph: ThoughtGraph, world: World) -> Operation | None:
        return self.next(graph, 0) or Operation("stop")

    def next(self, graph: ThoughtGraph, node: int) -> Operation | None:
        """Returns the next operation for a problem; None if an attempt at it has the score 1."""
        tries, parts = graph.attempts(node), graph.parts(node)
        fresh = tuple(i for i in tries if graph.nodes[i].score is None)
        if fresh:
            return Operation("score", fresh)
        if any(graph.worth(i) >= 1 for i in tries):
            return None
        if not parts:
            split = len(tries) >= self.patience and graph.splits.parts(graph.nodes[node].problem)
            return Operation("decompose" if split else "solve", (node,))
        below = next((found for part in parts if (found := self.next(graph, part)) is not None), None)
        return below or aggregate(graph, parts)


aries_thought_graph = reinforce.derive(
    "aries_thought_graph",
    "A policy agent chooses operations on a graph of partial solutions, which a reasoning agent writes.",
    family="search",
    search=ThoughtGraphSearch(AskedAgent()),
    credit=None,
    objective=None,
)

_TERMS: Any = {
    "task": "sorting",
    "options": {"level": "4", "kinds": "letters"},
    "budget": "steps=1",
    "problems": 60,
    "own": {"search.agent": "RuleAgent"},
}
_SMALL = {"prompts": "1", "group": "1", "eval_every": "0", "study": "none"}
_FIXED = "aries_thought_graph --search.agent FixedSchedule"
_OURS = (
    "task, sizes and the size of the effect are ours. The policy agent is a rule, because a model of this size cannot read the graph. The start model was "
    "fine-tuned on letters to sort and on sorted lists to merge; 12 letters are sorted. "
    "Two seeds with 8 or 16 problems were tried on the first and the third claim before the commit of the claims, to see that the search acts"
)

claims = (
    Claim(
        says="The policy agent needs at most 0.75 times the tokens of a fixed schedule with one split and 3 attempts at each node.",
        source=f"arXiv:2502.21208, inference cost 35 % below fixed schedules; {_OURS}",
        against=_FIXED,
        measure="answer_tokens", at_most=0.75, fields=_SMALL, script="benchmarks.warmed aries_thought_graph", **_TERMS,
    ),
    Claim(
        says="The policy agent is right at least 0.97 times as often as this schedule.",
        source=f"arXiv:2502.21208, results on sorting; {_OURS}",
        against=_FIXED,
        measure="accuracy", at_least=0.97, fields=_SMALL, script="benchmarks.warmed aries_thought_graph-accuracy", **_TERMS,
    ),
    Claim(
        says="The policy agent is right at least 0.05 more often than a fixed schedule with one split and one attempt at each node.",
        source=f"arXiv:2502.21208, accuracy above fixed schedules; {_OURS}",
        against=f"{_FIXED} --search.agent.attempts 1",
        measure="accuracy", better_by=0.05, fields=_SMALL, script="benchmarks.warmed aries_thought_graph-single", **_TERMS,
    ),
)  # fmt: skip
