"""Syn-GRPO: the value of descriptions, which pictures replace which, what is kept and dropped, and GRPO at the limits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradus.curricula.rates import SuccessRates
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.syn_grpo import DRAWN, Described, Redrawn, syn_grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.pictures.shapes import shapes
from gradus.testing.methods import check_resumes, toy_task, toy_trajectory, train_toy, weights_after
from gradus.types import Frozen, Group, Key, Problem, UserError


def answers(problem, *said, rewards=None, values=None, texts=None):
    """A group of answers to a problem, with the components and columns that the reward gives."""
    rewards = rewards or [0.0] * len(said)
    named = [toy_trajectory([2], reward=r, name=f"{problem.id}/{i}") for i, r in enumerate(rewards)]
    rows = [t.but(problem=problem, completion=text) for t, text in zip(named, said, strict=True)]
    if values is not None:
        rows = [t.but(components=Frozen(described=v), extra=Frozen(description=d)) for t, v, d in zip(rows, values, texts, strict=True)]
    return Group(problem.id, tuple(rows))


def judged(groups, state=None):
    return asyncio.run(Described().score(groups, {}, None, state or {}))


def world(redraw=None, group=4):
    notes = []
    return SimpleNamespace(seed=Key(1), group=group, task=SimpleNamespace(level=None, redraw=redraw), notes=notes, note=lambda name, value: notes.append(value))


def test_a_description_is_worth_its_novelty():
    group = answers(Problem("p", "toy", text="a"), "1 <desc>a b c</desc>", "1 <desc>a b d</desc>", "1", "<desc>e</desc>")
    (row,), state = judged([group])
    assert [j.reward for j in row] == [0.5, 0.5, 0.0, 1.0]
    assert row[0].extra["description"] == "a b c"
    assert state == {}


def test_a_description_whose_picture_was_answered_is_worth_the_disagreement():
    shown = Problem("p", "toy", text="a", meta=Frozen({DRAWN: "a b"}))
    _, state = judged([answers(shown, "[0, 0, 1, 1]", "[0, 0, 1, 1]", "[0, 0, 1, 1]")])
    assert state == {"a b": 0.0}
    _, state = judged([answers(shown, "[0, 0, 1, 1]", "[2, 2, 3, 3]", "[4, 4, 5, 5]")], state)
    assert state == {"a b": 1.0}
    (row,), _ = judged([answers(Problem("q", "toy", text="a"), "<desc>a b</desc>", "<desc>a  b</desc>", "<desc>c</desc>")], {"a b": 0.25})
    assert [j.reward for j in row] == [0.25, 0.25, 1.0]


def test_the_best_description_of_a_group_is_kept_if_it_can_be_drawn():
    problem, rule = Problem("p", "toy", text="a"), Redrawn()
    group = answers(problem, *"wxyz", values=[0.2, 0.9, 0.8, 1.0], texts=["a", "bad", "b", ""])
    state = rule.learn([group], [], world(lambda p, d: None if d == "bad" else p), rule.start())
    assert state["kept"] == {"p": "b"}
    assert rule.learn([group], [], world(), rule.start())["kept"] == {}  # a task that cannot draw


def test_a_picture_whose_answers_have_equal_rewards_is_dropped():
    shown, rule = Problem("p", "toy", text="a", meta=Frozen({DRAWN: "b"})), Redrawn()
    start = {"drawn": 0, "kept": {"p": "b", "q": "c"}}
    equal = answers(shown, *"xy", rewards=[1.0, 1.0], values=[0.5, 0.5], texts=["d", "d"])
    assert rule.learn([], [equal], world(lambda p, d: p), start)["kept"] == {"q": "c"}
    mixed = answers(shown, *"xy", rewards=[1.0, 0.0], values=[0.5, 0.1], texts=["d", "e"])
    assert rule.learn([mixed], [], world(lambda p, d: p), start)["kept"] == {"p": "d", "q": "c"}


@pytest.mark.parametrize(("chance", "low", "high"), [(0.0, 0, 0), (0.5, 0.35, 0.65), (1.0, 1, 1)])
def test_a_new_picture_replaces_the_original_with_this_chance(chance, low, high):
    source, rule = shapes(2, "place").source, Redrawn(replace=chance, pool=10)
    kept = {p.id: "x" for p in source.draw(range(10), None, Key(1).fold("problems"))}
    here = world(lambda p, d: replace(p, answer=d))
    requests, state = rule.choose(source, 200, here, {"drawn": 0, "kept": kept})
    shown = [r.problem.answer == "x" for r in requests]
    assert low <= np.mean(shown) <= high
    assert [DRAWN in r.problem.meta for r in requests] == shown == [r.tags == ("redrawn",) for r in requests]
    assert (state["drawn"], np.mean(here.notes)) == (200, np.mean(shown))
    missing, _ = rule.choose(source, 20, world(lambda p, d: None), {"drawn": 0, "kept": kept})
    assert not any(DRAWN in r.problem.meta for r in missing)  # the original is used


def test_without_pictures_and_reward_it_is_grpo_over_the_same_pool():
    task = toy_task(syn_grpo)
    base = syn_grpo.but(reward=Verified(), curriculum=SuccessRates(factor=1, pool=6))
    off = syn_grpo.but(curriculum=Redrawn(replace=0.0, pool=6), reward__weights=Frozen(described=0.0))
    ours, plain = (weights_after(r, steps=3, task=task)["policy.logits"] for r in (off, base))
    assert torch.equal(ours, plain)
    assert set(changes(grpo, syn_grpo)) == {"reward", "curriculum", "requires"}
    assert (syn_grpo.reward, syn_grpo.curriculum) == (Verified() + 0.5 * Described(), Redrawn(replace=0.5, pool=64))


def test_without_a_server_training_goes_on_with_the_reward_for_descriptions():
    """A task that draws nothing: the same weights as with the reward alone."""
    marks = {"reward__parts__described__opening": "f", "reward__parts__described__closing": "h"}
    stopped = replace(toy_task(syn_grpo), redraw=lambda problem, description: None)
    recipe = syn_grpo.but(curriculum=Redrawn(pool=6), **marks)
    alone = recipe.but(curriculum=Redrawn(replace=0.0, pool=6))
    ours, plain = (weights_after(r, steps=3, task=stopped)["policy.logits"] for r in (recipe, alone))
    assert torch.equal(ours, plain)


def test_a_run_keeps_descriptions_and_shows_their_pictures():
    marks = {"reward__parts__described__opening": "f", "reward__parts__described__closing": "h"}
    task = replace(toy_task(syn_grpo), redraw=lambda problem, description: problem)
    recipe = syn_grpo.but(curriculum=Redrawn(replace=1.0, pool=4), **marks)
    seen = train_toy(recipe, task=task, steps=6, max_tokens=12)
    assert seen.memory.states["curriculum"]["state"]["drawn"] == 24
    assert any(row["reward/described"] > 0 for row in seen.metrics)
    assert any(row["redrawn"] > 0 for row in seen.metrics)
    check_resumes(recipe, task=task, steps=4, after=2)


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="cannot draw a picture from a description"):
        Redrawn().check_task(arithmetic())
    Redrawn(replace=0.0).check_task(arithmetic())
    Redrawn().check_task(shapes(2))
    with pytest.raises(UserError, match="the marks before and after"):
        Described(opening="")
    with pytest.raises(UserError, match=r"Redrawn\.replace"):
        Redrawn(replace=2.0)
