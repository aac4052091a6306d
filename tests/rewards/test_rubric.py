"""A rubric as reward: sums, when it changes, what is judged again, merging, resumption."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rewards.combine import Sum
from gradus.rewards.judge import Criterion, ScriptedPoints
from gradus.rewards.rubric import Rubric, judgement, merged
from gradus.testing.methods import TOY, check_resumes, train_toy
from gradus.types import Frozen, Problem, UserError


def short(problem: Problem, text: str) -> bool:
    return len(text) < 3


def vowel(problem: Problem, text: str) -> bool:
    return "a" in text or "e" in text


JUDGE = ScriptedPoints(Frozen({"is short": short, "has a vowel": vowel, "Has  a Vowel": vowel}))
FIRST = (Criterion("is short", 2),)


@dataclass(frozen=True)
class Adding:
    """A meta judge that adds the second criterion once for every sample, in two spellings."""

    async def rubrics(self, samples: Sequence[Any], criteria: Sequence[Criterion], world: Any) -> list[list[Criterion]]:
        return [[*criteria, Criterion("has a vowel" if i % 2 else "Has  a Vowel", 3)] for i, _ in enumerate(samples)]


@dataclass(frozen=True)
class Counted:
    """A judge that counts the answers that it has judged."""

    judge: Any
    seen: Any  # a list, of the test

    async def points(self, trajectories: Any, criteria: Any, world: Any) -> Any:
        self.seen.extend((t.id, len(criteria)) for t in trajectories)
        return await self.judge.points(trajectories, criteria, world)


def test_the_reward_is_the_sum_of_the_points() -> None:
    three = [Criterion("a", 4), Criterion("b", 2), Criterion("c", 5)]
    assert judgement([4, 2, 5], three).reward == 11.0
    assert judgement([4, 0, 5], three).reward == 9.0  # one without readable points counts 0
    assert judgement([4, 2, 5], three).extra == {"a": 4, "b": 2, "c": 5}


def test_a_shared_criterion_stays_once() -> None:
    one, two = [Criterion("Is short", 2), Criterion("is kind", 1)], [Criterion("is  SHORT", 5), Criterion("is true", 3)]
    assert merged([one, two]) == [Criterion("Is short", 2), Criterion("is kind", 1), Criterion("is true", 3)]
    assert merged([]) == []


def test_the_rubric_changes_after_every_tenth_batch_and_nothing_is_judged_again() -> None:
    seen: list[tuple[str, int]] = []
    recipe = reinforce.but(reward=Rubric(FIRST, Counted(JUDGE, seen), Adding(), every=10, samples=5))
    states: list[tuple[int, int]] = []

    def watch(run: Any, row: Any, groups: Any) -> None:
        state = run.memory.states["reward"]["state"]
        states.append((state["batches"], state["changes"]))

    run = train_toy(recipe, steps=35, watch=watch, prompts=2, group=2)
    assert [batches for (batches, n), (_, before) in zip(states, [(0, 0), *states], strict=False) if n != before] == [10, 20, 30]
    assert len(seen) == len({name for name, _ in seen}) == 35 * 4  # every answer once
    assert [criteria for _, criteria in seen[::4]] == [1] * 10 + [2] * 25  # two spellings are one criterion
    assert run.memory.states["reward"]["state"]["criteria"] == [{"text": "is short", "points": 2}, {"text": "Has  a Vowel", "points": 3}]
    assert [row["rubric/items"] for row in run.metrics] == [1] * 9 + [2] * 26  # after the batch
    assert max(row["reward"] for row in run.metrics[:10]) <= 2.0
    assert max(row["reward"] for row in run.metrics[10:]) > 2.0


def test_it_resumes_alone_and_within_a_sum() -> None:
    rubric = Rubric(FIRST, JUDGE, Adding(), every=2)
    check_resumes(reinforce.but(reward=rubric), steps=5, after=3)
    check_resumes(reinforce.but(reward=Sum(Frozen(points=rubric), constant=1.0)), steps=4, after=2)


def test_without_a_reviser_or_a_new_rubric_it_stays() -> None:
    @dataclass(frozen=True)
    class Silent:
        async def rubrics(self, samples: Any, criteria: Any, world: Any) -> list[list[Criterion]]:
            return []

    for reviser in (None, Silent()):
        run = train_toy(reinforce.but(reward=Rubric(FIRST, JUDGE, reviser, every=1)), steps=3)
        assert run.memory.states["reward"]["state"] == {"criteria": [{"text": "is short", "points": 2}], "batches": 3, "changes": 0}


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"Rubric.criteria is empty"):
        Rubric((), JUDGE)
    with pytest.raises(UserError, match=r"Rubric.every is 0"):
        Rubric(FIRST, JUDGE, every=0)
    assert asyncio.run(JUDGE.points([], FIRST, SimpleNamespace(task=TOY))) == []  # type: ignore[arg-type]
