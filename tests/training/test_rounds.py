"""Rounds of a step: one for a selection without them, with worlds and metrics of their own; killed and resumed to the same bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradus
from gradus.recipe.registry import recipe
from gradus.selection.filters import Everything
from gradus.testing.methods import toy_run, toy_trajectory
from gradus.training.memory import Memory
from gradus.training.rounds import averaged, rounds, with_streams_of
from gradus.types import Group, UserError
from gradus.types.signals import LogProbs


def drawn(selection: Any, kept: list[Group]) -> list[Any]:
    run = toy_run(recipe("grpo"))
    world = run.world(run.recipe, "train")
    found = asyncio.run(rounds(SimpleNamespace(memory=Memory()), SimpleNamespace(selection=selection), kept, world))  # type: ignore[arg-type]
    return [(groups, given, given is world) for groups, given in found]


class Twice:
    """A selection of two rounds."""

    def keep(self, groups, key):
        return list(groups), []

    def rounds(self, kept, key):
        return iter([kept, kept[:1]])


class Wrong(Twice):
    def rounds(self, kept, key):
        return 3


def some() -> list[Group]:
    return [Group(f"g{i}", (toy_trajectory([1, 2], reward=1.0, name=f"g{i}/0"),)) for i in range(2)]


def test_a_selection_without_rounds_has_one_of_what_it_kept():
    kept = some()
    ((groups, _, own),) = drawn(Everything(), kept)
    assert groups == kept
    assert own


def test_a_later_round_has_a_world_of_its_own():
    first, second = drawn(Twice(), some())
    assert [len(first[0]), len(second[0])] == [2, 1]
    assert first[2]
    assert not second[2]
    assert first[1].key != second[1].key
    assert second[1]._readings is not first[1]._readings
    second[1].note("x", 1.0)
    assert first[1].notes == {"x": 1.0}  # what is noted and spent belongs to the step


def test_rounds_that_are_none_are_refused():
    with pytest.raises(UserError, match=r"Wrong\.rounds .*returned an int \(3\); it must return the rounds one by one"):
        drawn(Wrong(), some())


def test_metrics_are_means_over_the_rounds_that_have_them():
    one = {"a": 0.1, "b": None}
    assert averaged([one]) == one  # one round: untouched
    assert averaged([{"a": 1.0, "b": 2.0}, {"a": 3.0}]) == {"a": 2.0, "b": 2.0}
    assert averaged([]) == {}


def test_signals_become_streams_where_a_term_asks_for_them():
    (group, _) = some()
    rows = np.arange(group.trajectories[0].actions, dtype=np.float32)
    signals = {LogProbs(): {group.trajectories[0].id: rows}}
    term = SimpleNamespace(streams={"seen": LogProbs()})
    ((trajectory,),) = [g.trajectories for g in with_streams_of([group], {"a": term}, signals)]
    assert trajectory.stream("seen").tolist() == rows.tolist()
    assert with_streams_of([group], {"a": SimpleNamespace()}, signals) == [group]


SMALL = {
    "rollout__length": 12,
    "selection__warmup": 12,
    "selection__batch": 8,
    "players__policy__model__hidden": (8,),
    "players__critic__model__hidden": (8,),
    "study": None,
    "setting__eval_every": 0,
    "setting__save_every": 1,
    "setting__guard__spike": None,
}


def files(folder: Path) -> dict[str, bytes]:
    """The newest checkpoint, the metrics and the stored rollouts."""
    newest = max(p for p in (folder / "checkpoints").iterdir() if (p.is_dir() and p.name.isdigit()) or p.name.startswith("step"))
    found = {str(p.relative_to(newest)): p.read_bytes() for p in newest.rglob("*") if p.is_file()}
    return {**found, "metrics": (folder / "metrics.jsonl").read_bytes()}


@pytest.mark.parametrize("stop", [2, 3])
def test_a_replay_run_stopped_and_resumed_has_the_same_bytes(tmp_path: Path, stop: int) -> None:
    class Enough(Exception):
        pass

    def end(run: Any, row: Any, groups: Any) -> None:
        if row["step"] == stop:
            raise Enough

    gradus.train("sac", task="pendulum", steps=5, run=tmp_path / "whole", **SMALL)
    with pytest.raises(Enough):
        gradus.train("sac", task="pendulum", steps=5, run=tmp_path / "cut", on_step=end, **SMALL)
    gradus.resume(tmp_path / "cut")
    whole, cut = files(tmp_path / "whole"), files(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    assert [name for name in whole if whole[name] != cut[name]] == []
    assert any("state" in name for name in whole)
