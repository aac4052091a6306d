"""Rewards and verdicts from the files equal those of the decoded groups; steps are chosen at equal distances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradus.lab import rollouts
from gradus.lab.outcomes import chosen_steps, outcomes
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group


def test_steps_at_equal_distances() -> None:
    assert chosen_steps([3, 5, 8], 3) == [3, 5, 8]
    assert chosen_steps(list(range(11)), 3) == [0, 5, 10]
    assert chosen_steps([]) == []
    found = chosen_steps(list(range(1000)), 200)
    assert (len(set(found)), found[0], found[-1]) == (200, 0, 999)


@pytest.mark.parametrize("steps", [3, 100])  # Arrow files; one Parquet file
def test_they_equal_the_decoded_groups(tmp_path: Path, group: Callable, strange: Callable, steps: int) -> None:
    usual = group("usual", size=4)
    rows = list(usual.trajectories)
    rows[1] = rows[1].but(reward=Failed("late"), components=Frozen(verified=1.0))
    rows[2] = rows[2].but(reward=0.5, components=Frozen(verified=1.0, style=0.0))
    rows[3] = rows[3].but(reward=3.0, components=Frozen(verified=Failed("late"), environment=1.0))
    far = [r.but(reward=reward, trained=i < 2) for i, (r, reward) in enumerate(zip(rows, (float("inf"), NOT_APPLICABLE, 2.0, 2.0), strict=True))]
    groups = [Group("one", tuple(rows)), Group("far", tuple(far)), Group("side", usual.trajectories, aside=True), *strange()]
    for step in range(steps):
        rollouts.append(tmp_path, step, groups)
    wanted = {0, steps - 1}
    found = outcomes(tmp_path, wanted)
    expected = [
        (
            step,
            tuple(None if t.failed is not None else t.value for t in kept),
            sum(t.right for t in kept),
        )
        for step, stored in rollouts.scan(tmp_path, wanted)
        for g in stored
        if not g.aside and (kept := [t for t in g.trajectories if t.trained])
    ]
    assert [(o.step, o.rewards, o.right) for o in found] == expected
    first = found[0]
    assert (first.rewards, first.right) == ((0.0, None, 0.5, 3.0), 1)
    assert first.rate == 0.25
    assert first.prompt == "usual: 1 + 1?"


def test_a_long_prompt_is_cut(tmp_path: Path, group: Callable) -> None:
    one = group(size=1)
    long = one.trajectories[0].but(problem=one.trajectories[0].problem.__class__("id", "t", text="x" * 1000))
    rollouts.append(tmp_path, 0, [Group("g", (long,))])
    assert outcomes(tmp_path, {0})[0].prompt == "x" * 160 + "…"
