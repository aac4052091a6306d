"""State at any path: parts within parts, rewards, the credit of players; evaluation changes nothing, a resume changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from gradus.credit.clipped import Clipped
from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.reinforce import reinforce
from gradus.rewards.combine import Sum
from gradus.rewards.verified import Verified
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.experience_extractors import Contrast
from gradus.rollouts.experience_library import Recalling
from gradus.rollouts.in_flight import InFlight
from gradus.selection.filters import Everything
from gradus.study.held_out import HeldOut
from gradus.testing.methods import check_resumes, toy_group, toy_run, train_toy
from gradus.training.launch import go
from gradus.training.memory import Memory
from gradus.training.nested_state import Bound
from gradus.types import Frozen, Group, Key, UserError
from gradus.types.moments import Moment
from gradus.types.parts import Judgement


@dataclass(frozen=True)
class Doubling:
    """A reward of 1, 2, 4, ... by the number of its calls; it learns the number of groups that were trained on."""

    needs: ClassVar[tuple[Any, ...]] = ()

    def start(self) -> dict[str, Any]:
        return {"calls": 0, "learned": 0}

    async def score(self, groups: Any, signals: Any, world: Any, state: dict[str, Any]) -> Any:
        await asyncio.sleep(0)  # two calls at a time must not read the same state
        calls = state["calls"] + 1
        return [[Judgement(float(calls)) for _ in g.trajectories] for g in groups], {**state, "calls": calls}

    def learn(self, groups: Any, dropped: Any, world: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "learned": state["learned"] + len(groups)}


@dataclass(frozen=True)
class Every:
    """Keeps every group but each n-th that it has seen."""

    n: int = 3

    def start(self) -> int:
        return 0

    def keep(self, groups: Any, key: Key, state: int) -> Any:
        count = len(groups)
        kept = [g for i, g in enumerate(groups) if (state + i + 1) % self.n]
        names = {g.key for g in kept}
        return kept, [g for g in groups if g.key not in names], state + count


@dataclass(frozen=True)
class Row:
    """One selection after another."""

    parts: tuple[Any, ...]

    def keep(self, groups: Any, key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = list(groups), []
        for part in self.parts:
            kept, out = part.keep(kept, key)
            dropped += out
        return kept, dropped


@dataclass(frozen=True)
class Fading:
    """A credit rule whose advantages shrink with every call."""

    rule: Any = GroupRelative()

    @property
    def needs(self) -> tuple[Any, ...]:
        return tuple(self.rule.needs)

    def start(self) -> float:
        return 1.0

    def assign(self, groups: Any, signals: Any, state: float) -> Any:
        rows = self.rule.assign(groups, signals)
        return [[replace(c, advantages=c.advantages * state) for c in row] for row in rows], state / 2


@pytest.mark.parametrize(
    ("recipe", "places"),
    [
        (grpo.but(reward=Doubling()), {"reward"}),
        (grpo.but(reward=Sum(Frozen(right=Verified(), more=Doubling()))), {"reward.parts.more"}),
        (grpo.but(selection=Row((Every(3), Every(2)))), {"selection.parts.0", "selection.parts.1"}),
        (grpo.but(credit=Clipped(rule=Fading())), {"credit.rule"}),
        (grpo.but(rollout=DynamicSampling(InFlight(2))), {"rollout.rollout"}),
        (grpo.but(rollout=DynamicSampling(until=Every(2))), {"rollout.until"}),
        (grpo.but(rollout=DynamicSampling(Recalling(Contrast("[a-z]")))), {"rollout.rollout"}),
        (ppo.but(players__critic__credit=Clipped(rule=Fading(ppo.credit))), {"players.critic.credit.rule"}),
    ],
)
def test_a_part_at_any_depth_has_a_state_that_is_stored(recipe: Any, places: set[str]) -> None:
    run = train_toy(recipe, steps=3)
    assert places <= set(run.memory.states)
    check_resumes(recipe, steps=4, after=2)


def test_a_nested_state_does_what_the_same_part_does_alone() -> None:
    alone, within = (train_toy(grpo.but(credit=rule), steps=3) for rule in (Fading(), Clipped(rule=Fading(), limit=9.0, scale=9.0)))
    assert alone.metrics == within.metrics
    assert alone.memory.states["credit"]["state"] == within.memory.states["credit.rule"]["state"] == 0.125
    inner, outer = (train_toy(grpo.but(selection=part), steps=3) for part in (Every(3), Row((Everything(), Every(3)))))
    assert inner.metrics == outer.metrics
    assert outer.memory.states["selection.parts.1"]["state"] == 12


def test_a_reward_counts_its_calls_and_learns_after_the_step() -> None:
    run = train_toy(grpo.but(reward=Sum(Frozen(more=Doubling()))), steps=3)
    assert [row["reward"] for row in run.metrics] == [1.0, 2.0, 3.0]
    assert run.memory.states["reward.parts.more"]["state"] == {"calls": 3, "learned": 12}


def test_calls_that_wait_at_once_follow_each_other() -> None:
    memory, group = Memory(), toy_group(0.0)

    async def both() -> list[float]:
        part = memory.bound("reward.a", Doubling())
        found = await asyncio.gather(*(part.score([group], {}, None) for _ in range(3)))
        return [rows[0][0].reward for rows in found]

    assert isinstance(memory.bound("reward.a", Doubling()), Bound)
    assert asyncio.run(both()) == [1.0, 2.0, 3.0]
    assert asyncio.run(both()) == [4.0, 5.0, 6.0]  # in another event loop


def test_an_evaluation_reads_the_states_and_changes_none() -> None:
    def states(every: int) -> Any:
        run = toy_run(grpo.but(reward=Sum(Frozen(more=Doubling()))), steps=3, eval_every=every)
        run.recipe = replace(run.recipe, study=HeldOut(problems=3, samples=2))
        return go(run)

    often, seldom = states(1), states(0)
    one, other = (run.memory.states["reward.parts.more"]["state"] for run in (often, seldom))
    assert one == other == {"calls": 3, "learned": one["learned"]}
    assert [row["reward"] for row in often.metrics[:3]] == [1.0, 2.0, 3.0]
    assert [row["held_out/reward"] for row in often.metrics] == [1.0, 2.0, 3.0, 4.0]  # one call more than training has made


def test_a_library_within_another_rollout_is_read_at_test_time() -> None:
    """`test` of the inner rollout is another object of its class: it has the same state."""
    run = toy_run(grpo.but(rollout=DynamicSampling(Recalling(Contrast()))), steps=0)
    run.memory.states["rollout.rollout"] = {"part": "Recalling", "state": {"library": ["use a"]}}
    seen: list[Any] = []

    @dataclass(frozen=True)
    class Listening:
        async def run(self, requests: Any, world: Any) -> Any:
            seen.extend(r.prompt for r in requests)
            return await reinforce.rollout.run(requests, world)

    recipe = run.recipe.but(rollout=DynamicSampling(Recalling(Contrast(), Listening())))
    problem = run.task.source.draw([0], None, Key())[0]
    from gradus.types import Request

    asyncio.run(run.memory.answer(recipe, [Request(problem, 1)], run.world(recipe, "evaluate")))
    assert "use a" in str(seen[0])


def test_states_of_before_are_read_where_they_stood() -> None:
    """A state stored under the name of a place is the state of the part at that path."""
    memory = Memory({"curriculum": {"part": "Counter", "state": 4}})

    @dataclass(frozen=True)
    class Counter:
        def start(self) -> int:
            return 0

        def at(self, now: Any, recipe: Any, state: int) -> Any:
            return recipe, (), state + 1

    assert memory.state("curriculum", Counter()) == 4


@dataclass(frozen=True)
class Twice:
    """A schedule around another one."""

    schedule: Any

    def at(self, now: Moment, recipe: Any) -> Any:
        return self.schedule.at(now, recipe)


@dataclass(frozen=True)
class Growing:
    by: float = 0.01
    more: Frozen[Any] = field(default_factory=Frozen)

    def start(self) -> int:
        return 0

    def at(self, now: Moment, recipe: Any, state: int) -> Any:
        return recipe.but(optimizer__lr=self.by * (state + 1)), (), state + 1


def test_a_schedule_within_another_one_has_its_state() -> None:
    recipe = reinforce.but(schedule=Twice(Growing()))
    run = train_toy(recipe, steps=3, warmup=0)
    assert [row["learning_rate"] for row in run.metrics] == pytest.approx([0.01, 0.02, 0.03])
    assert run.memory.states["schedule.schedule"]["state"] == 3
    check_resumes(recipe, steps=3, after=2)


def test_two_stateful_methods_combine() -> None:
    """`plus` of a method with a library and one whose answers stay in flight: both states are kept, and a resume is exact."""
    library = grpo.derive("library", "A library.", rollout=DynamicSampling(Recalling(Contrast("[a-z]"))))
    fading = grpo.derive("fading", "Advantages that fade.", credit=Clipped(rule=Fading()), reward=Sum(Frozen(more=Doubling(), right=Verified())))
    both = grpo.plus(library, fading)
    run = train_toy(both, steps=3)
    assert {"rollout.rollout", "credit.rule", "reward.parts.more"} <= set(run.memory.states)
    check_resumes(both, steps=4, after=2)
    shipped = grpo.plus(library).but(rollout__rollout=InFlight(2))
    assert "rollout.rollout" in train_toy(shipped, steps=2).memory.states


def test_errors_name_the_part_and_not_its_wrapper() -> None:
    @dataclass(frozen=True)
    class Broken(Every):
        def keep(self, groups: Any, key: Key, state: int) -> Any:
            return list(groups), state

    with pytest.raises(UserError, match=r"Broken.keep \(test_nested_state.py, line \d+\) returned"):
        train_toy(grpo.but(selection=Row((Broken(),))), steps=1)
