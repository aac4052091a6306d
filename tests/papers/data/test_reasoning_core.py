"""Reasoning Core: levels between whole numbers, balanced batches, verifiers of every task, and the limit of the method."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.curricula.filtered import BalancedBatch
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.reasoning_core import reasoning_core
from gradus.recipe.core import changes
from gradus.tasks.generated import rounded_level
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.puzzles.graphs import graphs
from gradus.tasks.puzzles.logic import logic
from gradus.tasks.puzzles.planning import planning
from gradus.tasks.puzzles.sat import sat
from gradus.tasks.text.string_ops import string_ops
from gradus.testing.methods import weights_after
from gradus.types import Key

TASKS = {"planning": planning, "logic": logic, "graphs": graphs, "arithmetic": arithmetic, "sat": sat, "string_ops": string_ops}


def test_a_level_of_2_3_is_3_for_three_of_ten() -> None:
    found = [rounded_level(2.3, Key(0).fold(i)) for i in range(10_000)]
    assert set(found) == {2, 3}
    assert np.mean(found) == pytest.approx(2.3, abs=0.02)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_every_generator_has_a_verifier(name: str, level: int) -> None:
    task = TASKS[name]()
    assert task.verify is not None
    problems = task.source.draw(list(range(8)), level, Key(3))
    solutions = [str(p.meta["solution"]) for p in problems]
    assert [task.verify(p, text) for p, text in zip(problems, solutions, strict=True)] == [1.0] * 8
    for problem in problems:
        for garbage in ("", "reajrjrje9595!", "import os", "=" * 500, "\ud800"):
            assert task.verify(problem, garbage) < 1
    others = [float(task.verify(problems[i], solutions[(i + 1) % 8])) for i in range(8)]
    assert min(others) < 1


def test_a_level_does_not_depend_on_the_levels_before() -> None:
    source = planning().source
    fresh = [p.messages for p in planning().source.draw(list(range(4)), 2, Key(1))]
    source.draw(list(range(4)), 5, Key(1))
    assert [p.messages for p in source.draw(list(range(4)), 2, Key(1))] == fresh


def test_another_valid_plan_is_right_and_an_action_that_cannot_be_done_is_wrong() -> None:
    problem = next(p for p in planning(kinds="blocks").source.draw(list(range(40)), 2, Key(2)) if p.meta["shortest"] == 2)
    from gradus.tasks.puzzles.planning import WORLDS, Planning

    moves, start = WORLDS["blocks"].moves, problem.meta["start"]
    stored = str(problem.meta["solution"]).rpartition("=")[2].split()
    verify = Planning(4).verify
    assert verify(problem, "=" + " ".join(stored)) == 1.0
    # a detour: some action, and one that undoes it, before the stored plan
    there = next(a for a, state in moves(start).items() if any(back == start for back in moves(state).values()))
    back = next(a for a, state in moves(moves(start)[there]).items() if state == start)
    assert verify(problem, "=" + " ".join([there, back, *stored])) == 1.0
    every = {a for state in (start, *moves(start).values()) for a in moves(state)}
    impossible = next(a for a in sorted(every) if a not in moves(start))
    assert verify(problem, "=" + " ".join([impossible, *stored])) == 0.0
    assert verify(problem, "=" + " ".join(["ZZ", *stored])) == 0.0


def test_without_limits_it_is_grpo() -> None:
    assert changes(grpo, reasoning_core) == {"curriculum": BalancedBatch(None, 0.5, True)}
    free = reasoning_core.but(curriculum__most=1.0, curriculum__unique=False)
    ours, base, other = (weights_after(made, steps=3, prompts=8)["policy.logits"] for made in (free, grpo, reasoning_core))
    assert torch.equal(ours, base)
    assert not torch.equal(other, base)
