"""Rollouts on disk: same groups, same bytes, whatever happened in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradus.lab import rollouts
from gradus.types import UserError


@pytest.fixture
def step_groups(group: Callable, strange: Callable) -> Callable:
    return lambda step: strange() if step % 40 == 7 else [group(f"p{step}", size=2, seed=step), group("q", size=1)]


@pytest.fixture
def fill(step_groups: Callable) -> Callable:
    def append(folder: Path, steps: range) -> None:
        for step in steps:
            rollouts.append(folder, step, step_groups(step))

    return append


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_same_groups_same_bytes(tmp_path: Path, fill: Callable) -> None:
    fill(tmp_path / "a", range(5, 9))
    fill(tmp_path / "b", range(5, 9))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert list(contents(tmp_path / "a")) == [f"step-00000{i}.arrow" for i in range(5, 9)]


def test_a_hundred_steps_become_one_file(tmp_path: Path, fill: Callable, step_groups: Callable) -> None:
    fill(tmp_path, range(203))
    assert list(contents(tmp_path)) == [
        "step-000200.arrow",
        "step-000201.arrow",
        "step-000202.arrow",
        "steps-000000-000099.parquet",
        "steps-000100-000199.parquet",
    ]
    assert rollouts.stored(tmp_path) == list(range(203))
    back = rollouts.read(tmp_path)
    assert [(step, g.key) for step, g in back] == [(step, g.key) for step in range(203) for g in step_groups(step)]


def test_wanted_steps_only(tmp_path: Path, fill: Callable, group: Callable) -> None:
    fill(tmp_path, range(102))
    found = rollouts.read(tmp_path, [101, 2, 500])
    assert [(step, g.key) for step, g in found] == [(2, "p2"), (2, "q"), (101, "p101"), (101, "q")]
    assert found[0][1].trajectories[1].contexts[0].tokens.tobytes() == group("p2", 2, 2).trajectories[1].contexts[0].tokens.tobytes()
    assert rollouts.read(tmp_path / "nowhere") == []


@pytest.mark.parametrize("step", [0, 1, 60, 99, 100, 101, 103, 110])
def test_cut_back_leaves_what_a_run_stopped_there_would_have(tmp_path: Path, step: int, fill: Callable) -> None:
    fill(tmp_path / "whole", range(103))
    fill(tmp_path / "short", range(min(step, 103)))
    (tmp_path / "whole" / ".partial-step-000103.arrow").write_bytes(b"half")
    rollouts.cut_back(tmp_path / "whole", step)
    assert contents(tmp_path / "whole") == (contents(tmp_path / "short") if step else {})


@pytest.mark.parametrize(("left", "step"), [(0, 100), (50, 100), (99, 100), (50, 70), (99, 30)])
def test_a_fold_that_was_interrupted_is_mended(tmp_path: Path, left: int, step: int, fill: Callable) -> None:
    fill(tmp_path / "one", range(99))
    before = contents(tmp_path / "one")
    fill(tmp_path / "one", range(99, 100))
    for name in list(before)[left:]:  # the Parquet file is in place, some Arrow files were not yet deleted
        (tmp_path / "one" / name).write_bytes(before[name])
    assert [s for s, _ in rollouts.scan(tmp_path / "one")] == list(range(100))
    rollouts.cut_back(tmp_path / "one", step)
    fill(tmp_path / "two", range(step))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_fold_that_never_began_is_made_good(tmp_path: Path, fill: Callable, step_groups: Callable) -> None:
    fill(tmp_path / "one", range(99))
    rollouts._write(tmp_path / "one", 99, rollouts.arrow.encode(99, step_groups(99)))
    rollouts.cut_back(tmp_path / "one", 100)
    fill(tmp_path / "two", range(100))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("name", ["step-000000.arrow", "steps-000100-000199.parquet"])
def test_a_broken_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"garbage")
    with pytest.raises(UserError, match=name):
        rollouts.read(tmp_path)


def test_auxiliary_groups_are_stored_and_other_steps_keep_their_bytes(tmp_path: Path, group: Callable) -> None:
    def made(step: int) -> list:
        return [group("p", seed=step), group("q").but(aside=True)] if step in (0, 3, 50) else [group("p", seed=step)]

    for step in range(100):
        rollouts.append(tmp_path / "mixed", step, made(step))
        rollouts.append(tmp_path / "plain", step, [group("p", seed=step)])
    back = rollouts.read(tmp_path / "mixed")
    assert [(step, g.key, g.aside) for step, g in back] == [(step, g.key, g.aside) for step in range(100) for g in made(step)]
    rollouts.cut_back(tmp_path / "mixed", 2)  # out of the file of a hundred steps
    rollouts.cut_back(tmp_path / "plain", 2)
    assert contents(tmp_path / "mixed")["step-000001.arrow"] == contents(tmp_path / "plain")["step-000001.arrow"]
    assert [(step, g.key, g.aside) for step, g in rollouts.read(tmp_path / "mixed")] == [(0, "p", False), (0, "q", True), (1, "p", False)]
