"""R1-T1: form and quality by hand, the choice of a chain, and REINFORCE++ at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.papers.rewards.r1_t1 import BestChain, Translated, best_chain, r1_t1
from gradus.recipe.core import changes
from gradus.rewards.overlap import chrf
from gradus.rewards.verified import Verified
from gradus.tasks.text.translation import translation
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Group, Key, Problem

PROBLEM = Problem("p", "translation", text="q", answer="gof sur bek")


def chain(said: str, thought: str = "x") -> str:
    return f"<think>{thought}</think><answer>{said}</answer>"


def test_the_reward_by_hand() -> None:
    texts = (chain("gof sur bek"), "gof sur bek", "<think>x</think>gof sur bek", "<answer>gof sur bek</answer>", chain("gof sur"), chain("xyz"))
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=PROBLEM, completion=c) for i, c in enumerate(texts))
    world, _ = scripted_world(TOY, lambda ask: "")
    (found,) = asyncio.run(Translated().score([Group("g", rows)], {}, world))
    assert [j.reward for j in found] == pytest.approx([2.0, 0.0, 0.0, 0.0, 1 + chrf("gof sur", "gof sur bek"), 1.0])
    assert found[0].components == {"verified": 1.0, "form": 1.0, "quality": 1.0}


def test_one_chain_per_sentence() -> None:
    worse, long, short = chain("gof sur"), chain("gof sur bek", "a long thought"), chain("gof sur bek", "y")
    assert best_chain([worse, long, short, short.replace("y", "z")], PROBLEM) == short
    assert best_chain([worse, "gof sur bek"], PROBLEM) == worse
    assert best_chain(["gof sur bek", chain("xyz")], PROBLEM) is None  # no form; quality 0
    assert best_chain([chain("gof")], Problem("p", "t", text="")) is None  # no reference
    rows = [toy_trajectory([2], name=f"{i}").but(problem=PROBLEM, completion=c) for i, c in enumerate((worse, long, short))]
    assert BestChain().rows([Group("g", tuple(rows))]) == [{"problem": PROBLEM, "solution": short}]
    assert BestChain().provides == {"solution"}


def test_solutions_in_tags_have_the_form() -> None:
    task = translation(level=1, form="tags")
    for p in task.source.draw(range(20), None, Key(0)):
        assert Translated().form.value(p.meta["solution"]) == 1.0
        assert Translated().quality_of(p, p.meta["solution"]) == 1.0
        assert task.verify(p, p.meta["solution"]) == 1.0
        assert task.verify(p, f"={p.answer}") == 0.0


def test_with_the_verdict_it_is_reinforce_plus_plus() -> None:
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (r1_t1.but(reward=Verified()), reinforce_plus_plus)))
    assert set(changes(reinforce_plus_plus, r1_t1)) == {"reward"}
    assert r1_t1.credit.coefficient == 0.01
    check_micro_batches(r1_t1)
