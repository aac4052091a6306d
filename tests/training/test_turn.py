"""The start of a step: numbers that are read anew, events, what is kept of them, and refusals."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from gradus.credit.groups import LeaveOneOut
from gradus.lab.folder import RunFolder
from gradus.objectives.terms import EntropyBonus
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.reinforce import reinforce
from gradus.testing.methods import MemoryCheckpoint, check_resumes, resumed, stopped_after, toy_run, train_toy
from gradus.training.launch import go
from gradus.training.turn import moment, name_of
from gradus.types import Frozen, UserError
from gradus.types.moments import AverageWeights, CopyWeights, Freeze, Moment, Release, ResetOptimizer, StopHere
from gradus.types.players import MovingAverage


@dataclass(frozen=True)
class From:
    """Other numbers from a step on."""

    step: int
    changes: Frozen[object]

    def at(self, now: Moment, recipe: Any) -> Any:
        return recipe.but(**self.changes) if now.step >= self.step else recipe


@dataclass(frozen=True)
class Causing:
    """Events before single steps: "2" -> events."""

    events: Frozen[tuple[Any, ...]]

    def at(self, now: Moment, recipe: Any) -> Any:
        return recipe, self.events.get(str(now.step), ())


@dataclass(frozen=True)
class Counting:
    """The rate is 0.01 times the number of its calls; it notes what it has seen."""

    def start(self) -> dict[str, Any]:
        return {"calls": 0, "seen": []}

    def at(self, now: Moment, recipe: Any, state: dict[str, Any]) -> Any:
        calls = state["calls"] + 1
        seen = [now.step, now.steps, now.last.get("reward", -1.0), now.evaluated.get("held_out/accuracy", -1.0), now.evaluations]
        return recipe.but(optimizer__lr=0.01 * calls), (), {"calls": calls, "seen": [*state["seen"], seen]}


def weights(run: Any, name: str = "policy") -> dict[str, torch.Tensor]:
    return {n: t.clone() for n, t in run.players[name].policy.network.state_dict().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


@pytest.mark.parametrize(
    ("recipe", "changes", "name"),
    [
        (reinforce, {"objective__policy__coefficient": 2.0, "optimizer__clip": None}, "policy"),
        (grpo, {"objective__kl__coefficient": 3.0}, "policy"),
        (grpo, {"credit": LeaveOneOut()}, "policy"),
        (grpo, {"credit__scale": "none"}, "policy"),
        (grpo, {"optimizer__lr": 0.5}, "policy"),
        (grpo, {"optimizer__clip": 1e-3, "optimizer__eps": 0.1}, "policy"),
        (grpo, {"optimizer__weight_decay": 0.5}, "policy"),
        (grpo, {"optimizer__betas": (0.5, 0.5)}, "policy"),
        (ppo, {"players__critic__objective__value__coefficient": 0.01, "optimizer__clip": None, "optimizer__eps": 1.0}, "critic"),
        (ppo, {"players__critic__optimizer__lr": 0.3}, "critic"),
        (ppo, {"players__critic__every": 2}, "critic"),
    ],
)
def test_numbers_are_read_at_each_step(recipe: Any, changes: dict[str, Any], name: str) -> None:
    """The numbers of another recipe from step 1 on give the weights of that recipe, had it taken the steps from there."""
    options = {"steps": 3, "warmup": 0}
    plain = toy_run(recipe, **options)
    half = resumed(recipe.but(**changes), MemoryCheckpoint(stopped_after(recipe, 1, **options)), **options)
    moving = train_toy(recipe.but(schedule=From(1, Frozen(changes))), **options)
    assert equal(weights(moving, name), weights(half, name))
    assert not equal(weights(moving, name), weights(go(plain), name))


def test_the_numbers_of_the_recipe_come_back() -> None:
    @dataclass(frozen=True)
    class Once:
        def at(self, now: Moment, recipe: Any) -> Any:
            return recipe.but(optimizer__lr=0.0, objective__policy__coefficient=5.0) if now.step == 1 else recipe

    rates, coefficients = [], []
    train_toy(
        reinforce.but(schedule=Once()),
        steps=3,
        warmup=0,
        watch=lambda run, row, groups: (
            rates.append(row["learning_rate"]),
            coefficients.append(run.players["policy"].spec.objective["policy"].coefficient),
        ),
    )
    assert (rates, coefficients) == ([0.05, 0.0, 0.05], [1.0, 5.0, 1.0])


def test_the_rate_of_the_setting_is_read_at_each_step() -> None:
    """A warm-up of 4 steps: the rates are peak (step + 1) / 4; the peak doubles at step 2."""
    run = train_toy(reinforce.but(schedule=From(2, Frozen(setting__learning_rate=0.1))), steps=4, warmup=4)
    assert [row["learning_rate"] for row in run.metrics] == pytest.approx([0.0125, 0.025, 0.075, 0.1])


def test_a_correction_stays_on_an_objective_that_moves() -> None:
    """The weights of `agreement` are put on the terms of the step's recipe, not on those of the start."""
    from gradus.objectives.terms import TruncatedImportance

    run = toy_run(grpo.but(schedule=From(0, Frozen(objective__kl__coefficient=0.5))), steps=1)
    run.players["policy"].correct(TruncatedImportance(2.0))
    run.at(0)
    objective = run.players["policy"].spec.objective
    assert objective["policy"].weight == TruncatedImportance(2.0)
    assert objective["kl"].coefficient == 0.5
    run.players["policy"].correct(None)
    assert run.players["policy"].spec.objective["policy"].weight != TruncatedImportance(2.0)


def test_a_schedule_that_changes_nothing_leaves_no_trace() -> None:
    plain, other = train_toy(grpo, steps=3), train_toy(grpo.but(schedule=From(9, Frozen(optimizer__lr=0.5))), steps=3)
    assert plain.metrics == other.metrics
    assert MemoryCheckpoint(plain).differences(MemoryCheckpoint(other)) == []


@pytest.mark.parametrize(
    ("recipe", "change", "said"),
    [
        (grpo, {"setting__steps": 9}, "changes setting.steps at step 1, which the run reads only at its start"),
        (grpo, {"setting__precision": "bfloat16"}, "changes setting.precision at step 1"),
        (grpo, {"environment": Frozen()}, "changes environment at step 1"),
        (grpo, {"players__reference__model": MovingAverage()}, "changes players.reference.model at step 1"),
        (grpo, {"players__reference": None}, "changes players.reference at step 1"),
        (grpo, {"requires": frozenset({"hints"})}, "changes requires at step 1"),
        (grpo, {"optimizer": None}, "changes optimizer at step 1"),
        (grpo, {"objective": None}, "makes policy frozen at step 1 by a change of objective, but a run decides only at its start whether a player learns"),
        (grpo, {"players__reference__objective": grpo.objective}, "makes reference learn at step 1 by a change of players.reference.objective"),
        (grpo, {"objective__policy": 3}, "returned a recipe with an error: objective.policy cannot be 3"),
        (grpo, {"optimizer__lr": -1.0}, "AdamW.lr is -1.0"),
    ],
)
def test_what_is_built_at_the_start_stays(recipe: Any, change: dict[str, Any], said: str) -> None:
    run = toy_run(recipe.but(schedule=From(1, Frozen(change))))
    with pytest.raises(UserError) as error:
        go(run)
    assert said in str(error.value)
    assert run.step == 1


def test_a_term_that_the_policy_cannot_compute_is_refused() -> None:
    run = toy_run(grpo.but(schedule=From(1, Frozen(objective__entropy=EntropyBonus(0.1)))))
    run.players["policy"].policy.offers = frozenset({"logprobs"})
    with pytest.raises(UserError, match="with an error: the objective of policy wants EntropyOf of"):
        go(run)


def test_a_stateful_schedule_sees_the_run_and_resumes() -> None:
    recipe = reinforce.but(schedule=Counting())
    run = train_toy(recipe, steps=3, warmup=0)
    assert [row["learning_rate"] for row in run.metrics] == [0.01, 0.02, 0.03]
    state = run.memory.states["schedule"]["state"]
    assert state["calls"] == 3
    rewards = [row["reward"] for row in run.metrics]
    assert state["seen"] == [[0, 3, -1.0, -1.0, 0], [1, 3, rewards[0], -1.0, 0], [2, 3, rewards[1], -1.0, 0]]
    check_resumes(recipe, steps=4, after=2)


@dataclass(frozen=True)
class Study:
    """The accuracy is the step divided by ten."""

    reward: Any = None

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        return {"held_out/accuracy": run.step / 10, "nothing": None}


def test_the_newest_evaluation_is_seen_also_after_a_resume() -> None:
    def made() -> Any:
        run = toy_run(reinforce.but(schedule=Counting()), steps=4, eval_every=2)
        run.recipe = replace(run.recipe, study=Study())
        return run

    run, first, again = made(), made(), made()
    seen = [row[3:] for row in go(run).memory.states["schedule"]["state"]["seen"]]
    assert seen == [[0.0, 1], [0.0, 1], [0.2, 2], [0.2, 2]]
    first.on_step = lambda run, metrics, groups: setattr(run.stop, "asked", "time" if metrics["step"] == 2 else None)
    again.restore(MemoryCheckpoint(go(first)))
    again.metrics = list(first.metrics)
    assert moment(again).last == {n: v for n, v in first.metrics[-1].items() if n != "step" and v is not None}
    assert go(again).memory.states == run.memory.states
    assert MemoryCheckpoint(again).differences(MemoryCheckpoint(run)) == []


def test_an_optimiser_that_is_reset_goes_on_as_a_new_one() -> None:
    """AdamW's first step has size lr for every weight with a gradient: m / sqrt(v) is the sign of the gradient at step one."""
    sizes: list[float] = []

    def watch(run: Any, row: Any, groups: Any) -> None:
        state = next(iter(run.players["policy"].optimizer.state.values()))
        sizes.append(float(state["step"]))

    run = train_toy(reinforce.but(schedule=Causing(Frozen({"2": (ResetOptimizer(),)}))), steps=4, watch=watch)
    assert sizes == [1.0, 2.0, 1.0, 2.0]
    assert [row.get("event/reset_optimizer/policy") for row in run.metrics] == [None, None, 1.0, None]


def test_weights_are_copied_and_averaged() -> None:
    seen: list[tuple[Any, Any]] = []
    events = Frozen({"1": (AverageWeights("policy", "reference", 0.25),), "2": (CopyWeights("policy", "reference"),)})
    run = train_toy(
        grpo.but(schedule=Causing(events)), steps=3, watch=lambda run, row, groups: seen.append((weights(run), weights(run, "reference")))
    )
    (policy0, reference0), (policy1, reference1), (_, reference2) = seen
    for name, start in reference0.items():
        assert torch.equal(reference1[name], start * 0.75 + policy0[name] * 0.25)
        assert torch.equal(reference2[name], policy1[name])
    assert not equal(policy0, reference0)
    assert run.players["reference"].updates == 2


def test_a_frozen_player_rests_until_it_is_released() -> None:
    seen: list[tuple[Any, Any]] = []
    events = Frozen({"1": (Freeze("policy"),), "2": (Release("policy"), Freeze("critic"))})
    train_toy(ppo.but(schedule=Causing(events)), steps=3, watch=lambda run, row, groups: seen.append((weights(run), weights(run, "critic"))))
    policies, critics = zip(*seen, strict=True)
    assert [equal(a, b) for a, b in pairwise(policies)] == [True, False]
    assert [equal(a, b) for a, b in pairwise(critics)] == [False, True]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_events_and_rests_survive_a_resume(after: int) -> None:
    events = {"1": (Freeze("critic"), AverageWeights("critic", "policy", 0.5)), "2": (ResetOptimizer(), CopyWeights("policy", "critic"))}
    check_resumes(ppo.but(schedule=Causing(Frozen(events))), steps=4, after=after)


def test_the_schedule_may_end_a_run() -> None:
    @dataclass(frozen=True)
    class Ending:
        def start(self) -> int:
            return 0

        def at(self, now: Moment, recipe: Any, state: int) -> Any:
            return recipe, (StopHere("enough"),) if now.step == 2 else (), state + 1

    run = train_toy(reinforce.but(schedule=Ending()), steps=5)
    assert (run.step, run.players["policy"].updates, [row["step"] for row in run.metrics]) == (2, 2, [0, 1])
    assert run.memory.states["schedule"]["state"] == 2  # the step that was not taken left no trace
    assert resumed(run.recipe, MemoryCheckpoint(run), steps=5).step == 2


@dataclass(frozen=True)
class Interrupted:
    """A rollout that a signal cuts off at a step."""

    step: int

    async def run(self, requests: Any, world: Any) -> Any:
        if world.step == self.step:
            signal.raise_signal(signal.SIGTERM)
        return await reinforce.rollout.run(requests, world)


def test_a_step_that_is_cut_off_leaves_the_weights_before_its_events(tmp_path: Any) -> None:
    schedule = Causing(Frozen({"2": (AverageWeights("reference", "policy", 0.5), ResetOptimizer(), Freeze("policy"))}))
    run = toy_run(grpo.but(schedule=schedule, rollout=Interrupted(2)), steps=4, save_every=0)
    run.players["policy"].policy.save = lambda folder: None
    run.folder = RunFolder.create(tmp_path / "run", {}, {})
    with pytest.raises(SystemExit):
        go(run)
    again = toy_run(grpo.but(schedule=schedule), steps=4, save_every=0)
    again.restore(run.folder.latest()[0])
    assert (again.step, again.frozen) == (2, [])
    whole = train_toy(grpo.but(schedule=schedule), steps=4, save_every=0)
    assert MemoryCheckpoint(go(again)).differences(MemoryCheckpoint(whole)) == []
    assert whole.frozen == ["policy"]


def test_names_of_events() -> None:
    events = [ResetOptimizer(), CopyWeights("a", "b"), AverageWeights("a", "b"), Freeze("c"), Release("c")]
    assert [name_of(e) for e in events] == ["reset_optimizer/policy", "copy_weights/b", "average_weights/b", "freeze/c", "release/c"]
