"""Afterburner: gains and rewards by hand, percentiles, rounds that never get worse, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math

import pytest
import torch

from gradus.environments.program_cost import Cost, before, cost
from gradus.papers.agents.afterburner import CAPS, MeasuredChange, NewCosts, afterburner, gain, improvement, percentile
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.search.revised import Revised
from gradus.tasks.code.code_speed import VERSIONS, code_speed
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Group, Key, Request

TASK = code_speed(level=1, form="goal", factor=0.0)


def of(time: int, passed: float = 1.0, memory: int = 0) -> Cost:
    return Cost(passed, time, memory, 10 * memory)


def test_gains_and_improvements_of_the_row() -> None:
    assert gain(100, 50) == 0.5
    better, effect = improvement(of(100), of(50), "time")
    assert (round(effect, 4), round(better, 4)) == (0.4621, 0.7311)
    assert round(0.5 * better + 0.2, 4) == 0.5655
    assert improvement(of(100, 0.5), of(1, 0.5), "time")[0] == -0.5  # whatever the time
    assert improvement(of(100, 0.5), of(900, 0.0), "time")[0] == -0.5
    assert improvement(of(100), of(1, 0.9), "time")[0] == -1.0


def test_caps_and_zeros() -> None:
    # failed before: the cap is the baseline, so the gain is nearly 1
    better, effect = improvement(of(100, 0.0), of(120), "time")
    assert effect == pytest.approx(math.tanh((CAPS["time"] - 120) / CAPS["time"]))
    assert better == pytest.approx(1 + 0.5 * effect)
    assert improvement(of(0, 0.0), of(5), "memory")[0] == pytest.approx(1 + 0.5 * math.tanh(1))  # the largest R_imp, 1.3808
    assert (gain(0, 3), gain(0, 0), gain(1, 9)) == (-1.0, 0.0, -1.0)
    assert improvement(of(10), of(10, memory=4), "memory")[0] == pytest.approx(0.5 - 0.5 * math.tanh(1))
    assert improvement(of(10, memory=4), of(10, memory=1), "integral")[1] == pytest.approx(math.tanh(0.75))
    assert improvement(of(10**6), of(CAPS["time"]), "time")[1] == 0.0  # both at the cap


def test_percentiles() -> None:
    assert percentile(3, [2, 4, 5, 6]) == 0.75
    assert percentile(1, [2, 4]) == 1.0
    assert percentile(4, [2, 4, 5, 6]) == 0.5  # a program of equal cost does not count
    assert percentile(9, [2, 4]) == percentile(None, [2, 4]) == percentile(1, []) == 0.0


def reply(program: str) -> str:
    return f"<thinking>t</thinking><solution>\n{program}\n</solution>"


def test_rewards_of_replies() -> None:
    p = next(p for p in TASK.source.draw(range(40), 1, Key(0)) if before(p).right and p.meta["goal"] == "time")
    fast = p.meta["fast"]
    texts = [reply(fast), reply(p.meta["program"]), reply("print(0)"), fast, reply(fast) + "<thinking>"]
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=p, completion=text) for i, text in enumerate(texts))
    world, _ = scripted_world(TASK, lambda ask: "")
    (found,) = asyncio.run(MeasuredChange().score([Group("g", rows)], {}, world))
    effect = math.tanh((before(p).time - cost(fast, p.answer).time) / before(p).time)
    assert found[0].reward == pytest.approx(0.5 * (0.5 + 0.5 * effect) + 0.2)
    assert found[1].reward == pytest.approx(0.5 * 0.5 + 0.2)
    assert [j.reward for j in found[2:]] == pytest.approx([-0.3, -0.5, -0.5])  # without a form there is no program
    assert found[0].components["beyond"] > found[1].components["beyond"] >= 0.0 == found[2].components["beyond"]
    assert [j.components["verified"] for j in found] == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_the_gain_is_that_of_the_asked_cost() -> None:
    world, _ = scripted_world(TASK, lambda ask: "")
    drawn = [p for p in TASK.source.draw(range(400), 1, Key(0)) if before(p).right and before(p).memory and p.meta["goal"] != "time"]
    for goal in ("memory", "integral"):
        p = next(p for p in drawn if p.meta["goal"] == goal)
        row = toy_trajectory([2]).but(problem=p, completion=reply(p.meta["fast"]))
        ((found,),) = asyncio.run(MeasuredChange().score([Group("g", (row,))], {}, world))
        old, new = before(p).of(goal), cost(p.meta["fast"], p.answer).of(goal)
        assert found.components["gain"] == pytest.approx(math.tanh(gain(old, new)))
        assert found.reward == pytest.approx(0.5 * (0.5 + 0.5 * math.tanh(gain(old, new))) + 0.2)


def test_rounds_never_raise_the_cost_and_show_the_best_program() -> None:
    p = next(p for p in TASK.source.draw(range(400), 1, Key(0)) if before(p).right and p.meta["goal"] == "time" and p.meta["category"] == "linear")
    a, b = p.meta["says"].split()[1:]
    texts = [text.format(a=a, b=b) for text in VERSIONS["linear"]]
    replies, prompts = iter([texts[1], texts[2], texts[0], "print(0)", texts[3], texts[1]]), []

    def speak(ask):
        prompts.append(ask.request.prompt)
        return reply(next(replies))

    world, _ = scripted_world(TASK, speak, reward=MeasuredChange())
    (group,) = asyncio.run(Revised(rounds=5, feedback=NewCosts(), keep="best").run([Request(p)], world))
    assert group.trajectories[0].completion == reply(texts[3])
    rewards = [world.notes[f"revised/{n}"] for n in range(6)]
    assert rewards == sorted(rewards)
    shown = [prompt[0]["content"].split("\n", 2)[2] for prompt in prompts[1:]]
    assert shown == [texts[1], texts[2], texts[2], texts[2], texts[3]]
    assert afterburner.search == Revised(rounds=10, feedback=NewCosts(), keep="best")
    assert NewCosts().text(group.trajectories[0].but(completion="no"), world) is None


def test_without_costs_it_is_grpo() -> None:
    base = grpo.but(objective__kl=None, players__reference=None, setting__group=4)
    ours, theirs = (weights_after(r, steps=2)["policy.logits"] for r in (afterburner.but(setting__group=4), base))
    assert torch.equal(ours, theirs)
    assert {name.split(".")[0] for name in changes(grpo, afterburner)} == {"reward", "objective", "players", "search", "setting"}
    assert (afterburner.setting.group, afterburner.reward) == (32, MeasuredChange(improve=0.5, form=0.2))
    check_micro_batches(afterburner.but(setting__group=4))
