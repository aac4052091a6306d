"""Graph of thoughts: the operations, the refusals, the cost and the fixed schedule by hand."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.search.aries_thought_graph import RuleAgent
from gradus.rewards.verified import Verified
from gradus.search.thought_graph import FixedSchedule, ItemHalves, Operation, Thought, ThoughtGraph, ThoughtGraphSearch
from gradus.tasks.puzzles.sorting import sorting
from gradus.testing.methods import readable, scripted_world
from gradus.types import Frozen, Problem, Request, UserError

TASK = sorting(1, kinds="letters")


def letters(items: str) -> Problem:
    return Problem("p", "sorting", text=f"letters {' '.join(items)}", meta=Frozen(category="letters", items=tuple(items), rank=0))


def sorts(prompt: str, n: int) -> str:
    """Sorts the letters of every question."""
    said = prompt.partition(": ")[0].replace("repair ", "").partition(" ")[2]
    return "=" + " ".join(sorted(said.replace(",", "").split()))


def world_of(speak=sorts):
    asked = []

    def said(ask):
        asked.append(readable(ask.parent.sequence))
        return speak(asked[-1], len(asked))

    return scripted_world(TASK, said, reward=Verified())[0], asked


def after(world, problem, *operations):
    graph = ThoughtGraph(Request(problem), ItemHalves(), [Thought(problem)])
    for name, *nodes in operations:
        asyncio.run(graph.apply(Operation(name, tuple(nodes)), world))
    return graph


def test_sixteen_items_become_two_parts_of_eight_and_are_merged() -> None:
    world, asked = world_of()
    graph = after(world, letters("ponmlkjihgfedcba"), ("decompose", 0), ("solve", 1), ("solve", 2), ("aggregate", 3, 4), ("score", 3, 4, 5))
    assert [len(n.problem.meta["items"]) for n in graph.nodes] == [16, 8, 8, 8, 8, 16]
    assert [n.parents for n in graph.nodes] == [(), (0,), (0,), (1,), (2,), (3, 4)]
    assert [n.of for n in graph.nodes] == [-1, -1, -1, 1, 2, 0]
    assert asked == ["letters p o n m l k j i", "letters h g f e d c b a", "merge i j k l m n o p, a b c d e f g h"]
    assert [n.score for n in graph.nodes[3:]] == [1.0, 1.0, 1.0]
    assert graph.shown().splitlines()[-1] == "5 aggregate 3 4: =a b c d e f g h i j k l m n o p score 1"


def test_an_unsolved_part_cannot_be_merged_and_the_step_counts() -> None:
    world, asked = world_of()
    graph = after(world, letters("dcba"), ("decompose", 0), ("aggregate", 1, 2))
    assert (len(graph.nodes), graph.refused, graph.calls, len(graph.history), asked) == (3, 1, 0, 2, [])
    assert graph.history[1] == "aggregate 1 2: a node is not solved"


def test_two_solutions_a_test_and_a_merge_are_three_calls() -> None:
    graph = after(world_of()[0], letters("dcba"), ("decompose", 0), ("solve", 1), ("solve", 2), ("score", 3), ("aggregate", 3, 4))
    assert (graph.calls, graph.refused, len(graph.history)) == (3, 0, 5)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (("solve", 9), "no such node"),
        (("solve", 3), "the node is an attempt"),
        (("solve", 1, 2), "wrong number of nodes"),
        (("score",), "wrong number of nodes"),
        (("decompose", 0), "the node cannot be split"),
        (("refine", 1), "a node is not solved"),
        (("keep_best", 1, 3, 4), "these are not attempts at one problem"),
        (("keep_best", 0, 3), "these are not attempts at one problem"),
        (("aggregate", 4, 3), "these are not the parts of one problem, in order"),
        (("aggregate", 3), "these are not the parts of one problem, in order"),
        (("aggregate", 5), "these are not the parts of one problem, in order"),
        (("stop", 0), "stop has no node"),
    ],
)
def test_refused_operations(operation, reason) -> None:
    graph = after(world_of()[0], letters("dcba"), ("decompose", 0), ("solve", 1), ("solve", 2), ("solve", 0), operation)
    assert (graph.history[-1].partition(": ")[2], graph.refused, len(graph.nodes)) == (reason, 1, 6)


def test_the_best_are_kept_and_an_attempt_is_repaired() -> None:
    texts = {1: "=b a", 2: "=a b", 3: "=a b"}
    world, asked = world_of(lambda prompt, n: texts[n])
    graph = after(world, letters("ba"), ("solve", 0), ("solve", 0), ("score", 1, 2), ("keep_best", 1, 1, 2))
    assert [n.dropped for n in graph.nodes] == [False, True, False]
    assert graph.best(0) == 2
    asyncio.run(graph.apply(Operation("refine", (1,)), world))
    assert graph.history[-1] == "refine 1: no such node"
    asyncio.run(graph.apply(Operation("refine", (2,)), world))
    assert (asked[-1], graph.nodes[-1].of) == ("repair letters b a: a b", 0)


def test_problems_without_halves_are_not_split() -> None:
    assert ItemHalves().parts(letters("a")) == []
    assert ItemHalves(kinds=("up",)).parts(letters("ab")) == []
    assert ItemHalves().parts(Problem("p", "toy", text="a")) == []
    assert [p.meta["items"] for p in ItemHalves().parts(letters("abc"))] == [("a", "b"), ("c",)]


def operations(agent, speak=sorts, items="dcba", steps=30):
    world, _ = world_of(speak)
    search = ThoughtGraphSearch(agent, steps=steps)
    graph = asyncio.run(search.played(Request(letters(items)), world))
    return [h.partition(":")[0] for h in graph.history], graph


def test_the_fixed_schedule_by_hand() -> None:
    made, graph = operations(FixedSchedule(depth=1, attempts=2))
    assert made == [
        "decompose 0", "solve 1", "solve 1", "score 3 4", "keep_best 1 3 4", "solve 2", "solve 2", "score 5 6", "keep_best 1 5 6",
        "aggregate 3 5", "aggregate 3 5", "score 7 8", "keep_best 1 7 8", "stop",
    ]  # fmt: skip
    assert graph.calls == 6
    assert operations(FixedSchedule(depth=0, attempts=3))[0] == ["solve 0"] * 3 + ["score 1 2 3", "keep_best 1 1 2 3", "stop"]


def test_the_schedule_ignores_results_and_the_rule_reads_them() -> None:
    fixed = FixedSchedule(depth=1, attempts=1)
    assert operations(fixed)[0] == operations(fixed, lambda prompt, n: "=")[0]
    assert operations(RuleAgent())[0] == ["solve 0", "score 1", "stop"]


def test_an_episode_ends_after_the_last_step() -> None:
    for steps in (1, 2, 7):
        made, graph = operations(RuleAgent(), lambda prompt, n: "=", steps=steps)
        assert len(made) == steps  # the first operation is an attempt at the whole problem
        assert graph.best(0) is not None
    made, graph = operations(FixedSchedule(), steps=1)
    assert made == ["decompose 0", "solve 0"]  # without an attempt at the whole problem one call follows


def test_each_answer_has_its_own_graph_and_its_cost() -> None:
    world, _ = world_of()
    (group,) = asyncio.run(ThoughtGraphSearch(FixedSchedule(1, 1)).run([Request(letters("dcba"), count=2)], world))
    assert [t.problem.id for t in group.trajectories] == ["p", "p"]
    assert group.rewards.tolist() == [1.0, 1.0]
    assert [dict(t.extra) for t in group.trajectories] == [{"calls": 3, "policy_calls": 0, "refused": 0.0}] * 2
    assert len({t.id for t in group.trajectories}) == 2
    with pytest.raises(UserError, match=r"ThoughtGraphSearch\.steps"):
        ThoughtGraphSearch(steps=0)
