"""Long CoT Collection: outlines and budgets by hand, traces that end in the verified answer, tries, a written trace, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.long_cot_collection import LongTraces, collecting, long_cot_collection
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.outlined_steps import CHECK, WrittenSteps
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Accepted
from gradus.tasks.puzzles.countdown import countdown
from gradus.testing.methods import TOY, readable, scripted_world, weights_after
from gradus.types import Key, Request, UserError
from gradus.types.moments import Steps


def traces(rollout, level=2, count=40, task=None):
    task = task or countdown(misses=4)
    world, policy = scripted_world(task, lambda ask: "sampled", reward=Verified())
    problems = task.source.draw(range(count), level, Key(0))
    groups = asyncio.run(rollout.run([Request(p) for p in problems], world))
    assert policy.batches == []
    return [t for g in groups for t in g.trajectories], world


@pytest.mark.parametrize("budget", [3, 6])
def test_a_trace_has_as_many_steps_as_its_outline(budget):
    found, world = traces(LongTraces(budget=budget))
    assert sum(t.trained for t in found) >= 38
    for t in (t for t in found if t.trained):
        steps = t.completion.split(";")
        assert len(steps) == len(t.extra["outline"]) == t.extra["budget"] == budget
        assert len(set(steps)) == budget
    assert world.notes["traces/steps"] == budget


def test_every_kept_trace_ends_in_the_verified_answer_and_has_a_check():
    task = countdown(misses=4)
    found, world = traces(LongTraces(), level=3)
    for t in found:
        *steps, last = t.completion.split(";")
        assert t.trained
        assert t.right
        assert task.verify(t.problem, t.completion) == task.verify(t.problem, last) == 1.0
        tries = [s for s, title in zip(steps, t.extra["outline"], strict=False) if title == "try"]
        checks = [s for s, title in zip(steps, t.extra["outline"], strict=False) if title == "check"]
        assert [s.rpartition("=")[2] + CHECK for s in tries] == checks  # the check reads the result of the try before it
        assert all(task.verify(t.problem, s) == 0.0 for s in tries)
    assert (world.notes["traces/kept"], world.notes["traces/checks"]) == (1.0, 1.0)  # at least 0.8
    assert {t.extra["budget"] for t in found} == {3, 4, 5, 6}  # hard questions get more steps, up to 3 + level
    assert {t.extra["budget"] for t in traces(LongTraces(), level=1)[0]} == {3, 4}
    assert not any(CHECK in p.meta["solution"] for p in task.source.draw(range(40), 3, Key(0)))  # the short set has none


def test_the_nearest_seed_gives_the_flow():
    seeds = (("aaa bbb", ("first", "try", "check", "conclude")), ("from to", ("second", "try", "check", "conclude")))
    found, _ = traces(LongTraces(seeds=seeds, budget=4))
    assert {t.extra["outline"][0] for t in found} == {"second"}  # "30 from 4 6 9"


def written(say, tries=4, budget=3):
    """One trace about the letter "a", whose right answer contains "b". A player writes it."""
    asked = []

    def speak(ask):
        asked.append(readable(ask.parent.sequence))
        return say(len(asked) - 1)

    world, _ = scripted_world(TOY, speak, reward=Verified(), max_tokens=64)
    (problem,) = TOY.source.draw([0], None, Key(0))
    rollout = LongTraces(WrittenSteps(player="policy"), budget=budget, tries=tries)
    ((t,),) = (g.trajectories for g in asyncio.run(rollout.run([Request(problem)], world)))
    return t, asked, world


def test_a_player_writes_outline_and_steps_one_call_each():
    said = ["look\ndoubt\nsay", "c; d", "no", "b"]
    t, asked, _ = written(lambda i: said[i])
    assert (t.completion, t.extra["outline"], t.trained, t.source) == ("c, d;no;b", ("look", "doubt", "say"), True, "expert")
    assert "in these steps: try, check, conclude\nWrite an outline of 3 steps" in asked[0]
    assert "so far: \nWrite the step: look" in asked[1]
    assert "outline: look, doubt, say\nso far: c, d; no\nWrite the step: say" in asked[3]
    assert readable(t.contexts[0].sequence) == "ac, d;no;b|"  # the plain prompt, then the trace
    assert len(asked) == 4


def test_a_trace_is_written_again_until_it_is_right_and_has_no_repeated_step():
    said = ["x\ny\nz", "b", "no", "b", "x\ny", "x\ny\nz", "c", "d", "a", "x\ny\nz", "c", "d", "b"]  # repeated; short outline; wrong; right
    t, asked, world = written(lambda i: said[i])
    assert (t.completion, t.trained, len(asked)) == ("c;d;b", True, 13)
    assert world.notes == {"traces/steps": 3.0, "traces/checks": 0.0, "traces/kept": 1.0}
    t, asked, world = written(lambda i: said[i], tries=3)
    assert (t.completion, t.trained, t.right, len(asked)) == ("c;d;a", False, False, 9)
    assert world.notes == {"traces/kept": 0.0}


def test_stages_and_grpo_at_the_limit():
    stages = long_cot_collection.schedule.stages
    assert [(name, s.recipe, s.until) for name, s in stages.items()] == [("cold", collecting, Steps(100)), ("rl", None, Steps(100))]
    assert set(changes(grpo, long_cot_collection)) == {"schedule"}
    assert set(changes(sft, collecting)) == {"rollout", "selection", "requires"}
    assert (collecting.rollout.tries, collecting.selection, LongTraces().test, LongTraces().judges(TOY)) == (4, Accepted(), Auto(), True)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (long_cot_collection.but(schedule=ConstantSchedule()), grpo))
    assert torch.equal(one, other)
    with pytest.raises(UserError, match=r"LongTraces\.budget"):
        LongTraces(budget=2)
    with pytest.raises(UserError, match=r"LongTraces\.tries"):
        LongTraces(tries=0)
