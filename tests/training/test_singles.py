"""Single answers as the unit of a worker: the bytes of a plain run, the release of whole groups, facts, checkpoints, a slow answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import gradus
from gradus.api import train
from gradus.comparison.replay import replay
from gradus.recipe.registry import recipe
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.in_flight import InFlight
from gradus.testing.methods import TOY_EPISODES, toy_trajectory
from gradus.training.singles import members, put_together, released
from gradus.types import Group, Problem, Request, UserError
from gradus.types.parts import Judgement, Turn
from gradus.types.systems import Streaming
from tests.training.test_ahead import SMALL, same

ALONE = Streaming(staleness=1, workers=3, unit="answer")


def test_requests_are_divided_and_groups_are_released_when_they_are_whole():
    one, other = Request(Problem("a", "toy"), count=2, sample=4), Request(Problem("b", "toy"), count=3)
    found = members([one, other], first=7)
    assert [home for home, _ in found] == [7, 7, 9, 9, 9]
    assert [(r.problem.id, r.count, r.sample) for _, r in found] == [("a", 1, 4), ("a", 1, 5), ("b", 1, 0), ("b", 1, 1), ("b", 1, 2)]
    home = {7 + i: h for i, (h, _) in enumerate(found)}
    assert released([9, 7, 10], home, 1) is None
    assert released([9, 7, 10, 11], home, 1) == [9, 10, 11]  # the group that was complete first
    assert released([9, 7, 10, 11, 8], home, 1) == [9, 10, 11]
    assert released([9, 7, 10, 11, 8], home, 2) == [7, 8, 9, 10, 11]
    assert released([], home, 0) == []


def test_groups_are_put_together_in_the_order_of_their_numbers():
    groups = {n: [Group("p", (toy_trajectory([2], name=f"t{n}"),)), Group("aside", (toy_trajectory([2], name=f"a{n}"),), aside=True)] for n in (3, 1, 2)}
    whole, aside = put_together(groups, {1: 1, 2: 1, 3: 3})
    assert [[t.id for t in g.trajectories] for g in whole] == [["t1", "t2"], ["t3"]]
    assert [[t.id for t in g.trajectories] for g in aside] == [["a1", "a2", "a3"]]


@dataclass(frozen=True)
class Compared:
    """A reward that compares the answers of a group: 1 for the longest ones."""

    sizes: list[int] = field(default_factory=list, compare=False)
    needs = ()

    async def score(self, groups: Any, signals: Any, world: Any) -> Any:
        self.sizes.extend(len(g.trajectories) for g in groups)
        most = [max(t.contexts[0].actions for t in g.trajectories) for g in groups]
        return [[Judgement(float(t.contexts[0].actions == m)) for t in g.trajectories] for g, m in zip(groups, most, strict=True)]


@pytest.mark.parametrize("workers", [1, 3])
def test_without_staleness_the_bytes_are_those_of_a_plain_run(workers):
    reward = Compared()
    words = {**SMALL, "reward": reward}
    plain = train(recipe("grpo"), steps=3, **words)
    streamed = train(recipe("grpo").but(system=Streaming(staleness=0, workers=workers, unit="answer")), steps=3, **words)
    assert [row.pop("staleness") for row in streamed.metrics] == [0.0] * 3
    assert same(streamed, plain)
    assert set(reward.sizes) == {SMALL["setting__group"]}  # no group was judged in pieces


def test_a_run_is_repeated_from_its_facts_and_continues_from_a_checkpoint(tmp_path):
    made = recipe("grpo").but(system=ALONE)

    def fall(run: Any, row: Any, groups: Any) -> None:
        if row["step"] == 2:
            raise RuntimeError("the machine fails")

    with pytest.raises(RuntimeError, match="the machine fails"):
        train(made, steps=4, run=tmp_path / "run", on_step=fall, setting__save_every=1, **SMALL)
    run = gradus.resume(tmp_path / "run")
    assert [row["step"] for row in run.metrics] == [0, 1, 2, 3]
    used = [json.loads(json.loads(line)["reason"]) for line in (tmp_path / "run" / "facts.jsonl").read_text().splitlines()]
    numbers = [number for step in used for number, *_ in step]
    assert len(numbers) == len(set(numbers)) == 4 * SMALL["setting__prompts"] * SMALL["setting__group"]  # no answer is lost or counted twice
    assert all(len(g.trajectories) == SMALL["setting__group"] for _, g in run.folder.rollouts())
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


HELD: list[asyncio.Event] = []
STARTED: list[int] = []


@dataclass(frozen=True)
class OneHangs:
    """A world of one turn. The first episode ends only when seven others have begun."""

    def start(self, problem: Any, key: Any, world: Any) -> Any:
        return _Hanging()


class _Hanging:
    def __init__(self) -> None:
        self.first = Turn("a")

    async def step(self, action: Any) -> Turn:
        STARTED.append(len(STARTED))
        if STARTED[-1] == 0:
            HELD.append(asyncio.Event())
            await HELD[0].wait()
        elif len(STARTED) == 8:
            HELD[0].set()
        return Turn("", 1.0, terminated=True)


def test_a_slow_episode_holds_neither_its_group_nor_the_other_worker():
    """Two workers: one waits in the first episode, and the other one plays seven more episodes, three of them of the same group."""
    HELD.clear()
    STARTED.clear()
    made = recipe("grpo").but(system=Streaming(staleness=1, workers=2, unit="answer"), rollout=Episodes(), study=None)
    words = {"setting__prompts": 1, "setting__group": 4, "setting__max_tokens": 2, "setting__learning_rate": 1e-3}
    run = train(made, replace(TOY_EPISODES, environment=OneHangs()), steps=2, **words)
    assert len(run.metrics) == 2
    assert len(STARTED) == 8


def test_rollouts_whose_answers_depend_on_each_other_are_refused():
    with pytest.raises(UserError, match=r"has a state, which would depend on the order"):
        train(recipe("grpo").but(system=ALONE, rollout=InFlight()), steps=1, **SMALL)
    with pytest.raises(UserError, match=r"DynamicSampling does not sample each answer alone; set --system\.unit group"):
        train(recipe("dapo").but(system=ALONE), steps=1, **SMALL)
    with pytest.raises(UserError, match=r'if `unit` is "answer", a step always trains on the groups that finish first'):
        Streaming(unit="answer", trains_on="newest")
    with pytest.raises(UserError, match="unit of Streaming"):
        Streaming(unit="answers")
