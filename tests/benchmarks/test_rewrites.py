"""The task of start models that use a list of missing constraints: its solutions are right, and its answers miss what the prompt says."""

from __future__ import annotations

import re

from benchmarks.rewrites import rewrites
from gradus.tasks.text.instructions import met
from gradus.types import Key


def test_solutions_are_right_and_told_constraints_are_missed() -> None:
    task = rewrites(plain=0.5, short=0.5, level=3)
    problems = task.source.draw(list(range(60)), 3, Key(0))
    assert all(task.verify(p, p.meta["solution"]) == 1.0 for p in problems)
    told = [(p, found) for p in problems if (found := re.search(r"\n(=.*) misses (.+)$", p.question))]
    assert 15 < len(told) < 45
    for problem, found in told:
        assert ", ".join(name for name, holds in met(problem, found[1]).items() if not holds) == found[2]
        assert "=" in problem.meta["solution"][1:]  # worked out
    plain = [p for p in problems if " misses " not in p.question]
    assert {p.meta["solution"].startswith("=") for p in plain} == {True, False}
