"""Rollouts that are sampled while earlier steps update: the bytes of a lagged player, exact continuation, refusals."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch

import gradus
from gradus.api import train
from gradus.recipe.registry import recipe
from gradus.rewards.finished import Finished
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.in_flight import InFlight
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Judgement
from gradus.types.players import Lagged, Player
from gradus.types.systems import Ahead, Streaming
from gradus.updates.minibatches import Minibatches


@dataclass(frozen=True)
class EvenLength:
    """A reward of 1 for answers with an even number of letters. It reports when it judges the second step."""

    needs = ()

    async def score(self, groups, signals, world):
        if world.step == 1:
            JUDGED.set()
        return [[Judgement(float(len(t.completion) % 2 == 0)) for t in g.trajectories] for g in groups]


JUDGED = threading.Event()
SMALL = {
    "task": "arithmetic", "study": None, "setting__prompts": 2, "setting__group": 4, "setting__learning_rate": 1e-3, "setting__warmup": 0,
    "setting__max_tokens": 8, "reward": Finished(),
}  # fmt: skip


def lagged(updates: int) -> gradus.Recipe:
    """GRPO whose answers are sampled with the weights from `updates` updates ago."""
    own = {"rollout": BehaviourPolicy(), "players__policy__learns_from": "generator", "players__generator": Player(Lagged(updates=updates))}
    return recipe("grpo").but(**own)


def same(one, other) -> bool:
    """Whether two runs have the same metrics and the same final weights, bit for bit."""
    weights = [run.players["policy"].policy.network.state_dict() for run in (one, other)]
    return one.metrics == other.metrics and all(torch.equal(w, weights[1][name]) for name, w in weights[0].items())


@pytest.mark.parametrize("steps", [1, 2])
def test_the_bytes_are_those_of_a_lagged_player(steps):
    ahead = train(lagged(0).but(system=Ahead(steps)), steps=5, **SMALL)
    assert same(ahead, train(lagged(steps), steps=5, **SMALL))
    assert not same(ahead, train(lagged(0), steps=5, **SMALL))


def test_evaluations_do_not_change_the_rollouts():
    often = {**SMALL, "study": recipe("grpo").study, "study__problems": 4, "setting__eval_every": 1}
    weights = [
        train(recipe("grpo").but(system=Ahead()), steps=3, **words).players["policy"].policy.network.state_dict() for words in (SMALL, often)
    ]
    assert all(torch.equal(w, weights[1][name]) for name, w in weights[0].items())


@pytest.mark.parametrize("rollout", [None, InFlight(parts=3)], ids=["plain", "in flight"])
@pytest.mark.parametrize("stopped", [1, 3])
def test_a_run_continues_with_the_same_bytes(tmp_path, rollout, stopped):
    made = recipe("grpo").but(system=Ahead(2), **({"rollout": rollout} if rollout else {}))
    whole = train(made, steps=5, run=tmp_path / "whole", **SMALL)

    def fall(run, row, groups):
        if row["step"] == stopped:
            raise RuntimeError("the machine fails")

    with pytest.raises(RuntimeError, match="the machine fails"):
        train(made, steps=5, run=tmp_path / "cut", on_step=fall, setting__save_every=1, **SMALL)
    assert same(gradus.resume(tmp_path / "cut"), whole)


@dataclass(frozen=True)
class WaitsForTheNextRollout:
    """An update of the first step that ends only after the rollout of the next step has been judged."""

    then: Minibatches = Minibatches()

    def apply(self, players, batches, step, key):
        if step == 0:
            assert JUDGED.wait(60), "the next rollout did not run during the update"
        return self.then.apply(players, batches, step, key)


def test_the_next_rollout_runs_during_the_update():
    JUDGED.clear()
    run = train(recipe("grpo").but(system=Ahead(), update=WaitsForTheNextRollout()), steps=2, **{**SMALL, "reward": EvenLength()})
    assert len(run.metrics) == 2
    assert run.pipeline is None


def test_an_error_in_advance_is_the_error_of_the_run():
    @dataclass(frozen=True)
    class Fails:
        needs = ()

        async def score(self, groups, signals, world):
            raise ValueError("no judge")

    with pytest.raises(UserError, match="no judge"):
        train(recipe("grpo").but(system=Ahead()), steps=2, **{**SMALL, "reward": Fails()})


def test_runs_that_cannot_sample_in_advance_are_refused():
    with pytest.raises(UserError, match="steps"):
        Ahead(0)
    with pytest.raises(UserError, match="system cannot be 3"):
        train(recipe("grpo").but(system=3), steps=1, **SMALL)


def in_stages(system) -> gradus.Recipe:
    """Two stages of GRPO. The second stage begins with the weights at the end of the first, and its curriculum goes on."""
    one = recipe("grpo").but(system=system, study=None)
    stages = Frozen(one=Stage(recipe=one, until=Steps(3)), two=Stage(recipe=one, until=Steps(3)))
    return gradus.Recipe("two", schedule=Stages(stages), study=None)


STAGED = {name: value for name, value in SMALL.items() if name != "reward"}


@pytest.mark.parametrize("stopped", [1, 4])
def test_a_run_with_stages_continues_with_the_same_bytes(tmp_path, stopped):
    whole = train(in_stages(Ahead()), steps=6, run=tmp_path / "whole", **STAGED)
    assert [row["stage"] for row in whole.metrics if "reward" in row] == ["one"] * 3 + ["two"] * 3

    def fall(run, row, groups):
        if row["step"] == stopped:
            raise RuntimeError("the machine fails")

    with pytest.raises(RuntimeError, match="the machine fails"):
        train(in_stages(Ahead()), steps=6, run=tmp_path / "cut", on_step=fall, setting__save_every=1, **STAGED)
    assert same(gradus.resume(tmp_path / "cut"), whole)


def test_a_stage_without_staleness_has_the_bytes_of_a_plain_stage():
    plain, streamed = (train(in_stages(system), steps=6, **STAGED) for system in (None, Streaming(staleness=0)))
    assert [row.pop("staleness") for row in streamed.metrics if "reward" in row] == [0.0] * 6
    assert same(streamed, plain)
