"""G1: partial credit for sets, tolerance for numbers, checkers for many right answers, and the limit of the method."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import networkx
import pytest
import torch

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.g1_graphs import g1_graphs
from gradus.recipe.core import changes
from gradus.rewards.by_answer import ByAnswer
from gradus.rewards.verified import Verified
from gradus.tasks.puzzles.graphs import KINDS, graphs
from gradus.testing.methods import TOY, scripted_world, toy_group, weights_after
from gradus.types import Frozen, Group, Key, Problem

TASK = graphs()


def drawn(kind: str, level: int = 2) -> list[Problem]:
    return graphs(kinds=kind).source.draw(range(40), level, Key(1))


def judged(problem: Problem, *completions: str, part: ByAnswer | None = None) -> list[tuple[float, dict[str, float], bool]]:
    made = toy_group(*[0.0] * len(completions))
    answers = [
        t.but(problem=problem, completion=text, reward=None, components=Frozen())
        for t, text in zip(made.trajectories, completions, strict=True)
    ]
    group = Group(made.key, tuple(answers))
    world, _ = scripted_world(replace(TOY, verify=TASK.verify), lambda ask: "")
    row = asyncio.run((part or ByAnswer()).score([group], {}, world))[0]
    return [
        (float(j.reward), dict(j.components), t.but(reward=j.reward, components=j.components).right)
        for j, t in zip(row, answers, strict=True)
    ]


def test_a_set_earns_its_share() -> None:
    problem = next(p for p in drawn("reach") if len(str(p.answer)) == 3)
    right = str(problem.answer)
    other = next(n for n in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if n not in right)
    found = judged(problem, f"={right}", f"={right[:2]}", f"={right[:2]}{other}", f"={right}{other}", right, "=1", "")
    assert [reward for reward, _, _ in found] == pytest.approx([1.0, 2 / 3, 0.5, 0.75, 0.0, 0.0, 0.0])
    assert [right for _, _, right in found] == [True] + [False] * 6  # accuracy counts only right answers
    assert found[1][1] == {"verified": 0.0, "by_answer": pytest.approx(2 / 3)}


def test_edges_are_a_set_of_pairs() -> None:
    problem = next(p for p in drawn("bridges") if len(str(p.answer).split()) == 2)
    one, two = str(problem.answer).split()
    found = judged(problem, f"={two[::-1]} {one}", f"={one}", "=none")
    assert [reward for reward, _, _ in found] == [1.0, 0.5, 0.0]


def test_another_shortest_path_is_right_and_a_missing_edge_is_wrong() -> None:
    for problem in drawn("path", level=3):
        graph = networkx.Graph([(a, b) for a, b, _ in problem.meta["edges"]])
        ways = ["".join(way) for way in networkx.all_shortest_paths(graph, *problem.meta["ends"])]
        others = [way for way in ways if way != problem.answer]
        if others:
            break
    start, goal = problem.meta["ends"]
    assert [reward for reward, _, _ in judged(problem, f"={others[0]}", f"={start}{goal}")] == [1.0, 0.0]


@pytest.mark.parametrize("level", [1, 2, 3, 6])
def test_every_problem_verifies_with_its_own_answer(level: int) -> None:
    sizes = {1: 4, 2: 6, 3: 8, 6: 26}
    for problem in TASK.source.draw(range(60), level, Key(4)):
        assert judged(problem, str(problem.meta["solution"]), f"={problem.answer}")[0][0] == 1.0
        nodes = {node for a, b, _ in problem.meta["edges"] for node in (a, b)}
        assert len(nodes) <= sizes[level]
        assert KINDS[problem.meta["category"]].draw.__name__ == "_arrows" or len(nodes) == sizes[level]


def test_what_it_changes() -> None:
    assert changes(grpo, g1_graphs) == {"objective.kl.coefficient": 0.001, "reward": ByAnswer(), "setting.group": 5}
    assert g1_graphs.objective["kl"] == KL(0.001)


def test_without_sets_and_tolerance_it_is_grpo() -> None:
    plain = g1_graphs.but(reward=ByAnswer(sets=Frozen(), tolerance=None), objective__kl=grpo.objective["kl"])
    base = grpo.but(reward=Verified())
    assert torch.equal(weights_after(plain, steps=3)["policy.logits"], weights_after(base, steps=3)["policy.logits"])
